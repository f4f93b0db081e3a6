//! gzip by libdeflate, a C library that takes the whole input and the whole room at once, and is faster for it.
//!
//! That is what a batch nearly always is: one member with a plain header. The library's safe interface doesn't say how much of the input
//! it used, so it only gets what can't have a second member. Everything else, damage and too much output included, is left to the other
//! decoder, which says exactly what is wrong. Of what no deflate writer makes (a distance code without a symbol, say) libdeflate takes more than zlib does; the
//! checksum has to hold all the same.
//!
//! If the room was too small the member is inflated again into twice as much; once the scratch has grown that doesn't happen. The length in
//! the trailer is a claim, and not used for it.

use super::Scratch;
use libdeflater::{DecompressionError, Decompressor};
use memchr::memmem::Finder;

/// What a member begins with; with flags 0, what is inflated here begins with.
const PLAIN_MEMBER: [u8; 4] = [0x1f, 0x8b, 8, 0];

/// The context, built at the first use.
pub(super) struct OneMember {
    context: Option<Decompressor>,
    member: Finder<'static>,
}

impl Default for OneMember {
    fn default() -> Self {
        Self { context: None, member: Finder::new(b"\x1f\x8b\x08") }
    }
}

impl OneMember {
    /// Inflates `payload` if it is one member that is well; `false` leaves it, and `out`, to the other decoder.
    pub(super) fn inflate(&mut self, payload: &[u8], out: &mut Scratch) -> bool {
        let Some(rest) = payload.strip_prefix(&PLAIN_MEMBER) else { return false };
        if self.member.find(rest).is_some() {
            return false;
        }
        let context = self.context.get_or_insert_with(Decompressor::new);
        out.reserve_first(payload.len());
        loop {
            match context.gzip_decompress(payload, out.room()) {
                Ok(written) => {
                    out.advance(written);
                    return true;
                }
                Err(DecompressionError::InsufficientSpace) if out.grow().is_ok() => {}
                Err(_) => return false,
            }
        }
    }
}
