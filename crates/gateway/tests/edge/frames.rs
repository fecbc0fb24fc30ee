//! HTTP/2 by hand: frames that no library would send.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// What every client says first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The headers of `GET /` or of another method, and more of them, without any compression.
pub(crate) fn headers(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "a"),
    ];
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let field = |(name, value): &(&str, &str)| [vec![0], text(name), text(value)].concat();
    pseudo.iter().chain(more).flat_map(field).collect()
}

/// A connection made of frames.
pub(crate) struct Frames {
    writer: OwnedWriteHalf,
    reading: JoinHandle<Heard>,
}

/// What the other side said until it closed.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Why it went away, if it said so.
    pub(crate) goaway: Option<u32>,
    /// Streams that it reset.
    pub(crate) resets: usize,
    pub(crate) last_reset: Option<Instant>,
    /// Heads of answers.
    pub(crate) answers: usize,
}

impl Frames {
    /// Connects and says what every client says first, with these settings.
    pub(crate) async fn connect(address: SocketAddr, settings: &[u8]) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut reader, mut writer) = stream.into_split();
        let hello = [
            PREFACE,
            &frame(SETTINGS, 0, 0, settings),
            &frame(SETTINGS, ACK, 0, &[]),
        ];
        writer.write_all(&hello.concat()).await.unwrap();
        let reading = tokio::spawn(async move {
            let mut heard = Heard::default();
            let mut head = [0; 9];
            while reader.read_exact(&mut head).await.is_ok() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                if reader.read_exact(&mut payload).await.is_err() {
                    break;
                }
                match head[3] {
                    HEADERS => heard.answers += 1,
                    RST_STREAM => {
                        heard.resets += 1;
                        heard.last_reset = Some(Instant::now());
                    }
                    GOAWAY => {
                        let code = payload[4..8].try_into().unwrap();
                        heard.goaway = Some(u32::from_be_bytes(code));
                    }
                    _ => {}
                }
            }
            heard
        });
        Self { writer, reading }
    }

    /// Sends frames; an error says that the other side is gone.
    pub(crate) async fn send(&mut self, frames: &[Vec<u8>]) -> std::io::Result<()> {
        self.writer.write_all(&frames.concat()).await
    }

    /// What was said until the other side closed; panics if it does not.
    pub(crate) async fn heard(self, within: Duration) -> Heard {
        let heard = timeout(within, self.reading).await;
        assert!(heard.is_ok(), "the connection stays open");
        heard.unwrap().unwrap()
    }

    /// Closes, and gives what was said.
    pub(crate) async fn close(mut self, within: Duration) -> Heard {
        self.writer.shutdown().await.ok();
        self.heard(within).await
    }
}
