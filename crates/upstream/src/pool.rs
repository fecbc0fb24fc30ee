//! An upstream: sends each request to a server, and repeats the request at another server if a repetition does no harm.

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
use super::settings::UpstreamSettings;
use super::state::{self, UpstreamState};
use super::timeout::in_time;

/// The most times that a request is repeated at one server after the server refused it or closed the kept connection.
const AGAIN: usize = 2;

/// A group of servers, each of which can take any request. Background tasks maintain the servers until the `Upstream` is dropped.
#[derive(Debug)]
pub struct Upstream {
    background: Arc<Background>,
    // Memory for the sent parts of bodies, which another attempt may need.
    replays: Arc<BufferMemory>,
    // Memory for the first parts of bodies whose requests wait for a place at a server.
    first_parts: Arc<BufferMemory>,
    // Memory for answers that the gateway reads ahead, so that their places at the server are free before the clients have read the
    // answers.
    answers: Arc<BufferMemory>,
    #[expect(dead_code, reason = "ends its task when it is dropped")]
    keeping: JoinSet<()>,
}

/// An attempt without an answer.
struct FailedAttempt {
    error: SendError,
    /// Whether no part of the request was sent, so the caller still has the whole request.
    unsent: bool,
}

impl Upstream {
    /// Starts the background tasks for the servers of an upstream. The caller runs inside a Tokio runtime.
    pub fn start(settings: Arc<UpstreamSettings>, metrics: UpstreamMetrics) -> Self {
        let background = Arc::new(Background::new(settings, metrics));
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

    /// Returns the settings that the upstream was started with.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.background.settings
    }

    /// Whether `max_connections` bounds the connections to the servers.
    pub fn is_bounded(&self) -> bool {
        self.background.places.is_some()
    }

    /// Returns the memory for answers that the gateway reads ahead of their clients.
    pub const fn answers(&self) -> &Arc<BufferMemory> {
        &self.answers
    }

    /// Returns the current state of the servers, for reports.
    pub fn state(&self) -> UpstreamState {
        state::of(&self.background)
    }

    /// Sends a request to a server, and waits for the head of its answer. `request` is borrowed because moving a request copies many bytes.
    ///
    /// The request goes to another server or connection in four cases:
    ///
    /// - no part of the request was sent to the server;
    /// - the server refused the request before processing (HTTP/2), and the body is small enough to be kept;
    /// - the request is idempotent with a small body, and the server closed the kept connection;
    /// - the request is safe, and the retry settings and their budget allow a retry.
    ///
    /// Each attempt is added to `attempts`.
    ///
    /// # Errors
    ///
    /// Returns the reason why no server answered.
    pub async fn send(
        &self,
        request: &mut Request<RequestBody>,
        options: &SendOptions<'_>,
        attempts: &mut Attempts,
    ) -> Result<Answer, SendError> {
        let retries = options.retries.filter(|_| is_safe(request));
        let mut left = retries.map_or(0, |retries| retries.settings.attempts);
        if let Some(retries) = options.retries {
            retries.budget.deposit();
        }
        if self.is_bounded()
            && let Err(error) = first_part::read(request, &self.first_parts).await
        {
            return Err(SendError::Unread(error));
        }
        // The upstream's timeout starts after the first part of the body was read, so a slow client does not use it up.
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
            // Only safe requests without a body are retried, so the copy needs no body.
            let copy = once_more.map(|_| Box::new(head(request).map(|()| RequestBody::Empty)));
            let begun = Instant::now();
            let Some(mut timeout) = options.timeouts.answer.checked_sub(begun - started) else {
                return Err(error.unwrap_or(SendError::Silent));
            };
            if let Some(per_attempt) = once_more.and_then(|retries| retries.settings.timeout) {
                timeout = timeout.min(per_attempt);
            }
            let attempt = self
                .attempt(&server, place, request, options, (begun, timeout))
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
                    *request = *copy;
                    left -= 1;
                    tried.push(server);
                    // If no untried server is left, the tried servers get another attempt, because they may work again.
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

    /// Chooses a server for the next attempt, and takes a place for the request at this server.
    async fn place(
        &self,
        servers: &[Arc<Server>],
        tried: &[Arc<Server>],
        options: &SendOptions<'_>,
    ) -> Result<Placed, NoPlace> {
        if let Some(places) = &self.background.places {
            let longest = options.timeouts.connect;
            // Boxed to keep this future small: most upstreams have no bound and never wait here.
            return Box::pin(places.take(options.address, tried, options.affinity, longest)).await;
        }
        let selector = &self.background.selector;
        let chosen = selector.choose(servers, tried, options.affinity);
        let server = chosen.ok_or(NoPlace::NoServer)?;
        let place = server.places.take(None);
        Ok((server, place))
    }

    /// Sends a request to one server. The attempt began at `begun`, and may take `timeout`.
    async fn attempt(
        &self,
        server: &Arc<Server>,
        place: ConnectionPermit,
        request: &mut Request<RequestBody>,
        options: &SendOptions<'_>,
        (begun, timeout): (Instant, Duration),
    ) -> Result<Answer, FailedAttempt> {
        let before = self.background.served(server);
        let connect = options.timeouts.connect.min(timeout);
        let is_idempotent = is_idempotent(request.method());
        let mut left = timeout;
        let mut again = AGAIN;
        let mut wanted = Wanted::any(options.offer);
        if !is_idempotent && server.closes_early() {
            // The server may have closed its kept connections, and this request must not be sent twice. So the request gets a fresh
            // connection. The fresh connection is kept afterwards, so the oldest idle connection is closed to make room.
            server.idle.close_first();
            wanted.fresh();
        }
        if options.own_host {
            connection::name(request, server);
        }
        // If a kept connection was closed before the request was sent, the loop takes another connection. `AGAIN` bounds the repeats of a
        // request that was sent.
        loop {
            let (mut lease, is_fresh) = match server.connection(connect, &wanted).await {
                Ok(connected) => connected,
                Err(error) => {
                    // If this machine has no free descriptor, port or memory, the server has not failed, so it must not be ejected.
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
                let answer = pin!(lease.send(request, server));
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
                    // The connection may be dead, so it gets no further requests. After the shorter timeout of the retry settings, the
                    // connection is kept, because the server may only be slow.
                    if options.retries.and_then(|it| it.settings.timeout) != Some(timeout) {
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
            // An error of one HTTP/2 stream does not affect the other requests on the connection, so the connection is kept.
            if unsent.is_some() || !is_of_stream(error.error()) {
                lease.retire();
            }
            if let Some(unsent) = unsent
                && !is_fresh
            {
                *request = unsent;
                continue;
            }
            // A server may close a kept connection just when a request is sent. It may close the other kept connections at the same time,
            // so the repeat uses none of them.
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

    /// Returns the error for an upstream without a usable server.
    fn none(&self, servers: &[Arc<Server>]) -> SendError {
        match &self.background.settings.health {
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
