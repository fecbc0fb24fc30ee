//! What a connection is doing, and until when it may go on doing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How long after its last request nothing is kept for a connection of HTTP/1 but its socket: longer than most clients take
/// to ask the next thing, as it costs about as much as a request to begin anew.
pub(crate) const REST: Duration = Duration::from_secs(2);

/// The state of one connection, shared by its I/O, its requests and its watchdog.
///
/// Reads and requests only store numbers here; the one timer of a connection is the watchdog's, which looks when the
/// earliest deadline could have come. So a request costs no timer.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    // In ms since `opened`: when the connection last became idle, and, if not 0, when a request's head began.
    idle_since: AtomicU64,
    head_since: AtomicU64,
    requests: AtomicUsize,
    write_stalls: AtomicBool,
    // Bytes that come may be the rest of a body, whose end nobody has seen.
    in_body: AtomicBool,
    closed: AtomicBool,
    watches_heads: AtomicBool,
    tunnels: AtomicBool,
    drains: AtomicBool,
    header: Duration,
    idle: Duration,
}

/// What the watchdog does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Look again then.
    Until(Instant),
    /// There is nothing to be done for the connection, and has not been for [`REST`]: it may rest.
    Rest,
    /// End the connection: it has been silent, or slow, for too long.
    Expired,
}

impl Activity {
    /// A connection that was just accepted: its first head has begun, with all that comes before it.
    pub(crate) fn new(header: Duration, idle: Duration) -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(1),
            requests: AtomicUsize::new(0),
            write_stalls: AtomicBool::new(false),
            in_body: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            watches_heads: AtomicBool::new(true),
            tunnels: AtomicBool::new(false),
            drains: AtomicBool::new(false),
            header,
            idle,
        })
    }

    /// HTTP/2 is spoken. In HTTP/1 all that comes between requests is a head; here other frames come as well.
    pub(crate) fn multiplexes(&self) {
        self.watches_heads.store(false, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// Bytes came from the client.
    pub(crate) fn read(&self) {
        let between = self.requests.load(Ordering::Relaxed) == 0;
        if self.watches_heads.load(Ordering::Relaxed)
            && between
            && self.head_since.load(Ordering::Relaxed) == 0
        {
            self.head_since.store(self.elapsed(), Ordering::Relaxed);
        }
    }

    /// A request's head is complete. The request lasts until what this returns is dropped, and its body, if it has one, until
    /// [`InBody::ended`].
    pub(crate) fn request(self: &Arc<Self>, has_body: bool) -> InRequest {
        // In HTTP/1, where it matters, the body before this one is over.
        self.in_body.store(has_body, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        InRequest(self.clone())
    }

    /// For how long there has been no request.
    pub(crate) fn quiet_for(&self) -> Duration {
        if self.requests.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let since = self.idle_since.load(Ordering::Relaxed);
        Duration::from_millis(self.elapsed().saturating_sub(since))
    }

    /// No more than one request is to come.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::Relaxed);
    }

    /// Whether the next answer is the last one.
    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::Relaxed)
    }

    /// Whether it is a tunnel, in which each side closes when it wants to.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.tunnels.load(Ordering::Relaxed)
    }

    /// We have said our last word: nothing that still comes is a request.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// A write has to wait for the client to take something, or need not wait any more.
    pub(crate) fn write_stalls(&self, stalls: bool) {
        self.write_stalls.store(stalls, Ordering::Relaxed);
    }

    /// Whether a request is under way.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether a write waits for the client to take something.
    pub(crate) fn is_write_stalled(&self) -> bool {
        self.write_stalls.load(Ordering::Relaxed)
    }

    /// Whether a deadline has passed, and if not, when one could.
    pub(crate) fn watch(&self) -> Watch {
        let now = Duration::from_millis(self.elapsed());
        let may_rest = self.watches_heads.load(Ordering::Relaxed);
        let soon = now + self.header.min(REST);
        if self.requests.load(Ordering::Relaxed) > 0 {
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
            // A head may begin at any time, and its deadline is the shorter one as a rule.
            false => Watch::Until(self.opened + until.min(soon)),
        }
    }

    /// When the connection has been idle for too long, if nothing comes before.
    pub(crate) fn idle_until(&self) -> Instant {
        let since = Duration::from_millis(self.idle_since.load(Ordering::Relaxed));
        self.opened + since + self.idle
    }

    /// Whether the next byte is the first of a head, all that was answered is sent, and more may come. If this were true in the
    /// middle of anything, the rest of it would be read as a request.
    fn is_done(&self) -> bool {
        let not = [
            &self.in_body,
            &self.closed,
            &self.write_stalls,
            &self.tunnels,
            &self.drains,
        ];
        !not.iter().any(|not| not.load(Ordering::Relaxed))
    }

    // Never 0, which stands for "no head".
    fn elapsed(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}

