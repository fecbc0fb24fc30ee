//! Reads the frames that an HTTP/2 client sends: counts the heads of requests, and bounds control frames.
//!
//! The HTTP/2 library itself bounds heads, their continuations, and small DATA frames, but it does not bound control frames.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// The length of the preface of an HTTP/2 connection, in bytes.
const PREFACE: usize = 24;
/// The length of the head of a frame, in bytes.
const FRAME_HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The acknowledgement of the PING that the HTTP/2 library sends with its first GOAWAY frame.
const SHUTDOWN_ACK: [u8; 17] = [
    0, 0, 8, PING, ACK, 0, 0, 0, 0, 0x0b, 0x7b, 0xa2, 0xf0, 0x8b, 0x9b, 0xfe, 0x54,
];

/// The most bytes of control frames beyond the allowances below: 3,855 pings of 17 bytes.
const MOST_CONTROL: u64 = 64 * 1024;
/// The allowance for each request, in bytes of control frames. It covers PRIORITY frames, a RST_STREAM frame, and the WINDOW_UPDATE frames
/// for a short answer.
const PER_REQUEST: u64 = 1024;
/// The allowance for each part of an answer that the client took, in bytes of control frames. Some clients send two WINDOW_UPDATE frames
/// and a PING frame for each part.
const PER_PART: u64 = 64;
/// The bytes of a part for which the client may send one more byte of control frames. A client with small windows sends more WINDOW_UPDATE
/// frames.
const BYTES_OF_PART: u64 = 8;
/// The bytes of control frames that the client may send in each second: 60 pings.
const PER_SECOND: u64 = 1024;

/// The bytes of control frames that one client may send because it took parts of answers. [`FrameReader::is_flooded`] uses them up.
#[derive(Debug, Default)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    /// Adds the allowance for a part of an answer, which had `bytes` bytes.
    pub(crate) fn add_part(&self, bytes: usize) {
        let bytes = PER_PART + bytes as u64 / BYTES_OF_PART;
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Reads the heads of frames that an HTTP/2 client sends.
#[derive(Debug)]
pub(crate) struct FrameReader {
    skip: usize,
    head: [u8; FRAME_HEAD],
    length: usize,
    // The latest stream that the client began. A HEADERS frame of an earlier stream holds trailers.
    last: u32,
    in_head: bool,
    ends_head: bool,
    // Whether the head of a PING acknowledgement was read, and its payload comes next.
    in_ack: bool,
    has_shutdown_ack: bool,
    // Whether a HEADERS frame has come without its last CONTINUATION frame.
    in_block: bool,
    // The bytes of control frames that no allowance has covered yet.
    control: u64,
    // The time up to which `PER_SECOND` was subtracted from `control`.
    paid: Instant,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self {
            skip: PREFACE,
            head: [0; FRAME_HEAD],
            length: 0,
            last: 0,
            in_head: false,
            ends_head: false,
            in_ack: false,
            has_shutdown_ack: false,
            in_block: false,
            control: 0,
            paid: Instant::now(),
        }
    }
}

