//! A server that answers a gateway as Redis 6.2 does.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::Port;

/// A server that reports the version 6.2.14. It runs no script with `#!lua`, and its `SET` does not accept `NX` together with `GET`.
#[derive(Debug)]
pub struct OldRedis {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl OldRedis {
    /// Starts a server, from within a tokio runtime.
    pub fn start() -> Self {
        let port = Port::reserve();
        let (address, listener) = (port.addr(), port.listen());
        let task = tokio::spawn(async move {
            let _port = port;
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket));
            }
        });
        Self { address, task }
    }

    /// Returns `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl Drop for OldRedis {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: TcpStream) -> io::Result<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let count = number(&mut socket).await?;
        let mut words = Vec::new();
        for _ in 0..count {
            let mut word = vec![0; number(&mut socket).await? + 2];
            socket.read_exact(&mut word).await?;
            word.truncate(word.len() - 2);
            words.push(String::from_utf8_lossy(&word).into_owned());
        }
        let answer = answer(&words);
        socket.get_mut().write_all(answer.as_bytes()).await?;
    }
}

/// Reads the number of a line such as `*3` or `$5`.
async fn number(socket: &mut BufReader<TcpStream>) -> io::Result<usize> {
    let mut line = String::new();
    if socket.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let number = line.trim_end().get(1..).and_then(|text| text.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn answer(words: &[String]) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let name = words.first().map(|word| word.to_ascii_uppercase());
    match name.as_deref().unwrap_or_default() {
        "PING" => "+PONG\r\n".to_owned(),
        "INFO" => bulk("# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n"),
        "CLIENT" => ":1\r\n".to_owned(),
        "EVALSHA" => "-NOSCRIPT No matching script. Please use EVAL.\r\n".to_owned(),
        "EVAL" if words[1].starts_with("#!lua") => {
            "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'\r\n".to_owned()
        }
        // The reply to a heartbeat.
        "EVAL" => "*3\r\n:1000000\r\n:1\r\n:0\r\n".to_owned(),
        "SET" => "-ERR syntax error\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}
