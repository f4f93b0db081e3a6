//! Starts real Kafka brokers for the tests.
