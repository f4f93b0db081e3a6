//! An in-memory Kafka broker on real sockets.
