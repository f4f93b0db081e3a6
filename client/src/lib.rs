//! Kafka client.