impl FrameReader {
    /// Reads further bytes, and returns the number of heads that ended in them.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> usize {
        let mut heads = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                if std::mem::take(&mut self.in_ack) {
                    // The library sends two kinds of PING. The first byte of the payload shows which kind the client acknowledges.
                    self.has_shutdown_ack |= bytes[0] == SHUTDOWN_ACK[FRAME_HEAD];
                }
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
            } else {
                let more = (FRAME_HEAD - self.length).min(bytes.len());
                let (first, rest) = bytes.split_at(more);
                self.head[self.length..self.length + more].copy_from_slice(first);
                self.length += more;
                bytes = rest;
                if self.length == FRAME_HEAD {
                    self.length = 0;
                    self.begin_frame();
                }
            }
            if self.skip == 0 && std::mem::take(&mut self.ends_head) {
                heads += 1;
            }
        }
        heads
    }

    /// Whether another frame may come next: neither a frame nor a head is incomplete.
    pub(crate) const fn is_between_frames(&self) -> bool {
        self.skip == 0 && self.length == 0 && !self.in_block
    }

    /// Ignores an acknowledgement that the client sent before the library sent the PING of its shutdown.
    pub(crate) const fn forget_shutdown_ack(&mut self) {
        self.has_shutdown_ack = false;
    }

    /// Returns the frame that acknowledges the PING of the library's shutdown. Returns `None` if the client has sent this acknowledgement,
    /// or on a second call.
    pub(crate) const fn shutdown_ack(&mut self) -> Option<&'static [u8]> {
        match std::mem::replace(&mut self.has_shutdown_ack, true) {
            true => None,
            false => Some(&SHUTDOWN_ACK),
        }
    }

    /// Whether the client's control frames have more bytes than [`MOST_CONTROL`] plus all allowances: [`PER_REQUEST`], [`PER_SECOND`] and
    /// `answers`.
    pub(crate) fn is_flooded(&mut self, answers: &Allowance) -> bool {
        if self.control <= MOST_CONTROL {
            return false;
        }
        let now = Instant::now();
        let passed = now.duration_since(self.paid).as_millis();
        self.paid = now;
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let allowed = passed.saturating_mul(PER_SECOND) / 1_000;
        let allowed = allowed.saturating_add(answers.0.swap(0, Ordering::Relaxed));
        self.control = self.control.saturating_sub(allowed);
        self.control > MOST_CONTROL
    }

    /// Returns a GOAWAY frame that reports too many control frames.
    pub(crate) fn goaway(&self) -> Vec<u8> {
        const GOAWAY: u8 = 7;
        const REASON: &[u8] = b"too_many_control_frames";
        let code = h2::Reason::ENHANCE_YOUR_CALM;
        let length = 8 + REASON.len() as u8;
        let mut frame = vec![0, 0, length, GOAWAY, 0, 0, 0, 0, 0];
        frame.extend(self.last.to_be_bytes());
        frame.extend(u32::from(code).to_be_bytes());
        frame.extend(REASON);
        frame
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        match kind {
            HEADERS | CONTINUATION => {
                if kind == HEADERS && stream > self.last {
                    self.last = stream;
                    self.in_head = true;
                    self.control = self.control.saturating_sub(PER_REQUEST);
                }
                self.in_block = flags & END_HEADERS == 0;
                self.ends_head = !self.in_block && std::mem::take(&mut self.in_head);
            }
            DATA => {}
            _ => {
                self.in_ack = kind == PING && flags & ACK != 0;
                self.control += (FRAME_HEAD + self.skip) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        let head = [&size[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        [head, vec![0xff; length]].concat()
    }

    #[test]
    fn heads_are_counted_however_they_come() {
        let bytes = [
            vec![b'x'; PREFACE],
            frame(4, 0, 0, 12),
            frame(HEADERS, END_HEADERS, 1, 20),
            frame(DATA, 0, 1, 100),
            // Trailers.
            frame(HEADERS, END_HEADERS | 1, 1, 5),
            frame(HEADERS, 0, 3, 7),
            frame(CONTINUATION, 0, 3, 7),
            frame(CONTINUATION, END_HEADERS, 3, 0),
            frame(HEADERS, END_HEADERS, 5, 0),
            // Only a part of this frame comes.
            frame(HEADERS, END_HEADERS, 7, 9)[..12].to_vec(),
        ]
        .concat();
        for size in 1..bytes.len() {
            let mut reader = FrameReader::default();
            let heads: usize = bytes.chunks(size).map(|part| reader.read(part)).sum();
            assert_eq!(heads, 3, "in parts of {size}");
        }
    }

    #[test]
    fn the_shutdown_is_acknowledged_once() {
        let mut reader = FrameReader::default();
        reader.read(&[b'x'; PREFACE]);
        reader.read(&frame(PING, ACK, 0, 8));
        assert!(reader.shutdown_ack().is_some());
        assert!(reader.shutdown_ack().is_none());
        for size in 1..17 {
            let mut reader = FrameReader::default();
            reader.read(&[b'x'; PREFACE]);
            for part in SHUTDOWN_ACK.chunks(size) {
                reader.read(part);
            }
            assert!(reader.is_between_frames() && reader.shutdown_ack().is_none());
        }
    }

    /// Returns the number of `frames` that a connection accepts; `None` if it accepts all of them.
    fn taken(frames: impl Iterator<Item = Vec<u8>>, allowance: &Allowance) -> Option<usize> {
        let mut reader = FrameReader::default();
        reader.read(&[b'x'; PREFACE]);
        let is_flooded = |(_, frame): &(usize, Vec<u8>)| {
            reader.read(frame);
            reader.is_flooded(allowance)
        };
        frames.enumerate().find(is_flooded).map(|(count, _)| count)
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_are_bounded_whatever_their_kind() {
        let none = Allowance::default();
        for (kind, length, most) in [
            // PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, and a kind that HTTP/2 does not have.
            (2, 5, 4_681),
            (3, 4, 5_041),
            (4, 0, 7_281),
            (PING, 8, 3_855),
            (7, 8, 3_855),
            (8, 4, 5_041),
            (0xbe, 16 * 1024, 3),
        ] {
            let flood = std::iter::repeat_with(|| frame(kind, 0, 0, length)).take(10_000);
            assert_eq!(taken(flood, &none), Some(most), "frames of kind {kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_and_bodies_are_no_control_frames() {
        let requests = (0..100_000).flat_map(|n| {
            let stream = 2 * n + 1;
            let post = frame(HEADERS, END_HEADERS, stream, 20);
            // A reset, and a change of priority.
            let more = [frame(3, 0, stream, 4), frame(0x10, 0, 0, 10)];
            [post, frame(DATA, 1, stream, 0)].into_iter().chain(more)
        });
        assert_eq!(taken(requests, &Allowance::default()), None);
    }

    /// For each part, the client sends two window updates and a ping.
    #[tokio::test(start_paused = true)]
    async fn windows_of_answers_are_opened_as_often_as_it_takes() {
        for part in [1, 100, 16 * 1024] {
            let allowance = Allowance::default();
            let windows = (0..100_000).flat_map(|_| {
                allowance.add_part(part);
                [frame(8, 0, 1, 4), frame(8, 0, 0, 4), frame(PING, 0, 0, 8)]
            });
            assert_eq!(taken(windows, &allowance), None, "for parts of {part}");
        }
    }

    /// The allowance of one answer does not permit a later flood.
    #[tokio::test(start_paused = true)]
    async fn an_allowance_is_not_saved() {
        let allowance = Allowance::default();
        allowance.add_part(1 << 30);
        let flood = std::iter::repeat_with(|| frame(PING, 0, 0, 8)).take(100_000);
        assert_eq!(taken(flood, &allowance), Some(2 * 3_855 + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_pinged_for_days() {
        let mut reader = FrameReader::default();
        reader.read(&[b'x'; PREFACE]);
        for _ in 0..100_000 {
            tokio::time::advance(std::time::Duration::from_millis(50)).await;
            reader.read(&frame(PING, 0, 0, 8));
            assert!(!reader.is_flooded(&Allowance::default()));
        }
    }
}