/// A request on a connection; the connection is idle again when the last one is dropped.
#[derive(Debug)]
pub(crate) struct InRequest(Arc<Activity>);

/// The body of a request, as long as its end has not been seen.
#[derive(Clone, Debug)]
pub(crate) struct InBody(Arc<Activity>);

impl InBody {
    /// All of it was read. If it never is, the connection does not rest before the next request.
    pub(crate) fn ended(self) {
        self.0.in_body.store(false, Ordering::Relaxed);
    }
}

impl InRequest {
    /// Whoever reads the request's body notes its end there.
    pub(crate) fn body(&self) -> InBody {
        InBody(self.0.clone())
    }

    /// The connection becomes a tunnel.
    pub(crate) fn tunnels(&self) {
        self.0.tunnels.store(true, Ordering::Relaxed);
    }
}

impl Drop for InRequest {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            let now = self.0.elapsed();
            self.0.idle_since.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    #[tokio::test(start_paused = true)]
    async fn the_first_head_must_come_in_time() {
        let activity = Activity::new(HEADER, IDLE);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(matches!(activity.watch(), Watch::Until(_)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(activity.watch(), Watch::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_a_connection_may_idle_but_not_dawdle() {
        let activity = Activity::new(HEADER, IDLE);
        let request = activity.request(false);
        tokio::time::advance(Duration::from_secs(1000)).await;
        assert!(
            matches!(activity.watch(), Watch::Until(_)),
            "a request takes as long as it takes"
        );
        drop(request);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(activity.watch(), Watch::Rest);
        activity.read();
        tokio::time::advance(Duration::from_secs(9)).await;
        activity.read();
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(
            activity.watch(),
            Watch::Expired,
            "more bytes do not buy a head more time"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_rests_unless_something_is_left_to_be_done() {
        let later = || tokio::time::advance(REST);
        let activity = Activity::new(HEADER, IDLE);
        let request = activity.request(false);
        later().await;
        assert!(matches!(activity.watch(), Watch::Until(_)), "in a request");
        drop(request);
        assert!(matches!(activity.watch(), Watch::Until(_)), "so soon");
        later().await;
        assert_eq!(activity.watch(), Watch::Rest);
        let until = activity.idle_until() - Instant::now();
        assert!(until <= IDLE - REST + Duration::from_millis(1), "{until:?}");
        activity.write_stalls(true);
        assert!(matches!(activity.watch(), Watch::Until(_)), "unsent");
        activity.write_stalls(false);
        assert_eq!(activity.watch(), Watch::Rest);
        let request = activity.request(true);
        let body = request.body();
        drop(request);
        later().await;
        assert!(matches!(activity.watch(), Watch::Until(_)), "in a body");
        body.ended();
        assert_eq!(activity.watch(), Watch::Rest);
        activity.read();
        assert!(matches!(activity.watch(), Watch::Until(_)), "in a head");
        drop(activity.request(false));
        activity.drain();
        later().await;
        assert!(matches!(activity.watch(), Watch::Until(_)), "at the end");
        let closed = Activity::new(HEADER, IDLE);
        drop(closed.request(false));
        closed.close();
        later().await;
        assert!(matches!(closed.watch(), Watch::Until(_)), "closed");
        let frames = Activity::new(HEADER, IDLE);
        frames.multiplexes();
        later().await;
        assert!(matches!(frames.watch(), Watch::Until(_)), "in HTTP/2");
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_http_2_are_no_head() {
        let activity = Activity::new(HEADER, IDLE);
        activity.multiplexes();
        activity.read();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(matches!(activity.watch(), Watch::Until(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends() {
        let activity = Activity::new(HEADER, IDLE);
        drop(activity.request(false));
        tokio::time::advance(Duration::from_secs(76)).await;
        assert_eq!(activity.watch(), Watch::Expired);
    }
}
