//! Decompresses gzip that comes in parts (RFC 1952), and bounds the size of the result.
//!
//! Checksums are not compared: the client does that, and the gateway passes the body on as it is.

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// The most times that a stream may expand, beyond its first 16 MiB. Answers of APIs expand 3 to 50 times, the worst stream 1,032 times. A
/// client may request an answer that repeats itself and comes near that: it is read if it is not too long.
const MOST_TIMES: u64 = 100;
const FREE: u64 = 16 << 20;
/// Size of the buffer for decompressed bytes.
const BUFFER: usize = 4 << 10;

const CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// A decompressor of members, one after the other.
pub(crate) struct Gunzip {
    place: Place,
    flags: u8,
    /// Takes 43 KB. It is made at the first compressed byte: the head of an answer does not wait for it.
    inflate: Option<Box<InflateState>>,
    /// Compressed bytes so far, and decompressed ones.
    taken: u64,
    given: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the first ten bytes of a member: bytes read so far.
    Start(u8),
    /// The length of the field for extras: its first byte, if that was read.
    ExtraLength(Option<u8>),
    /// In the field for extras: bytes left of it.
    Extra(u16),
    Name,
    Comment,
    /// In the checksum, or in the trailer: bytes left of it.
    Checksum(u8),
    Body,
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

    /// Decompresses the next part. `found` gets the result, some KiB at a time.
    pub(crate) fn read(&mut self, part: &[u8], mut found: impl FnMut(&[u8])) {
        self.taken += part.len() as u64;
        let mut rest = part;
        while !rest.is_empty() {
            match self.place {
                Place::Failed => return,
                Place::Body => rest = self.body(rest, &mut found),
                _ => {
                    self.place = self.frame(rest[0]);
                    rest = &rest[1..];
                }
            }
        }
    }

    /// Takes a byte outside the compressed data: of a member's head or trailer.
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
                    inflate.reset(DataFormat::Raw);
                }
                Place::Start(0)
            }
            (Place::Trailer(left), _) => Place::Trailer(left - 1),
            _ => Place::Failed,
        }
    }

    /// Returns the place after this part of a member's head.
    fn behind(&self, part: u8) -> Place {
        let is_next = |next: u8, flags: u8| part < next && flags & next != 0;
        if is_next(EXTRA, self.flags) {
            Place::ExtraLength(None)
        } else if is_next(NAME, self.flags) {
            Place::Name
        } else if is_next(COMMENT, self.flags) {
            Place::Comment
        } else if self.flags & CRC != 0 {
            Place::Checksum(2)
        } else {
            Place::Body
        }
    }

    /// Decompresses the body; returns the rest of the part.
    fn body<'a>(&mut self, part: &'a [u8], found: &mut impl FnMut(&[u8])) -> &'a [u8] {
        let mut rest = part;
        let mut buffer = [0; BUFFER];
        let state = self
            .inflate
            .get_or_insert_with(|| InflateState::new_boxed(DataFormat::Raw));
        loop {
            let done = inflate(state, rest, &mut buffer, MZFlush::None);
            rest = &rest[done.bytes_consumed..];
            self.given += done.bytes_written as u64;
            if self.given > FREE + MOST_TIMES.saturating_mul(self.taken) {
                self.place = Place::Failed;
                return rest;
            }
            found(&buffer[..done.bytes_written]);
            match done.status {
                Ok(MZStatus::StreamEnd) => {
                    self.place = Place::Trailer(8);
                    return rest;
                }
                Ok(_) if rest.is_empty() && done.bytes_written < BUFFER => return rest,
                Ok(_) => {}
                // The decompressor needs more bytes.
                Err(MZError::Buf) => return &[],
                Err(_) => {
                    self.place = Place::Failed;
                    return rest;
                }
            }
        }
    }
}
