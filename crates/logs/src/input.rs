//! The bytes of a log: a file or standard input, decompressed, and its lines.

mod stdin;

use std::fs::File;
use std::io::ErrorKind::{Interrupted, InvalidData, IsADirectory};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy::UptoBlocks, FrameDecoder};

use stdin::Stdin;

/// The longest line, in bytes. A longer line is refused, and not stored.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// The size of a buffer for reads, in bytes.
const BLOCK: usize = 1 << 18;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

type Bytes = Box<dyn Read + Send>;

/// The lines of a log.
pub(crate) struct Lines {
    input: Bytes,
    buffer: Vec<u8>,
    start: usize,
    /// The offset in `buffer` up to which the current line has no end.
    searched: usize,
    end: usize,
    is_at_end: bool,
    is_too_long: bool,
    number: u64,
    read: Arc<AtomicU64>,
}

/// The next item of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The place of a line in the buffer, without the line end.
    Line(Range<usize>),
    /// A line of more than [`MAX_LINE`] bytes.
    TooLong,
    End,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Lines {
    /// Opens a file, or standard input as `-`. The first bytes show the compression. Standard input ends once `stop` is true.
    pub(crate) fn open(path: &Path, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let mut input = Counted {
            input: bytes(path, stop)?,
            read: read.clone(),
        };
        let mut magic = Vec::new();
        let mut head = input.by_ref().take(ZSTD.len() as u64);
        head.read_to_end(&mut magic)?;
        let is_gzip = magic.starts_with(&GZIP);
        let is_zstd = magic == ZSTD;
        let whole = Cursor::new(magic).chain(input);
        let input: Bytes = if is_gzip {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(BLOCK, whole)))
        } else if is_zstd {
            Box::new(Frames {
                input: BufReader::with_capacity(BLOCK, whole),
                decoder: FrameDecoder::new(),
                is_within: false,
            })
        } else {
            Box::new(whole)
        };
        Ok(Self {
            input,
            buffer: vec![0; BLOCK],
            start: 0,
            searched: 0,
            end: 0,
            is_at_end: false,
            is_too_long: false,
            number: 0,
            read,
        })
    }

    /// Steps to the next line.
    pub(crate) fn next(&mut self) -> io::Result<Next> {
        loop {
            if let Some(end) = self.end_of_line(self.searched) {
                let line = self.start..end;
                (self.start, self.searched) = (end + 1, end + 1);
                return Ok(self.line(line));
            }
            self.searched = self.end;
            if self.is_at_end {
                let line = self.start..self.end;
                self.start = self.end;
                // The last line may have no line break.
                if line.is_empty() && !self.is_too_long {
                    return Ok(Next::End);
                }
                return Ok(self.line(line));
            }
            if self.end - self.start > MAX_LINE {
                self.is_too_long = true;
            }
            if self.is_too_long {
                self.start = self.end;
            }
            self.fill()?;
        }
    }

    fn line(&mut self, line: Range<usize>) -> Next {
        self.number += 1;
        if std::mem::take(&mut self.is_too_long) || line.len() > MAX_LINE {
            return Next::TooLong;
        }
        Next::Line(self.without_return(line))
    }

    /// Returns the first end of a line from this byte on.
    fn end_of_line(&self, from: usize) -> Option<usize> {
        memchr::memchr(b'\n', &self.buffer[from..self.end]).map(|length| from + length)
    }

    fn without_return(&self, line: Range<usize>) -> Range<usize> {
        let has_return = self.buffer[line.clone()].ends_with(b"\r");
        line.start..line.end - usize::from(has_return)
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let count = loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == Interrupted => {}
                other => break other?,
            }
        };
        self.end += count;
        self.is_at_end = count == 0;
        Ok(())
    }

    pub(crate) fn bytes(&self, line: Range<usize>) -> &[u8] {
        &self.buffer[line]
    }

    /// Returns the number of the last line read, from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the counter of bytes read, before decompression.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        self.read.clone()
    }

    /// Returns at most `most` lines from the first [`BLOCK`] bytes. [`next`](Self::next) returns these lines again.
    pub(crate) fn first(&mut self, most: usize) -> io::Result<Vec<Range<usize>>> {
        while self.end < BLOCK && !self.is_at_end {
            self.fill()?;
        }
        let mut lines = Vec::new();
        let mut start = 0;
        while lines.len() < most && start < self.end {
            let end = self.end_of_line(start);
            // The end of the block may cut the last line. A cut line is skipped unless it is the only line.
            if end.is_none() && !self.is_at_end && !lines.is_empty() {
                break;
            }
            let end = end.unwrap_or(self.end);
            lines.push(self.without_return(start..end));
            start = end + 1;
        }
        Ok(lines)
    }
}

/// Opens a file, or standard input as `-`.
fn bytes(path: &Path, stop: &Arc<AtomicBool>) -> io::Result<Bytes> {
    if path == Path::new("-") {
        return Ok(Box::new(Stdin::new(stop.clone())?));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(IsADirectory, "it is a directory"));
    }
    Ok(Box::new(file))
}

/// An input that counts its bytes.
struct Counted {
    input: Bytes,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The frames of a zstd file, one after the other.
struct Frames<R: BufRead> {
    input: R,
    decoder: FrameDecoder,
    is_within: bool,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let Self {
            input,
            decoder,
            is_within,
        } = self;
        let wrong = |error| io::Error::new(InvalidData, error);
        loop {
            if !*is_within {
                if input.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                match decoder.init(&mut *input) {
                    Ok(()) => *is_within = true,
                    Err(FrameDecoderError::ReadFrameHeaderError(
                        ReadFrameHeaderError::SkipFrame { length, .. },
                    )) => {
                        io::copy(&mut input.by_ref().take(length.into()), &mut io::sink())?;
                        continue;
                    }
                    Err(error) => return Err(wrong(error)),
                }
            }
            while decoder.can_collect() == 0 && !decoder.is_finished() {
                let decoded = decoder.decode_blocks(&mut *input, UptoBlocks(1));
                decoded.map_err(wrong)?;
            }
            let count = decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            let checksum = decoder.get_checksum_from_data();
            if checksum.is_some() && checksum != decoder.get_calculated_checksum() {
                return Err(io::Error::new(InvalidData, "its checksum is wrong"));
            }
            *is_within = false;
        }
    }
}
