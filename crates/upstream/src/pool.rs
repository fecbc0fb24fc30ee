//! An upstream: sends each request to one of its servers, and repeats it at another server where that is safe.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Request;
use tokio::task::JoinSet;
use tower::retry::budget::Budget as _;

use super::send_error::{SendError, is_closed, is_of_stream, is_refused};
use super::server::connection::{self, ConnectError};
use tidegate_net::descriptors::{is_our_shortage, say_shortage};

use super::attempts::{Attempt, Attempts};
use super::background::Background;
use super::body::first_part;
use super::body::memory::BufferMemory;
use super::body::replay::{Replay, head};
use super::body::{BodyState, RequestBody};
use super::connection_limit::ConnectionPermit;
use super::metrics::UpstreamMetrics;
use super::options::SendOptions;
use super::places::{NoPlace, Placed};
use super::report::{Answer, Report};
use super::retries::{Retries, is_idempotent, is_passing, is_safe};
use super::selection::usable;
use super::server::{Server, Wanted};
use super::settings::UpstreamPlan;
use super::state::{self, UpstreamState};
use super::timeout::in_time;

/// The most repetitions of a request at one server that did not begin with it or closed the kept connection.
const AGAIN: usize = 2;

/// Servers of which any can take a request. They are looked after until this is dropped.
#[derive(Debug)]
pub struct Upstream {
    background: Arc<Background>,
    replays: Arc<BufferMemory>,
    // For requests that have no place yet, and for answers that have left theirs.
    first_parts: Arc<BufferMemory>,
    answers: Arc<BufferMemory>,
    #[expect(dead_code, reason = "ends its task when it is dropped")]
    keeping: JoinSet<()>,
}

/// An attempt that brought no answer.
struct FailedAttempt {
    error: SendError,
    /// Whether no part of the request was sent: the caller still has all of it.
    unsent: bool,
}

impl Upstream {
    /// Begins to look after the servers of a plan, from within a runtime.
    pub fn start(plan: Arc<UpstreamPlan>, metrics: UpstreamMetrics) -> Self {
        let background = Arc::new(Background::new(plan, metrics));
        let mut keeping = JoinSet::new();
        keeping.spawn(background.clone().keep());
        Self {
            background,
            replays: Arc::default(),
            first_parts: Arc::default(),
            answers: Arc::default(),
            keeping,
        }
    }

    /// Returns the plan that the upstream was started with.
    pub fn plan(&self) -> &UpstreamPlan {
        &self.background.plan
    }

    /// Whether connections to its servers are bounded in number.
    pub fn is_bounded(&self) -> bool {
        self.background.places.is_some()
    }

    /// Returns the memory for answers that are read before their clients take them.
    pub const fn answers(&self) -> &Arc<BufferMemory> {
        &self.answers
    }

    /// Returns the current state.
    pub fn state(&self) -> UpstreamState {
        state::of(&self.background)
    }

