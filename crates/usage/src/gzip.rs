//! Decompresses gzip (RFC 1952) that arrives in parts, and bounds the size of the result.
//!
//! Checksums are not verified: the gateway passes the compressed body on unchanged, and the client verifies it.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// A stream may expand to `MOST_TIMES` its compressed size, plus [`FREE`] bytes. Answers of APIs expand 3 to 50 times, the worst possible
/// stream 1,032 times.
const MOST_TIMES: u64 = 100;
/// The bytes to which any stream may expand. A client may request a short and very repetitive answer, which expands more than `MOST_TIMES`.
const FREE: u64 = 16 << 20;
/// The longest distance to a repeated text, in bytes (RFC 1951, 3.2.5).
const WINDOW: usize = 32 << 10;

const CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// A decompressor of consecutive gzip members.
pub(crate) struct Gunzip {
    place: Place,
    flags: u8,
    /// The state of the decompressor, 43 KB. It is allocated at the first compressed byte, so that it does not delay the head of an answer.
    inflate: Option<Box<Inflate>>,
    /// The number of compressed bytes so far.
    taken: u64,
    /// The number of decompressed bytes so far.
    given: u64,
}

/// A decompressor of one member, with the last decompressed bytes.
struct Inflate {
    state: DecompressorOxide,
    window: [u8; WINDOW],
    /// The place in the window for the next byte.
    at: usize,
}

impl Default for Inflate {
    fn default() -> Self {
        Self {
            state: DecompressorOxide::new(),
            window: [0; WINDOW],
            at: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the first ten bytes of a member. Holds the number of bytes read.
    Start(u8),
    /// In the length of the extra field. Holds the first byte of the length, if that byte was read.
    ExtraLength(Option<u8>),
    /// In the extra field. Holds the number of bytes left.
    Extra(u16),
    Name,
    Comment,
    /// In the checksum of a head. Holds the number of bytes left.
    Checksum(u8),
    Body,
    /// In the trailer of a member. Holds the number of bytes left.
    Trailer(u8),
    /// The stream is not gzip, or expands too much.
    Failed,
}

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::Start(0),
            flags: 0,
            inflate: None,
            taken: 0,
            given: 0,
        }
    }

    /// Returns the number of decompressed bytes so far.
    pub(crate) const fn given(&self) -> u64 {
        self.given
    }

    /// Decompresses the next part. `sink` gets the result in pieces of up to 32 KiB.
    pub(crate) fn read(&mut self, part: &[u8], mut sink: impl FnMut(&[u8])) {
        self.taken += part.len() as u64;
        let mut rest = part;
        while !rest.is_empty() {
            match self.place {
                Place::Failed => return,
                Place::Body => rest = self.body(rest, &mut sink),
                _ => {
                    self.place = self.frame(rest[0]);
                    rest = &rest[1..];
                }
            }
        }
    }

    /// Processes a byte of a member's head or trailer.
    fn frame(&mut self, byte: u8) -> Place {
        match (self.place, byte) {
            (Place::Start(0), 0x1f) => Place::Start(1),
            (Place::Start(1), 0x8b) => Place::Start(2),
            (Place::Start(2), 8) => Place::Start(3),
            (Place::Start(3), flags) if flags & RESERVED == 0 => {
                self.flags = flags;
                Place::Start(4)
            }
            (Place::Start(at @ 4..=8), _) => Place::Start(at + 1),
            (Place::Start(9), _) => self.behind(0),
            (Place::ExtraLength(None), low) => Place::ExtraLength(Some(low)),
            (Place::ExtraLength(Some(low)), high) => match u16::from_le_bytes([low, high]) {
                0 => self.behind(EXTRA),
                length => Place::Extra(length),
            },
            (Place::Extra(1), _) => self.behind(EXTRA),
            (Place::Extra(left), _) => Place::Extra(left - 1),
            (Place::Name, 0) => self.behind(NAME),
            (Place::Comment, 0) => self.behind(COMMENT),
            (place @ (Place::Name | Place::Comment), _) => place,
            (Place::Checksum(1), _) => Place::Body,
            (Place::Checksum(left), _) => Place::Checksum(left - 1),
            (Place::Trailer(1), _) => {
                if let Some(inflate) = &mut self.inflate {
                    inflate.state.init();
                }
                Place::Start(0)
            }
            (Place::Trailer(left), _) => Place::Trailer(left - 1),
            _ => Place::Failed,
        }
    }

    /// Returns the place that follows this part of a member's head.
    fn behind(&self, part: u8) -> Place {
        let is_next = |next: u8| part < next && self.flags & next != 0;
        if is_next(EXTRA) {
            Place::ExtraLength(None)
        } else if is_next(NAME) {
            Place::Name
        } else if is_next(COMMENT) {
            Place::Comment
        } else if self.flags & CRC != 0 {
            Place::Checksum(2)
        } else {
            Place::Body
        }
    }

    /// Decompresses the body of a member. Returns the unread rest of the part.
    fn body<'a>(&mut self, part: &'a [u8], sink: &mut impl FnMut(&[u8])) -> &'a [u8] {
        let mut rest = part;
        let inflate = self.inflate.get_or_insert_default();
        loop {
            let Inflate { state, window, at } = &mut **inflate;
            let (status, read, written) =
                decompress(state, rest, window, *at, TINFL_FLAG_HAS_MORE_INPUT);
            rest = &rest[read..];
            self.given += written as u64;
            if self.given > FREE + MOST_TIMES.saturating_mul(self.taken) {
                self.place = Place::Failed;
                return rest;
            }
            // Bytes before an error count, too: whether they arrive with the error depends on the parts alone.
            sink(&window[*at..*at + written]);
            *at = (*at + written) % WINDOW;
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput => return rest,
                TINFLStatus::Done => {
                    self.place = Place::Trailer(8);
                    return rest;
                }
                _ => {
                    self.place = Place::Failed;
                    return rest;
                }
            }
        }
    }
}
