//! What the benches share: data that is the same on every machine, and reads of it that are checked before they are measured.

pub mod data;
pub mod produce;
pub mod read;

/// The size of a bench's data: all of it, or a tenth where every bench only runs once (`cargo bench -- --test`).
pub fn scaled(records: u32) -> u32 {
    let measures = std::env::args().any(|arg| arg == "--bench") && !std::env::args().any(|arg| arg == "--test");
    if measures { records } else { records / 10 }
}
