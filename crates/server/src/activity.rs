//! The state of a client connection, and the ends of its header timeout and idle timeout.

mod progress;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_net::pace::LeastRate;
use tokio::time::Instant;

use crate::flag::Flag;
use crate::frames::Allowance;
use crate::heads::Heads;

pub(crate) use progress::Wait;

/// The time without a request after which an HTTP/1 connection rests: it drops hyper's state and keeps only its socket. Most clients send
/// their next request sooner. If the client sends later, hyper's state is created again. The creation takes about the time of one request.
pub(crate) const REST: Duration = Duration::from_secs(2);

/// The state of one connection, shared by its I/O, its requests and its watchdog.
///
/// Reads and requests only store times and counts here. The watchdog is the only timer of a connection. It checks these numbers when the
/// earliest timeout could be over, so a request needs no timer of its own.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The number of request heads that came, and the number of heads that became requests.
    pub(crate) heads: Heads,
    /// HTTP/2: the bytes of control frames that the client may send because it took parts of answers.
    pub(crate) allowance: Allowance,
    /// Set while a write waits for the client to take bytes.
    pub(crate) write_stalls: Flag,
    /// Set if the connection ends because the client takes its answers too slowly.
    pub(crate) is_cut: Flag,
    /// Set when the gateway has closed its side of the connection. Later bytes are not read as a request.
    pub(crate) is_closed: Flag,
    /// Set if the connection is a tunnel, in which each side may close at any time.
    pub(crate) is_tunnel: Flag,
    /// Set when the server begins to end the connection. In HTTP/1, the next answer is the last one.
    pub(crate) drains: Flag,
    /// Set when the client has had time to notice that the connection ends. After that, the server completes the requests under way and
    /// waits for no further request.
    pub(crate) is_last_call_over: Flag,
    // In HTTP/1, all bytes between requests belong to a head. In HTTP/2, these bytes may be other frames, so they do not start the header
    // timeout.
    is_http2: Flag,
    opened: Instant,
    // The time when the connection last became idle, in milliseconds since `opened`.
    idle_since: AtomicU64,
    // The start of an incomplete head, in milliseconds since `opened`; 0 if no head is incomplete.
    head_since: AtomicU64,
    requests: AtomicUsize,
    // In HTTP/1: the number of requests so far and, in the two lowest bits, the state of the last request's body.
    in_body: AtomicU64,
    // The least rate of the answer (HTTP/1) or of all answers together (HTTP/2), in bytes per second.
    least_rate: AtomicU64,
    // The longest time that the client may be behind `least_rate`, in milliseconds.
    least_after: AtomicU64,
    // Whether the next poll must read the TCP state of the socket, such as the number of acknowledged bytes.
    asks: Flag,
    // The number of bytes that the client had acknowledged when the TCP state of the socket was last read.
    acknowledged: AtomicU64,
    header: Duration,
    idle: Duration,
}

/// There is no request body, or all of it was read.
const NO_BODY: u64 = 0;
/// The body is being read, perhaps even after the answer. The reader of the body has its own timeouts, so the watchdog checks none.
const BODY_IS_READ: u64 = 1;
/// The reader dropped the body before its end.
const BODY_IS_LEFT: u64 = 2;
/// The bits of `in_body` that hold the state of the body.
const BODY_STATE: u64 = 3;

/// The value of `least_rate` if the answer has no least rate.
const NO_RATE: u64 = 0;
/// The value of `least_rate` before the first answer.
const NO_ANSWER: u64 = u64::MAX;

/// The next step of the watchdog.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Check again at this time.
    Until(Instant),
    /// The connection may rest: it has had no work for [`REST`].
    Rest,
    /// End the connection: its idle timeout or its header timeout is over.
    Expired,
}