    /// Sends a request to a server, and waits for the head of its answer. The request is moved out of its place as few times as possible.
    ///
    /// The request goes to another server or connection in four cases:
    ///
    /// - no part of it was sent;
    /// - the server did not begin with it (HTTP/2), and its body is small enough to be kept;
    /// - it is idempotent with a small body, and the server closed a kept connection;
    /// - it is safe, and the retry settings and their budget allow a retry.
    ///
    /// Each attempt is added to `attempts`.
    ///
    /// # Errors
    ///
    /// No server answered; [`SendError`] has the reason.
    pub async fn send(
        &self,
        request: &mut Request<RequestBody>,
        options: SendOptions<'_>,
        attempts: &mut Attempts,
    ) -> Result<Answer, SendError> {
        let retries = options.retries.filter(|_| is_safe(request));
        let mut left = retries.map_or(0, |retries| retries.plan.attempts);
        if let Some(retries) = options.retries {
            retries.budget.deposit();
        }
        if self.is_bounded()
            && let Err(error) = first_part::read(request, &self.first_parts).await
        {
            return Err(SendError::Unread(error));
        }
        // The time in which the client sends does not count for the upstream.
        let started = Instant::now();
        let mut tried = Vec::new();
        let mut servers = self.background.servers(options.timeouts.connect).await;
        let mut error = None;
        loop {
            let (server, place) = match self.place(&servers, &tried, options).await {
                Ok(placed) => placed,
                Err(NoPlace::Busy) => return Err(SendError::Busy),
                Err(NoPlace::NoServer) => {
                    return Err(error.unwrap_or_else(|| self.none(&servers)));
                }
            };
            let once_more = retries.filter(|_| left > 0);
            // A retry has no body: its request is safe.
            let copy = once_more.map(|_| head(request).map(|()| RequestBody::Empty));
            let begun = Instant::now();
            let timeout = options.timeouts.answer.checked_sub(begun - started);
            let timeout = match (timeout, once_more.and_then(|retries| retries.plan.timeout)) {
                (None, _) => return Err(error.unwrap_or(SendError::Silent)),
                (Some(left), Some(one)) => left.min(one),
                (Some(left), None) => left,
            };
            let attempt = self
                .attempt(&server, place, request, options, timeout)
                .await;
            attempts.add(Attempt {
                server: server.address,
                started: begun,
                took: begun.elapsed(),
                status: attempt.as_ref().ok().map(|answer| answer.response.status()),
                error: attempt.as_ref().err().map(|failed| failed.error.label()),
            });
            let retry = match &attempt {
                Ok(answer) => is_passing(answer.response.status()),
                Err(attempt) => !attempt.unsent,
            };
            let retry = retry && once_more.is_some_and(|retries| self.may_retry(retries));
            match (attempt, copy) {
                (_, Some(copy)) if retry => {
                    *request = copy;
                    left -= 1;
                    tried.push(server);
                    // If no other server is left, a server that was tried may be well again.
                    servers = self.background.servers(options.timeouts.connect).await;
                    if usable(&servers, &tried).next().is_none() {
                        tried.clear();
                    }
                }
                (Ok(answer), _) => return Ok(answer),
                (Err(attempt), _) if attempt.unsent => {
                    error = Some(attempt.error);
                    tried.push(server);
                }
                (Err(attempt), _) => return Err(attempt.error),
            }
        }
    }

    /// Returns a server for the next attempt, and a place there.
    async fn place(
        &self,
        servers: &[Arc<Server>],
        tried: &[Arc<Server>],
        options: SendOptions<'_>,
    ) -> Result<Placed, NoPlace> {
        if let Some(places) = &self.background.places {
            let longest = options.timeouts.connect;
            // Boxed: most upstreams have no bound, and their requests need not make room for it.
            return Box::pin(places.take(options.address, tried, options.affinity, longest)).await;
        }
        let selector = &self.background.selector;
        let chosen = selector.choose(servers, tried, options.affinity);
        let server = chosen.ok_or(NoPlace::NoServer)?;
        let place = server.places.take(None);
        Ok((server, place))
    }

