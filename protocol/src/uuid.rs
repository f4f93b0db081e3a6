//! Topic ids, directory ids (KIP-516): 16 bytes, and their text.

use std::fmt;
use std::str::FromStr;

/// A uuid. Its text is Kafka's: the 16 bytes as base64url without padding, 22 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Uuid(pub [u8; 16]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// How many characters the text has: 21 times 6 bits and 2 bits more.
const TEXT_LENGTH: usize = 22;

impl Uuid {
    /// All bytes zero, which stands for "none".
    pub const ZERO: Self = Self([0; 16]);

    /// Whether it stands for "none".
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = String::with_capacity(TEXT_LENGTH);
        for i in 0..TEXT_LENGTH {
            // The last character has but two bits, its other four are zero.
            let sextet = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 } & 0x3f;
            text.push(usize::try_from(sextet).ok().and_then(|at| ALPHABET.get(at)).map_or('?', |&byte| byte.into()));
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a uuid's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no uuid in Kafka's form, 22 characters of base64url")]
pub struct ParseUuidError(String);

impl FromStr for Uuid {
    type Err = ParseUuidError;

    /// The inverse of `Display`: exactly one text for each uuid.
    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        let error = || ParseUuidError(text.chars().take(100).collect());
        if text.len() != TEXT_LENGTH {
            return Err(error());
        }
        let mut bits = 0u128;
        for (i, byte) in text.bytes().enumerate() {
            let sextet = ALPHABET.iter().position(|&letter| letter == byte).ok_or_else(error)? as u128;
            if i < 21 {
                bits = bits << 6 | sextet;
            } else if sextet & 0x0f == 0 {
                bits = bits << 2 | sextet >> 4;
            } else {
                return Err(error());
            }
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_is_kafkas() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert!(Uuid::default().is_zero());
        let id = Uuid(*b"\x54\xb3\xd9\x97\xbf\xb7\x9f\x73\x3f\xa5\xaf\x6b\xa7\x5c\x64\x83");
        assert_eq!(id.to_string(), "VLPZl7-3n3M_pa9rp1xkgw");
        for wrong in
            ["", "VLPZl7-3n3M_pa9rp1xkg", "VLPZl7-3n3M_pa9rp1xkgw=", "VLPZl7+3n3M_pa9rp1xkgw", "VLPZl7-3n3M_pa9rp1xkgx"]
        {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed(bytes in any::<[u8; 16]>()) {
            prop_assert_eq!(Uuid(bytes).to_string().parse(), Ok(Uuid(bytes)));
        }
    }
}
