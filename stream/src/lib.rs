//! Reads Kafka in explicit offset ranges.
