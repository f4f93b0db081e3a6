//! The codecs of record batches, as Kafka frames them.
//!
//! A batch's attributes name the codec (KIP-98); what is compressed is the record area of a v2 batch, or the value of a wrapper message
//! in the formats before it. [`Decompressor`] inflates into a scratch that is kept from batch to batch, with the codecs' contexts, so
//! that a steady stream of batches allocates nothing. [`Compressor`] is the other direction.
//!
//! | id | codec | framing | since |
//! |---|---|---|---|
//! | 0 | none | | |
//! | 1 | gzip | RFC 1952 members, one after the other | |
//! | 2 | snappy | xerial's stream of blocks (Java) or one bare block (librdkafka, Go) | |
//! | 3 | lz4 | one LZ4 frame of independent blocks | KIP-57 for its header checksum |
//! | 4 | zstd | frames, one after the other | KIP-110, v2 batches only |
//!
//! Every size inside compressed data is a claim. The scratch grows as output appears, by doubling, and never beyond
//! [`Decompressor::batch_inflated_bytes_max`].

mod compressor;
mod gzip;
#[cfg(feature = "libdeflate")]
mod gzip_c;
mod lz4;
mod scratch;
mod snappy;
mod zstd;
#[cfg(feature = "zstd")]
mod zstd_c;
#[cfg(not(feature = "zstd"))]
mod zstd_rust;

use crate::DecodeErrorKind;
pub use compressor::Compressor;
use scratch::Scratch;
use std::fmt;

/// The default of [`Decompressor::batch_inflated_bytes_max`]: 128 MiB, far above what a broker takes by default (1 MiB compressed,
/// `message.max.bytes`), far below what hurts.
pub const BATCH_INFLATED_BYTES_MAX_DEFAULT: usize = 128 << 20;

/// How much of the scratch survives an error: a batch that can't be read should not pin what it made us allocate.
const KEPT_AFTER_ERROR_BYTES: usize = 4 << 20;

/// A codec of record batches: bits 0 to 2 of a batch's attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// snappy, in either of its two framings.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// zstd (KIP-110).
    Zstd,
}

impl Compression {
    /// The number in a batch's attributes, 0 to 4.
    pub fn id(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Kafka's name: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec that a batch's attributes name.
    ///
    /// # Errors
    /// The three bits hold 5, 6 or 7, which Kafka has not given out.
    pub fn from_attributes(attributes: i16) -> Result<Self, DecodeErrorKind> {
        Self::try_from(attributes & 7)
    }
}

impl TryFrom<i16> for Compression {
    type Error = DecodeErrorKind;

