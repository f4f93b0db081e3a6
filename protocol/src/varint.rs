//! Variable-length integers: 7 bits a byte, the low ones first, the high bit set on all but the last byte. Signed ones are zigzag
//! encoded (`(n << 1) ^ (n >> 31)`), so that small negative numbers stay short. Unsigned ones carry compact lengths and tags (KIP-482),
//! signed ones the fields of records (KIP-98).

use bytes::{BufMut, BytesMut};

/// Reads an unsigned 32-bit varint from the front of `bytes`: the value and how many bytes it took. As Java's reader, it takes at most
/// 5 bytes, ignores bits 4 to 6 of the fifth, and accepts padded forms; `None` if the bytes end first or a fifth byte goes on.
#[inline]
pub fn read_uvarint(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (i, &byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Reads a zigzag 32-bit varint; otherwise as [`read_uvarint`].
#[inline]
pub fn read_varint(bytes: &[u8]) -> Option<(i32, usize)> {
    let (raw, length) = read_uvarint(bytes)?;
    Some(((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed(), length))
}

/// Reads a zigzag 64-bit varint of at most 10 bytes.
#[inline]
pub fn read_varlong(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), i + 1));
        }
    }
    None
}

/// A zigzag varint of at most three bytes and what follows it, for what has to be quick: lengths up to 1 MiB, times up to 17 minutes apart, a
/// million records in a batch. `None` for longer ones and where the bytes end: the caller looks again.
#[inline(always)]
pub(crate) fn take_short(bytes: &[u8]) -> Option<(i32, &[u8])> {
    match bytes {
        [a, rest @ ..] if *a < 0x80 => Some((zigzag(u32::from(*a)), rest)),
        [a, b, rest @ ..] if *b < 0x80 => Some((zigzag(u32::from(*a & 0x7f) | u32::from(*b) << 7), rest)),
        [a, b, c, rest @ ..] if *c < 0x80 => {
            let raw = u32::from(*a & 0x7f) | u32::from(*b & 0x7f) << 7 | u32::from(*c) << 14;
            Some((zigzag(raw), rest))
        }
        _ => None,
    }
}

#[inline(always)]
fn zigzag(raw: u32) -> i32 {
    (raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()
}

/// Appends an unsigned 32-bit varint.
pub fn write_uvarint(out: &mut BytesMut, value: u32) {
    write_raw(out, value.into());
}

/// Appends a zigzag 32-bit varint.
pub fn write_varint(out: &mut BytesMut, value: i32) {
    write_uvarint(out, ((value << 1) ^ (value >> 31)).cast_unsigned());
}

/// Appends a zigzag 64-bit varint.
pub fn write_varlong(out: &mut BytesMut, value: i64) {
    write_raw(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

fn write_raw(out: &mut BytesMut, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.put_u8(low);
        }
        out.put_u8(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(u in any::<u32>(), i in any::<i32>(), l in any::<i64>()) {
            let mut out = BytesMut::new();
            write_uvarint(&mut out, u);
            prop_assert_eq!(read_uvarint(&out), Some((u, out.len())));
            out.clear();
            write_varint(&mut out, i);
            prop_assert_eq!(read_varint(&out), Some((i, out.len())));
            out.clear();
            write_varlong(&mut out, l);
            prop_assert_eq!(read_varlong(&out), Some((l, out.len())));
        }
    }

    #[test]
    fn javas_leniency_and_its_end() {
        assert_eq!(read_uvarint(&[0x82, 0x80, 0x00]), Some((2, 3)), "a padded form");
        assert_eq!(
            read_uvarint(&[0xff, 0xff, 0xff, 0xff, 0x7f]),
            Some((u32::MAX, 5)),
            "bits 4 to 6 of byte five fall off"
        );
        assert_eq!(read_uvarint(&[0xff, 0xff, 0xff, 0xff, 0x8f, 0x00]), None, "a sixth byte");
        assert_eq!(read_uvarint(&[0x80]), None, "cut");
    }
}
