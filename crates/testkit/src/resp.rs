//! A minimal Redis client (RESP2), so that tests read Redis independently of the store's client.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// An answer of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A missing value, or a missing array.
    Nil,
    /// An integer.
    Int(i64),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// A status, such as `OK`.
    Status(String),
    /// An error, with its code in front.
    Error(String),
    /// A list of replies.
    Array(Vec<Self>),
}

impl Reply {
    /// Returns an integer that was sent as an integer or as text. Panics on any other reply.
    pub fn as_int(&self) -> i64 {
        match self {
            Self::Int(int) => *int,
            other => other
                .as_str()
                .parse()
                .unwrap_or_else(|_| panic!("not an integer: {other:?}")),
        }
    }

    /// Returns the text of a string or a status. Panics on any other reply.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Bulk(bytes) => {
                std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("not text: {self:?}"))
            }
            Self::Status(text) => text,
            _ => panic!("not a string: {self:?}"),
        }
    }

    /// Returns the items of an array. Panics on any other reply.
    pub fn as_array(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => panic!("not an array: {self:?}"),
        }
    }

    /// Whether there is no value.
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Whether Redis refused the command.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Parses one reply. Returns it with its length in bytes, or `None` if it is not complete.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let line_end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let line = String::from_utf8_lossy(&bytes[1..line_end]).into_owned();
        let mut used = line_end + 2;
        let number = || {
            line.parse::<i64>()
                .unwrap_or_else(|_| panic!("not RESP2: {line:?}"))
        };
        let reply = match bytes[0] {
            b'+' => Self::Status(line),
            b'-' => Self::Error(line),
            b':' => Self::Int(number()),
            b'$' | b'*' if number() < 0 => Self::Nil,
            b'$' => {
                let end = used + usize::try_from(number()).unwrap();
                let content = bytes.get(used..end)?.to_vec();
                used = end + 2;
                bytes.get(..used)?;
                Self::Bulk(content)
            }
            b'*' => {
                let mut items = Vec::new();
                for _ in 0..number() {
                    let (item, length) = Self::parse(&bytes[used..])?;
                    items.push(item);
                    used += length;
                }
                Self::Array(items)
            }
            other => panic!("not RESP2: {:?}", char::from(other)),
        };
        Some((reply, used))
    }
}

/// A connection that sends one command at a time.
#[derive(Debug)]
pub struct RedisConnection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl RedisConnection {
    /// Connects to Redis.
    pub async fn open(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            stream: TcpStream::connect(addr).await?,
            unread: Vec::new(),
        })
    }

    /// Sends a command of these words, and waits for its reply for ten seconds at most. An error of Redis is a reply. An `Err` means that
    /// no reply came.
    pub async fn command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<Reply> {
        timeout(Duration::from_secs(10), self.ask(words)).await?
    }

    async fn ask<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<Reply> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&command).await?;
        loop {
            if let Some((reply, used)) = Reply::parse(&self.unread) {
                self.unread.drain(..used);
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_or_not_there_yet() {
        let bytes = b"*5\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*2\r\n+OK\r\n-ERR no\r\n*0\r\n";
        let items = [
            Reply::Int(-7),
            Reply::Bulk(b"a\r\nb".to_vec()),
            Reply::Nil,
            Reply::Array(vec![
                Reply::Status("OK".into()),
                Reply::Error("ERR no".into()),
            ]),
            Reply::Array(vec![]),
        ];
        assert_eq!(
            Reply::parse(bytes),
            Some((Reply::Array(items.to_vec()), bytes.len()))
        );
        assert!((0..bytes.len()).all(|cut| Reply::parse(&bytes[..cut]).is_none()));
    }
}
