//! A proxy in front of Redis. It detects where commands and replies end, so that it can forward a command and lose its reply.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::sleep,
};

use crate::listener::Listener;

/// A proxy that speaks RESP2. It starts without any fault, and its connections end when it is dropped.
#[derive(Debug)]
pub struct RedisProxy {
    listener: Listener,
    board: Arc<Board>,
}

/// A fault that strikes one script call (EVAL, EVALSHA), or the reply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// The call never reaches Redis, and the connection is reset.
    Unsent,
    /// The call, and all commands after it on the connection, reach Redis later by this time.
    SentLate(Duration),
    /// Half of the call reaches Redis, and then the connection is reset.
    HalfSent,
    /// The script runs, its reply is lost, and the connection is reset.
    Unanswered,
    /// The script runs, half of its reply reaches the client, and then the connection is reset.
    HalfAnswered,
    /// The script runs. Its reply, and all replies after it on the connection, reach the client later by this time.
    AnsweredLate(Duration),
    /// The call never reaches Redis, and the proxy replies with this error.
    Refused(&'static str),
}

/// The command that the proxy sends in place of a [`CallFault::Refused`] call, so that Redis sends one reply for each command.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

#[derive(Debug)]
struct Board {
    faults: Mutex<Faults>,
    switches: watch::Sender<Switches>,
}

#[derive(Debug, Default)]
struct Faults {
    // Each fault, with the number of script calls that pass before the fault strikes one.
    planned: Vec<(usize, CallFault)>,
    struck: Vec<SystemTime>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Switches {
    held: bool,
    resets: usize,
}

impl RedisProxy {
    /// Starts a proxy in front of this address, from within a tokio runtime. If the server cannot be reached, the client's connection is
    /// reset.
    pub fn start(server: SocketAddr) -> Self {
        let board = Arc::new(Board {
            faults: Mutex::default(),
            switches: watch::Sender::new(Switches::default()),
        });
        let shared = Arc::clone(&board);
        let listener = Listener::open(move |client| carry(client, server, Arc::clone(&shared)));
        Self { listener, board }
    }

    /// Returns the address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Plans this fault for one script call on any connection, after `skip` other script calls.
    pub fn strike(&self, skip: usize, fault: CallFault) {
        self.board
            .faults
            .lock()
            .unwrap()
            .planned
            .push((skip, fault));
    }

    /// Returns the times at which a fault struck a call.
    pub fn struck(&self) -> Vec<SystemTime> {
        self.board.faults.lock().unwrap().struck.clone()
    }

    /// Drops the faults that have struck no call yet, and lets held traffic pass.
    pub fn heal(&self) {
        self.board.faults.lock().unwrap().planned.clear();
        self.hold(false);
    }

    /// Holds all commands and replies back. `false` lets commands and replies pass again.
    pub fn hold(&self, held: bool) {
        self.board
            .switches
            .send_modify(|switches| switches.held = held);
    }

    /// Resets all connections towards both ends.
    pub fn reset(&self) {
        self.board
            .switches
            .send_modify(|switches| switches.resets += 1);
    }

    /// Refuses new connections from now on. Open connections stay open.
    pub async fn refuse(&self) {
        self.listener.close().await;
    }

    /// Accepts again after [`refuse`](Self::refuse).
    pub fn accept(&self) {
        self.listener.reopen();
    }
}

impl Board {
    /// Returns the fault for this command.
    fn fault_of(&self, command: &[u8]) -> Option<CallFault> {
        let name = command.splitn(4, |byte| *byte == b'\n').nth(2)?;
        if !name.to_ascii_uppercase().starts_with(b"EVAL") {
            return None;
        }
        let mut faults = self.faults.lock().unwrap();
        let due = faults.planned.iter().position(|(skip, _)| *skip == 0);
        for (skip, _) in &mut faults.planned {
            *skip = skip.saturating_sub(1);
        }
        let (_, fault) = faults.planned.remove(due?);
        faults.struck.push(SystemTime::now());
        Some(fault)
    }

