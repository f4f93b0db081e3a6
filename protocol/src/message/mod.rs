//! One file an API: its request and its response.
