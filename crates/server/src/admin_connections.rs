//! The connections of the admin port. They are few and short. A new connection never waits until an open connection ends.
//!
//! If the bound of its address or the bound of all addresses is reached, a new connection closes the connection that has been idle for
//! longest. So a probe gets a connection even if other clients hold many idle connections. If no connection is idle, the oldest stream is
//! closed. If the bound of an address is reached, only connections of this address that have no stream are closed.
//!
//! A stream counts towards the bound of all addresses, but not towards the bound of its address. Otherwise status pages at one address
//! would repeatedly close each other's streams. The caller of [`AdminConnection::stream`] bounds the number of streams.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use tidegate_net::descriptors;

/// The most open connections of all addresses together. Probes and scrapers are few.
const MOST: usize = 64;
/// The most open connections of one address. Connections with a stream are not counted.
const MOST_OF_IP: usize = 16;

/// The value of `idle_since` while an answer is prepared.
const BUSY: u64 = u64::MAX;
/// The bit that is set in `idle_since` while the answer is a stream. With this bit, streams sort after all idle connections, and are closed
/// last.
const STREAM: u64 = 1 << 63;

/// All connections that are open.
#[derive(Debug, Default)]
pub struct AdminConnections {
    open: Mutex<Vec<Open>>,
    // Counts events. The count serves as the time in this file.
    clock: AtomicU64,
}

