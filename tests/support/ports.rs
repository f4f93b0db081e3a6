//! Free ports for servers that must know theirs before they start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range that Linux gives to outgoing connections, so that nobody takes the port of a stopped node.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// A port on 127.0.0.1 that was free a moment ago; never the same twice in one process.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes start at different places.
    let start = std::process::id().wrapping_mul(7_919);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = (FIRST + start.wrapping_add(step) % COUNT) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port on 127.0.0.1 from {FIRST} on");
}
