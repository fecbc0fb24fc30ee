//! An upstream of HTTP/2 made of frames, which sends what no library would.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::frames::{GOAWAY, RST_STREAM, SETTINGS, frame};

/// `:status 200`, as HPACK has it.
pub(crate) const STATUS_200: [u8; 1] = [0x88];
const ACK: u8 = 1;

/// Ends with the runtime of its test.
pub(crate) struct RawH2c {
    pub(crate) url: String,
    connections: Arc<AtomicUsize>,
    /// How many streams were reset.
    pub(crate) resets: watch::Receiver<usize>,
    /// The code of a GOAWAY, if one came.
    pub(crate) gone: watch::Receiver<Option<u32>>,
}

impl RawH2c {
    /// Sends what `script` answers to each frame, by its kind, its stream and its payload.
    pub(crate) async fn start<F>(script: F) -> Self
    where
        F: Fn(u8, u32, &[u8]) -> Vec<u8> + Clone + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("h2c://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (reset, resets) = watch::channel(0);
        let (goes, gone) = watch::channel(None);
        let count = connections.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let (reset, goes, script) = (reset.clone(), goes.clone(), script.clone());
                tokio::spawn(async move {
                    let (reader, mut writer) = stream.into_split();
                    let mut reader = BufReader::new(reader);
                    reader.read_exact(&mut [0; 24]).await.unwrap();
                    writer.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
                    let mut head = [0; 9];
                    while reader.read_exact(&mut head).await.is_ok() {
                        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
                        let mut payload = vec![0; length as usize];
                        reader.read_exact(&mut payload).await.unwrap();
                        let answer = match head[3] {
                            SETTINGS if head[4] & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
                            kind => script(kind, stream, &payload),
                        };
                        match head[3] {
                            RST_STREAM => reset.send_modify(|resets| *resets += 1),
                            GOAWAY => {
                                let code = payload[4..8].try_into().unwrap();
                                goes.send_replace(Some(u32::from_be_bytes(code)));
                            }
                            _ => {}
                        }
                        if writer.write_all(&answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            url,
            connections,
            resets,
            gone,
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}