impl Activity {
    /// Returns the state of a new connection. The timeout of its first head begins now, so it also covers the bytes before that head.
    pub(crate) fn new(header: Duration, idle: Duration) -> Arc<Self> {
        Arc::new(Self {
            heads: Heads::default(),
            allowance: Allowance::default(),
            write_stalls: Flag::default(),
            is_cut: Flag::default(),
            is_closed: Flag::default(),
            is_tunnel: Flag::default(),
            drains: Flag::default(),
            is_last_call_over: Flag::default(),
            is_http2: Flag::default(),
            opened: Instant::now(),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(1),
            requests: AtomicUsize::new(0),
            in_body: AtomicU64::new(NO_BODY),
            least_rate: AtomicU64::new(NO_ANSWER),
            least_after: AtomicU64::new(0),
            asks: Flag::default(),
            acknowledged: AtomicU64::new(0),
            header,
            idle,
        })
    }

    /// Records that the connection speaks HTTP/2.
    pub(crate) fn multiplexes(&self) {
        self.is_http2.set();
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// Records that bytes came from the client.
    pub(crate) fn read(&self) {
        if !self.is_http2.is_set()
            && !self.is_busy()
            && self.head_since.load(Ordering::Relaxed) == 0
        {
            self.head_since.store(self.elapsed(), Ordering::Relaxed);
        }
    }

    /// Records that a request's head is complete. The request lasts until the guard is dropped. Its body, if any, lasts until [`InBody`] is
    /// dropped.
    pub(crate) fn request(self: &Arc<Self>, has_body: bool) -> RequestGuard {
        // Replaces the state of the previous body. In HTTP/1 that body is over, and in HTTP/2 the state is not used.
        let body = if has_body { BODY_IS_READ } else { NO_BODY };
        let number = self.in_body.load(Ordering::Relaxed) / (BODY_STATE + 1) + 1;
        self.in_body
            .store(number * (BODY_STATE + 1) + body, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        RequestGuard(self.clone())
    }

    /// Returns the time since the last request or body ended; zero while a request or a body is under way.
    pub(crate) fn quiet_for(&self) -> Duration {
        if self.is_busy() {
            return Duration::ZERO;
        }
        let since = self.idle_since.load(Ordering::Relaxed);
        Duration::from_millis(self.elapsed().saturating_sub(since))
    }

    /// Whether the connection has no request, no tunnel and no write that waits for the client.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_busy() && !self.write_stalls.is_set() && !self.is_tunnel.is_set()
    }

    /// Whether a request is under way.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether the next byte from an HTTP/1 client belongs to a head: there is no tunnel, no request under way, and no unread part of a
    /// body.
    pub(crate) fn awaits_head(&self) -> bool {
        self.body_state() == NO_BODY && !self.has_requests() && !self.is_tunnel.is_set()
    }

    /// Checks the header timeout and the idle timeout. Returns the next step of the watchdog.
    pub(crate) fn watch(&self) -> Watch {
        let now = Duration::from_millis(self.elapsed());
        let may_rest = !self.is_http2.is_set();
        let soon = now + self.header.min(REST);
        if self.is_busy() {
            return Watch::Until(self.opened + soon.min(now + self.idle));
        }
        let began = self.head_since.load(Ordering::Relaxed);
        let is_idle = began == 0;
        let (until, rests_at) = if is_idle {
            let since = Duration::from_millis(self.idle_since.load(Ordering::Relaxed));
            (since + self.idle, since + REST)
        } else {
            (Duration::from_millis(began) + self.header, soon)
        };
        if until <= now {
            return Watch::Expired;
        }
        match may_rest && is_idle && self.is_done() {
            true if rests_at <= now => Watch::Rest,
            true => Watch::Until(self.opened + until.min(rests_at)),
            // Checks again soon: a head may begin at any time, and its timeout is usually shorter than the idle timeout.
            false => Watch::Until(self.opened + until.min(soon)),
        }
    }

    /// Returns the time at which the idle timeout ends.
    pub(crate) fn idle_until(&self) -> Instant {
        let since = Duration::from_millis(self.idle_since.load(Ordering::Relaxed));
        self.opened + since + self.idle
    }

    /// Whether a request is under way, or the body of an answered request is still being read.
    fn is_busy(&self) -> bool {
        let in_body = !self.is_http2.is_set() && self.body_state() == BODY_IS_READ;
        in_body || self.has_requests()
    }

    fn body_state(&self) -> u64 {
        self.in_body.load(Ordering::Relaxed) & BODY_STATE
    }

    /// Sets the least rate at which the client must take the next answer. The writes of an HTTP/2 connection must reach the lowest rate of
    /// all its answers. In addition, `stream.rs` checks the rate of each answer.
    pub(crate) fn answers_at(&self, least: Option<LeastRate>) {
        let after = least.map_or(0, |least| least.after.as_millis());
        let after = u64::try_from(after).unwrap_or(u64::MAX);
        let rate = least.map_or(NO_RATE, |least| least.rate.get());
        if self.is_http2.is_set() {
            self.least_after.fetch_max(after, Ordering::Relaxed);
            self.least_rate.fetch_min(rate, Ordering::Relaxed);
        } else {
            self.least_after.store(after, Ordering::Relaxed);
            self.least_rate.store(rate, Ordering::Relaxed);
        }
    }

    /// Returns the least rate of the answer. A tunnel has no least rate.
    pub(crate) fn least_rate(&self) -> Option<LeastRate> {
        let rate = self.least_rate.load(Ordering::Relaxed);
        let rate = NonZeroU64::new(rate).filter(|rate| rate.get() != NO_ANSWER)?;
        let after = Duration::from_millis(self.least_after.load(Ordering::Relaxed));
        (!self.is_tunnel.is_set()).then_some(LeastRate { rate, after })
    }

    /// Records that from now on no request or body is under way.
    fn note_idle(&self) {
        let now = self.elapsed();
        self.idle_since.store(now, Ordering::Relaxed);
    }

    /// Whether the next byte begins a head, all answers are sent, and further requests may come. Only such a connection may rest. During a
    /// body, for example, a new hyper state would read the remaining bytes as a request.
    fn is_done(&self) -> bool {
        let not = [
            &self.is_closed,
            &self.write_stalls,
            &self.is_tunnel,
            &self.drains,
        ];
        self.body_state() == NO_BODY && !not.iter().any(|not| not.is_set())
    }

    // Returns the milliseconds since `opened`, plus 1. The result is never 0, because 0 in `head_since` means "no head".
    fn elapsed(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}

/// A request on a connection. The connection is idle again when the last guard is dropped.
#[derive(Debug)]
pub struct RequestGuard(Arc<Activity>);

/// Tracks the body of a request while it is read. If the value is dropped before the end of the body, the connection cannot rest until the
/// next request.
#[derive(Debug)]
pub(crate) struct InBody {
    activity: Arc<Activity>,
    // The value of `Activity::in_body` for this body. If that field has another value, this body has ended, or a later request has begun.
    state: u64,
}

impl InBody {
    /// Records that the whole body was read.
    pub(crate) fn ended(self) {
        self.becomes(NO_BODY);
    }

    /// Stores the new state `after` of the body, unless the body has already ended or a later request has come.
    fn becomes(&self, after: u64) {
        let after = self.state & !BODY_STATE | after;
        let in_body = &self.activity.in_body;
        let changed =
            in_body.compare_exchange(self.state, after, Ordering::Relaxed, Ordering::Relaxed);
        if changed.is_ok() && !self.activity.has_requests() {
            self.activity.note_idle();
        }
    }
}

impl Drop for InBody {
    fn drop(&mut self) {
        self.becomes(BODY_IS_LEFT);
    }
}

impl RequestGuard {
    /// Returns the state of the request's body, for the reader of the body. The caller must call this function before the next request
    /// begins.
    pub(crate) fn body(&self) -> InBody {
        InBody {
            activity: self.0.clone(),
            state: self.0.in_body.load(Ordering::Relaxed),
        }
    }

    /// Whether the connection ends because the client takes its answers too slowly.
    pub fn is_cut(&self) -> bool {
        self.0.is_cut.is_set()
    }

    /// Records that the connection is a tunnel from now on.
    pub fn tunnels(&self) {
        self.0.is_tunnel.set();
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.note_idle();
        }
    }
}

#[cfg(test)]
mod tests;