    /// Waits while traffic is held back.
    async fn flowing(&self) {
        let mut switches = self.switches.subscribe();
        // The sender is a part of `self`, so this returns no error.
        let _ = switches.wait_for(|now| !now.held).await;
    }
}

/// Forwards one connection until a side or a fault ends it.
async fn carry(mut client: TcpStream, server: SocketAddr, board: Arc<Board>) {
    let mut switches = board.switches.subscribe();
    let before = switches.borrow_and_update().resets;
    let Ok(mut server) = TcpStream::connect(server).await else {
        client.set_zero_linger().ok();
        return;
    };
    server.set_nodelay(true).ok();
    let waiting = Mutex::new(VecDeque::new());
    {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        tokio::select! {
            _ = commands(from_client, to_server, &board, &waiting) => {}
            _ = replies(from_server, to_client, &board, &waiting) => {}
            _ = switches.wait_for(|now| now.resets != before) => {}
        }
    }
    client.set_zero_linger().ok();
    server.set_zero_linger().ok();
}

/// Forwards commands. For each command, queues the fault of its reply, or `None`.
async fn commands(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    board: &Board,
    waiting: &Mutex<VecDeque<Option<CallFault>>>,
) -> io::Result<()> {
    let mut unread = BytesMut::new();
    loop {
        while let Some(length) = frame(&unread) {
            let command = unread.split_to(length);
            board.flowing().await;
            let fault = board.fault_of(&command);
            match fault {
                Some(CallFault::Unsent) => return Ok(()),
                Some(CallFault::SentLate(late)) => sleep(late).await,
                Some(CallFault::HalfSent) => {
                    return writer.write_all(&command[..length / 2]).await;
                }
                _ => {}
            }
            waiting.lock().unwrap().push_back(fault);
            let sent = match fault {
                Some(CallFault::Refused(_)) => PING,
                _ => &command[..],
            };
            writer.write_all(sent).await?;
        }
        if reader.read_buf(&mut unread).await? == 0 {
            return Ok(());
        }
    }
}

/// Forwards replies, and applies to each the queued fault of its command.
async fn replies(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    board: &Board,
    waiting: &Mutex<VecDeque<Option<CallFault>>>,
) -> io::Result<()> {
    let mut unread = BytesMut::new();
    loop {
        while let Some(length) = frame(&unread) {
            let reply = unread.split_to(length);
            let fault = waiting.lock().unwrap().pop_front().flatten();
            board.flowing().await;
            match fault {
                Some(CallFault::Unanswered) => return Ok(()),
                Some(CallFault::HalfAnswered) => {
                    return writer.write_all(&reply[..length / 2]).await;
                }
                Some(CallFault::AnsweredLate(late)) => sleep(late).await,
                Some(CallFault::Refused(error)) => {
                    writer.write_all(format!("-{error}\r\n").as_bytes()).await?;
                    continue;
                }
                _ => {}
            }
            writer.write_all(&reply).await?;
        }
        if reader.read_buf(&mut unread).await? == 0 {
            return Ok(());
        }
    }
}

/// Returns the length in bytes of the first command or reply, or `None` if it is not complete.
fn frame(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let number = || -> i64 {
        let text = std::str::from_utf8(&bytes[1..line]).unwrap_or_default();
        text.parse()
            .unwrap_or_else(|_| panic!("not RESP2: {text:?}"))
    };
    let mut end = line + 2;
    match bytes[0] {
        b'$' => {
            if let Ok(length) = usize::try_from(number()) {
                end += length + 2;
            }
        }
        b'*' => {
            for _ in 0..number() {
                end += frame(bytes.get(end..)?)?;
            }
        }
        _ => {}
    }
    (end <= bytes.len()).then_some(end)
}

#[cfg(test)]
mod tests;