    /// Sends a request to one server.
    async fn attempt(
        &self,
        server: &Arc<Server>,
        place: ConnectionPermit,
        request: &mut Request<RequestBody>,
        options: SendOptions<'_>,
        timeout: Duration,
    ) -> Result<Answer, FailedAttempt> {
        let before = self.background.served(server);
        let connect = options.timeouts.connect.min(timeout);
        let begun = Instant::now();
        let is_idempotent = is_idempotent(request.method());
        let mut left = timeout;
        let mut again = AGAIN;
        let mut wanted = Wanted::any(options.offer);
        if !is_idempotent && server.closes_early() {
            // The fresh connection is kept later, in place of an older one.
            server.idle.close_first();
            wanted.fresh();
        }
        if options.own_host {
            connection::name(request, server);
        }
        // Kept connections may turn out to be closed; a fresh one ends this loop either way.
        loop {
            let (mut lease, is_fresh) = match server.connection(connect, &wanted).await {
                Ok(connected) => connected,
                Err(error) => {
                    // A shortage of this machine is no server's fault, so no server is left out for it.
                    let error = if error.is_our_shortage() {
                        say_shortage();
                        SendError::Exhausted
                    } else {
                        self.background.failed(server, before);
                        self.background.look_again();
                        SendError::Unconnected(error)
                    };
                    let unsent = true;
                    return Err(FailedAttempt { error, unsent });
                }
            };
            let shared = lease.shared_connection().cloned();
            let may_repeat = !is_fresh && is_idempotent;
            let replay =
                (shared.is_some() || may_repeat).then(|| Replay::of(request, &self.replays));
            let first_sent = options.transmission.filter(|it| !it.is_sent());
            if let Some(transmission) = first_sent {
                transmission.sent(options.timeouts.answer);
            }
            let answer = {
                let answer = pin!(lease.send(std::mem::take(request), server));
                in_time(answer, left, options.body_state).await
            };
            let mut error = match answer {
                Some(Ok(response)) => {
                    if let Some(replay) = replay {
                        replay.release();
                    }
                    let report = Report::begin(&self.background, server, before, response.status());
                    lease.place = Some(place);
                    return Ok(Answer {
                        response,
                        lease,
                        report,
                        mark: server.mark,
                    });
                }
                Some(Err(error)) => error,
                None => {
                    // The connection may be dead, and further requests would wait for the same time. The bound of one attempt is too short
                    // to show that. The last attempt has all of the remaining time.
                    if options.retries.and_then(|it| it.plan.timeout) != Some(timeout) {
                        lease.retire();
                    }
                    self.background.failed(server, before);
                    return Err(SendError::Silent.into());
                }
            };
            let unsent = error.take_message();
            let refused = is_refused(error.error());
            if let Some(transmission) = first_sent
                && (unsent.is_some() || refused)
            {
                transmission.unsent();
            }
            let closed = !is_fresh && is_closed(error.error());
            if shared.is_none() && (closed || !is_fresh && unsent.is_some()) {
                server.closed(lease.idle());
            }
            // Other requests use the connection: an error of one stream leaves it in use.
            if unsent.is_some() || !is_of_stream(error.error()) {
                lease.retire();
            }
            if let Some(unsent) = unsent
                && !is_fresh
            {
                *request = unsent;
                continue;
            }
            // A server may close a kept connection just when a request is sent, and the other kept ones with it.
            let remaining = timeout.checked_sub(begun.elapsed());
            if (refused || closed && may_repeat)
                && again > 0
                && let Some(remaining) = remaining
                && let Some(replay) = replay.and_then(Replay::again)
            {
                again -= 1;
                left = remaining;
                wanted.avoided.extend(shared);
                if closed {
                    wanted.fresh();
                }
                *request = replay;
                continue;
            }
            server.failed(error.error());
            let is_servers = !closed && !is_our_shortage(error.error());
            if is_servers && !options.body_state.is_some_and(BodyState::is_broken_off) {
                self.background.failed(server, before);
            }
            let error = error.into_error();
            return Err(match refused {
                true => SendError::Refused(error).into(),
                false => SendError::Failed(error).into(),
            });
        }
    }

    fn may_retry(&self, retries: &Retries) -> bool {
        let metrics = &self.background.metrics;
        let may = retries.budget.withdraw();
        match may {
            true => metrics.retries.inc(),
            false => metrics.over_budget.inc(),
        };
        may
    }

    /// Returns the reason why there is no server to choose.
    fn none(&self, servers: &[Arc<Server>]) -> SendError {
        match &self.background.plan.health {
            Some(health) if !servers.is_empty() => SendError::Down(health.every),
            _ => {
                let none = io::Error::from(io::ErrorKind::NotFound);
                SendError::Unconnected(ConnectError::Unreachable(none))
            }
        }
    }
}

impl From<SendError> for FailedAttempt {
    fn from(error: SendError) -> Self {
        let unsent = false;
        Self { error, unsent }
    }
}