#[derive(Debug)]
struct Open {
    id: u64,
    ip: IpAddr,
    // The time since which the connection has been idle, or `STREAM` plus the start of its stream, or `BUSY`.
    idle_since: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Open {
    fn has_stream(&self) -> bool {
        let since = self.idle_since.load(Ordering::Relaxed);
        since != BUSY && since & STREAM != 0
    }
}

/// Marks the answer of a connection as a stream. The drop of this mark makes the connection idle.
#[derive(Debug)]
pub struct AdminStream {
    connections: Arc<AdminConnections>,
    idle_since: Arc<AtomicU64>,
    // The value that was stored in `idle_since`. It is unique to this stream.
    since: u64,
}

/// A handle for the server of a connection. The connection counts as open until the handle is dropped.
#[derive(Debug)]
pub struct AdminConnection {
    connections: Arc<AdminConnections>,
    id: u64,
    idle_since: Arc<AtomicU64>,
}

impl AdminConnections {
    /// Opens a connection from an address, and calls `serve`. At a bound, closes another connection first. If no other connection may be
    /// closed, `serve` is dropped without a call, which closes the new connection.
    pub fn open(self: &Arc<Self>, ip: IpAddr, serve: impl FnOnce(AdminConnection) -> AbortHandle) {
        let ip = ip.to_canonical();
        let id = self.tick();
        // The lock is held until the new connection is in the list. If the connection ends at once, its removal waits for this lock.
        let mut open = self.open.lock();
        let is_of_ip = |one: &Open| one.ip == ip && !one.has_stream();
        let of_ip = open.iter().filter(|one| is_of_ip(one)).count();
        let is_full = of_ip >= MOST_OF_IP || open.len() >= MOST.min(descriptors::shares().admin);
        if is_full {
            let longest_idle = open
                .iter()
                .enumerate()
                .filter(|(_, one)| of_ip < MOST_OF_IP || is_of_ip(one))
                .map(|(at, one)| (one.idle_since.load(Ordering::Relaxed), at))
                .filter(|(since, _)| *since != BUSY)
                .min();
            let Some((_, at)) = longest_idle else {
                return;
            };
            open.swap_remove(at).task.abort();
        }
        let idle_since = Arc::new(AtomicU64::new(id));
        let task = serve(AdminConnection {
            connections: self.clone(),
            id,
            idle_since: idle_since.clone(),
        });
        open.push(Open {
            id,
            ip,
            idle_since,
            task,
        });
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

impl AdminConnection {
    /// Records a request. Until [`idle`](Self::idle) is called, a new connection cannot close this connection.
    pub fn busy(&self) {
        self.idle_since.store(BUSY, Ordering::Relaxed);
    }

    /// Records that the answer is ready. From now on the connection may be closed, even if the client has not read the answer. If the
    /// answer is a stream, the call has no effect.
    pub fn idle(&self) {
        let now = self.connections.tick();
        let order = Ordering::Relaxed;
        let _ = self.idle_since.compare_exchange(BUSY, now, order, order);
    }

    /// Marks the answer as a stream.
    pub fn stream(&self) -> AdminStream {
        let since = STREAM | self.connections.tick();
        self.idle_since.store(since, Ordering::Relaxed);
        AdminStream {
            connections: self.connections.clone(),
            idle_since: self.idle_since.clone(),
            since,
        }
    }
}

impl Drop for AdminStream {
    fn drop(&mut self) {
        let now = self.connections.tick();
        // Keeps a newer value, which a later request or stream has stored.
        let (order, state) = (Ordering::Relaxed, &self.idle_since);
        let _ = state.compare_exchange(self.since, now, order, order);
    }
}

impl Drop for AdminConnection {
    fn drop(&mut self) {
        self.connections.open.lock().retain(|one| one.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// Serves a connection without end.
    fn serve(connection: AdminConnection) -> AbortHandle {
        let served = async move {
            let _connection = connection;
            pending::<()>().await;
        };
        tokio::spawn(served).abort_handle()
    }

    fn open(connections: &Arc<AdminConnections>, ip: &str) {
        connections.open(ip.parse().unwrap(), serve);
    }

    fn count(connections: &Arc<AdminConnections>, ip: &str) -> usize {
        let ip: IpAddr = ip.parse().unwrap();
        let open = connections.open.lock();
        open.iter().filter(|one| one.ip == ip).count()
    }

    #[tokio::test]
    async fn an_address_has_a_share_and_others_give_way_to_it() {
        let connections = Arc::new(AdminConnections::default());
        for _ in 0..100 {
            open(&connections, "192.0.2.1");
        }
        assert_eq!(count(&connections, "192.0.2.1"), MOST_OF_IP);
        for n in 0..100 {
            open(&connections, &format!("198.51.100.{n}"));
        }
        assert_eq!(connections.open.lock().len(), MOST);
        open(&connections, "::ffff:192.0.2.1");
        assert_eq!(count(&connections, "192.0.2.1"), 1);
    }

    #[tokio::test]
    async fn a_stream_gives_way_last_and_is_none_of_its_address() {
        let connections = Arc::new(AdminConnections::default());
        let (sender, mut streams) = tokio::sync::mpsc::unbounded_channel();
        let open_stream = |ip: &str| {
            let sender = sender.clone();
            connections.open(ip.parse().unwrap(), |connection| {
                connection.busy();
                sender.send(connection.stream()).unwrap();
                connection.idle();
                serve(connection)
            });
        };
        let streams_of = |ip: &str| {
            let ip: IpAddr = ip.parse().unwrap();
            let open = connections.open.lock();
            let streams = open.iter().filter(|one| one.ip == ip && one.has_stream());
            streams.count()
        };
        for _ in 0..MOST_OF_IP {
            open_stream("192.0.2.1");
        }
        for _ in 0..100 {
            open(&connections, "192.0.2.1");
        }
        assert_eq!(streams_of("192.0.2.1"), MOST_OF_IP);
        assert_eq!(count(&connections, "192.0.2.1"), 2 * MOST_OF_IP);
        for n in 0..100 {
            open(&connections, &format!("198.51.100.{n}"));
        }
        assert_eq!(streams_of("192.0.2.1"), MOST_OF_IP, "idle ones give way");
        drop(streams.recv().await);
        assert_eq!(streams_of("192.0.2.1"), MOST_OF_IP - 1, "it has ended");
        // If no connection is idle, a stream is closed, so that a probe does not wait.
        for n in 0..100 {
            open_stream(&format!("203.0.113.{n}"));
        }
        assert_eq!(streams_of("192.0.2.1"), 0);
        open(&connections, "192.0.2.9");
        assert_eq!(count(&connections, "192.0.2.9"), 1);
    }

    #[tokio::test]
    async fn the_end_of_a_stream_is_not_that_of_a_later_one() {
        let connections = Arc::new(AdminConnections::default());
        let mut streams = Vec::new();
        connections.open("192.0.2.1".parse().unwrap(), |connection| {
            streams.extend([connection.stream(), connection.stream()]);
            serve(connection)
        });
        let has_stream = || connections.open.lock()[0].has_stream();
        drop(streams.remove(0));
        assert!(has_stream());
        streams.clear();
        assert!(!has_stream());
    }

    #[tokio::test]
    async fn one_that_is_served_does_not_give_way() {
        let connections = Arc::new(AdminConnections::default());
        open(&connections, "192.0.2.1");
        let first = connections.open.lock()[0].idle_since.clone();
        first.store(BUSY, Ordering::Relaxed);
        for _ in 0..MOST_OF_IP {
            open(&connections, "192.0.2.1");
        }
        let is_there = |connections: &Arc<AdminConnections>| {
            let open = connections.open.lock();
            open.iter().any(|one| Arc::ptr_eq(&one.idle_since, &first))
        };
        assert!(is_there(&connections));
        let all = connections.open.lock();
        all.iter()
            .for_each(|one| one.idle_since.store(BUSY, Ordering::Relaxed));
        drop(all);
        // No connection is idle, so the new connection is closed.
        let before = connections.clock.load(Ordering::Relaxed);
        open(&connections, "192.0.2.1");
        let open = connections.open.lock();
        assert!(open.iter().all(|one| one.id < before));
    }
}
