//! Idle HTTP/1 connections to one server, which are kept for later requests.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connection::Connection;
use crate::body::BodyState;
use tidegate_net::descriptors::UpstreamDescriptor;

/// The most idle connections that are kept per server.
const MOST_IDLE: usize = 1_024;

/// All lists of idle connections in this process. If file descriptors are short, the oldest connection of all lists is closed.
static LISTS: Mutex<Vec<Weak<List>>> = Mutex::new(Vec::new());

/// Connections in the order in which they were kept, the oldest first.
type List = Mutex<Vec<Idle>>;

/// The idle connections of one server.
#[derive(Debug)]
pub(crate) struct IdleConnections {
    list: Arc<List>,
    kept: Duration,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
    // The state of the last request's body. hyper may still be sending this body although the answer is complete.
    body: Option<Arc<BodyState>>,
}

impl Idle {
    /// Whether the body of the last request is still being sent.
    fn is_sending(&self, kept: Duration) -> bool {
        let moves = |body: &Arc<BodyState>| body.progress().elapsed() < kept;
        let sender = &self.connection.sender;
        !sender.is_ready() && !sender.is_closed() && self.body.as_ref().is_some_and(moves)
    }
}

impl IdleConnections {
    /// Returns an empty list. Its connections are kept for `kept`.
    pub(crate) fn new(kept: Duration) -> Self {
        let list = Arc::new(List::default());
        let mut lists = LISTS.lock();
        lists.retain(|list| list.strong_count() > 0);
        lists.push(Arc::downgrade(&list));
        Self { list, kept }
    }

    /// Keeps a connection for the next request, unless it is closed or the process is short of descriptors. `body` is the last request's
    /// body.
    pub(crate) fn keep(&self, connection: Connection, body: Option<Arc<BodyState>>) {
        if connection.sender.is_closed() || UpstreamDescriptor::are_scarce() {
            return;
        }
        let mut idle = self.list.lock();
        if idle.len() < MOST_IDLE {
            let since = Instant::now();
            idle.push(Idle {
                connection,
                since,
                body,
            });
        }
    }

    /// Takes a kept connection that is ready. Returns it with the time for which it was idle.
    pub(crate) fn take(&self) -> Option<(Connection, Duration)> {
        let mut idle = self.list.lock();
        let now = Instant::now();
        let is_old = |kept: &&Idle| now.duration_since(kept.since) >= self.kept;
        let old = idle.iter().take_while(is_old).count();
        let sending = idle.drain(..old).filter(|idle| idle.is_sending(self.kept));
        let sending: Vec<Idle> = sending.collect();
        idle.extend(sending.into_iter().map(|kept| Idle { since: now, ..kept }));
        // Takes the newest ready connection. Connections on which hyper still sends the last request stay in the list.
        for last in (0..idle.len()).rev() {
            let sender = &idle[last].connection.sender;
            if sender.is_ready() {
                let Idle {
                    connection, since, ..
                } = idle.remove(last);
                return Some((connection, now.duration_since(since)));
            }
            if sender.is_closed() {
                idle.remove(last);
            }
        }
        None
    }

    /// Closes the connection that has been idle for longest, if there is one.
    pub(crate) fn close_first(&self) {
        close_first(&self.list);
    }

    /// Closes the connection that has been idle for longest among all servers. Returns `false` if there is none.
    pub(crate) fn close_oldest() -> bool {
        let lists: Vec<Arc<List>> = LISTS.lock().iter().filter_map(Weak::upgrade).collect();
        let oldest = lists
            .iter()
            .filter_map(|list| Some((list.lock().first()?.since, list)))
            .min_by_key(|(since, _)| *since);
        oldest.is_some_and(|(_, list)| close_first(list))
    }
}

fn close_first(list: &List) -> bool {
    let mut list = list.lock();
    let is_any = !list.is_empty();
    list.drain(..usize::from(is_any));
    is_any
}