    fn try_from(id: i16) -> Result<Self, DecodeErrorKind> {
        match id {
            0 => Ok(Self::None),
            1 => Ok(Self::Gzip),
            2 => Ok(Self::Snappy),
            3 => Ok(Self::Lz4),
            4 => Ok(Self::Zstd),
            _ => Err(DecodeErrorKind::Value { value: id.into(), expected: "a codec is 0 to 4" }),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Inflates batches into one scratch, kept for the next batch together with the codecs' contexts: in steady state nothing is allocated.
///
/// The scratch grows by doubling while output appears, up to [`batch_inflated_bytes_max`](Self::batch_inflated_bytes_max), and stays that
/// large until [`shrink_to`](Self::shrink_to), [`take_inflated`](Self::take_inflated) or an error (which keeps at most 4 MiB).
pub struct Decompressor {
    scratch: Scratch,
    gzip: gzip::Gzip,
    snappy: snap::raw::Decoder,
    zstd: zstd::Zstd,
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl Decompressor {
    /// A decompressor with [`BATCH_INFLATED_BYTES_MAX_DEFAULT`]. Nothing is allocated before the first compressed batch.
    pub fn new() -> Self {
        Self::with_limit(BATCH_INFLATED_BYTES_MAX_DEFAULT)
    }

    /// A decompressor that inflates a batch to at most `batch_inflated_bytes_max` bytes; a batch that has more is an error.
    pub fn with_limit(batch_inflated_bytes_max: usize) -> Self {
        Self {
            scratch: Scratch::new(batch_inflated_bytes_max),
            gzip: gzip::Gzip::default(),
            snappy: snap::raw::Decoder::new(),
            zstd: zstd::Zstd::default(),
        }
    }

    /// The most bytes that one batch may inflate to.
    pub fn batch_inflated_bytes_max(&self) -> usize {
        self.scratch.max()
    }

    /// Sets the most bytes that one batch may inflate to, from the next one on.
    pub fn set_batch_inflated_bytes_max(&mut self, batch_inflated_bytes_max: usize) {
        self.scratch.set_max(batch_inflated_bytes_max);
    }

    /// How many bytes the scratch holds on to now.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.allocated()
    }

    /// Gives back what the scratch holds above `bytes`, after a batch that was unusually large. What was inflated last is gone.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.scratch.shrink_to(bytes);
    }

    /// What was inflated last. Empty if the last batch wasn't compressed or couldn't be inflated.
    pub fn inflated(&self) -> &[u8] {
        self.scratch.filled()
    }

    /// Takes what was inflated last out of the scratch, for a caller that keeps a batch; the next batch starts a new scratch. Empty if
    /// the last batch wasn't compressed or couldn't be inflated.
    pub fn take_inflated(&mut self) -> Vec<u8> {
        self.scratch.take()
    }

    /// Inflates `payload`. What isn't compressed is returned as it is.
    ///
    /// # Errors
    /// The payload is damaged, ends early, or has more than [`batch_inflated_bytes_max`](Self::batch_inflated_bytes_max) bytes in it.
    pub fn inflate<'a>(&'a mut self, compression: Compression, payload: &'a [u8]) -> Result<&'a [u8], DecodeErrorKind> {
        self.inflate_as(compression, payload, lz4::HeaderChecksum::Verified)
    }

    /// The same for the value of a message of magic 0, whose writers computed the checksum of the LZ4 header over the wrong bytes:
    /// readers of magic 0 do not look at it (KIP-57).
    pub(crate) fn inflate_magic_0<'a>(
        &'a mut self,
        compression: Compression,
        payload: &'a [u8],
    ) -> Result<&'a [u8], DecodeErrorKind> {
        self.inflate_as(compression, payload, lz4::HeaderChecksum::Ignored)
    }

    fn inflate_as<'a>(
        &'a mut self,
        compression: Compression,
        payload: &'a [u8],
        lz4_header: lz4::HeaderChecksum,
    ) -> Result<&'a [u8], DecodeErrorKind> {
        let out = &mut self.scratch;
        out.clear();
        let inflated = match compression {
            Compression::None => return Ok(payload),
            Compression::Gzip => self.gzip.inflate(payload, out),
            Compression::Snappy => snappy::inflate(&mut self.snappy, payload, out),
            Compression::Lz4 => lz4::inflate(payload, lz4_header, out),
            Compression::Zstd => self.zstd.inflate(payload, out),
        };
        match inflated {
            Ok(()) => Ok(self.scratch.filled()),
            Err(failure) => {
                self.scratch.clear();
                self.scratch.shrink_to(KEPT_AFTER_ERROR_BYTES);
                Err(failure.into_kind(compression))
            }
        }
    }
}

/// Why a payload could not be inflated; the codec's name is added where it leaves this module.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The payload would fill more than the scratch may hold.
    Limit { max: usize },
    /// A checksum inside the compressed data does not hold.
    Checksum { stored: u32, computed: u32 },
    /// Anything else, in words.
    Corrupt(String),
}

impl Failure {
    fn corrupt(reason: impl Into<String>) -> Self {
        Self::Corrupt(reason.into())
    }

    /// The payload ends inside `what`.
    fn cut(what: &str) -> Self {
        Self::Corrupt(format!("it ends inside {what}"))
    }

    fn into_kind(self, compression: Compression) -> DecodeErrorKind {
        match self {
            Self::Limit { max } => DecodeErrorKind::Limit { limit: "batch_inflated_bytes_max", max },
            Self::Checksum { stored, computed } => DecodeErrorKind::Checksum { stored, computed },
            Self::Corrupt(reason) => DecodeErrorKind::Compression { codec: compression.name(), reason },
        }
    }
}
