//! A network that misbehaves on demand, put in front of Redis or an upstream.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

use crate::listener::Listener;

/// A TCP proxy with switches for faults. A switch acts at once, on open connections too. The proxy starts without any fault. When the proxy
/// is dropped, its connections end.
#[derive(Debug)]
pub struct FaultProxy {
    listener: Listener,
    switches: Arc<watch::Sender<Switches>>,
}

/// A direction of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From clients to the server.
    ToServer = 0,
    /// From the server to clients.
    ToClient = 1,
}

impl Way {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];
}

#[derive(Debug, Default)]
struct Switches {
    faults: [Faults; 2],
    cuts: usize,
    resets: usize,
    strandings: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Faults {
    delay: Duration,
    stalled: bool,
    drip: Option<Duration>,
}

impl FaultProxy {
    /// Starts a proxy in front of this address, from within a tokio runtime. If the server cannot be reached, the client's connection is
    /// reset.
    pub fn start(server: SocketAddr) -> Self {
        let switches = Arc::new(watch::Sender::new(Switches::default()));
        let watched = Arc::clone(&switches);
        let listener = Listener::open(move |client| carry(client, server, Arc::clone(&watched)));
        Self { listener, switches }
    }

    /// Returns the address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Delays every byte by this time, without lowering the throughput. Zero ends the delay.
    pub fn delay(&self, way: Way, delay: Duration) {
        self.switch(|switches| switches.faults[way as usize].delay = delay);
    }

    /// Holds all bytes back. This also stops the sender once TCP's buffers are full. `false` lets the bytes pass again.
    pub fn stall(&self, way: Way, stalled: bool) {
        self.switch(|switches| switches.faults[way as usize].stalled = stalled);
    }

    /// Lets bytes pass one at a time, with this pause before each. `None` ends the pauses.
    pub fn drip(&self, way: Way, gap: Option<Duration>) {
        self.switch(|switches| switches.faults[way as usize].drip = gap);
    }

    /// Ends delays, stalls and drips in both directions.
    pub fn heal(&self) {
        self.switch(|switches| switches.faults = <[Faults; 2]>::default());
    }

    /// Closes all connections towards both ends (FIN). Bytes under way are lost.
    pub fn cut(&self) {
        self.switch(|switches| switches.cuts += 1);
    }

    /// Resets all connections towards both ends (RST).
    pub fn reset(&self) {
        self.switch(|switches| switches.resets += 1);
    }

    /// Forwards no more bytes on the open connections, without a signal to either end. New connections work. The same happens when a
    /// server, or a device on the way to it, loses its power and comes back.
    pub fn strand(&self) {
        self.switch(|switches| switches.strandings += 1);
    }

    /// Refuses new connections from now on. Open connections stay open.
    pub async fn refuse(&self) {
        self.listener.close().await;
    }

    /// Accepts again after [`refuse`](Self::refuse).
    pub fn accept(&self) {
        self.listener.reopen();
    }

    /// Returns the number of connections that the proxy has ever accepted.
    pub fn connections(&self) -> usize {
        self.listener.accepted()
    }

    fn switch(&self, change: impl FnOnce(&mut Switches)) {
        self.switches.send_modify(change);
    }
}

/// The way in which a connection ends.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Close,
    Reset,
    Silence,
}

type Watch = watch::Receiver<Switches>;

/// Forwards one connection until both sides have closed, a side breaks, or the test ends it.
async fn carry(mut client: TcpStream, server: SocketAddr, board: Arc<watch::Sender<Switches>>) {
    let mut switches = board.subscribe();
    let accidents = |switches: &Switches| (switches.cuts, switches.resets, switches.strandings);
    let before = accidents(&switches.borrow());
    let Ok(mut server) = TcpStream::connect(server).await else {
        client.set_zero_linger().ok();
        return;
    };
    server.set_nodelay(true).ok();
    let end = {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let there = pump(from_client, to_server, Way::ToServer, switches.clone());
        let back = pump(from_server, to_client, Way::ToClient, switches.clone());
        tokio::select! {
            ended = async { tokio::try_join!(there, back) } => {
                if ended.is_err() { Ending::Reset } else { Ending::Close }
            }
            now = switches.wait_for(|now| accidents(now) != before) => match now {
                Ok(now) if now.resets != before.1 => Ending::Reset,
                Ok(now) if now.strandings != before.2 => Ending::Silence,
                _ => Ending::Close,
            }
        }
    };
    if end == Ending::Silence {
        // A stranded connection stays open at both ends, until the proxy is dropped.
        std::future::pending::<()>().await;
    }
    for mut stream in [client, server] {
        if end == Ending::Reset {
            stream.set_zero_linger().ok();
        } else {
            stream.shutdown().await.ok();
            // Unread bytes would turn the close into a reset, so they are read first.
            while stream.try_read(&mut [0; CHUNK]).is_ok_and(|read| read > 0) {}
        }
    }
}

/// Forwards one direction until its sender closes.
async fn pump(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    way: Way,
    mut switches: Watch,
) -> io::Result<()> {
    let (queue, mut queued) = mpsc::channel::<(Instant, Bytes)>(QUEUE);
    let mut watched = switches.clone();
    let reading = async move {
        loop {
            let Faults { drip, .. } = flowing(&mut watched, way).await;
            let mut chunk =
                BytesMut::with_capacity(CHUNK).limit(if drip.is_some() { 1 } else { CHUNK });
            tokio::select! {
                read = reader.read_buf(&mut chunk) => if read? == 0 { return Ok(()) },
                _ = watched.changed() => continue,
            }
            if let Some(gap) = drip {
                tokio::select! { () = sleep(gap) => {}, _ = watched.changed() => {} }
            }
            if queue
                .send((Instant::now(), chunk.into_inner().freeze()))
                .await
                .is_err()
            {
                return Ok(()); // the writing half has failed, and returns the error
            }
        }
    };
    let writing = async move {
        while let Some((came, bytes)) = queued.recv().await {
            loop {
                let due = came + switches.borrow_and_update().faults[way as usize].delay;
                if Instant::now() >= due {
                    break;
                }
                tokio::select! { () = sleep_until(due) => {}, _ = switches.changed() => {} }
            }
            flowing(&mut switches, way).await;
            writer.write_all(&bytes).await?;
        }
        writer.shutdown().await
    };
    tokio::try_join!(reading, writing).map(|_| ())
}

/// Waits while this direction is stalled. Then returns its faults.
async fn flowing(switches: &mut Watch, way: Way) -> Faults {
    let flowing = switches.wait_for(|now| !now.faults[way as usize].stalled);
    flowing.await.expect("carry holds the sender").faults[way as usize]
}

const CHUNK: usize = 16 * 1024;

/// The most chunks that are on their way in one direction: enough that a delay does not slow the sender down.
const QUEUE: usize = 1024;

#[cfg(test)]
mod tests;
