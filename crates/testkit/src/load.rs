//! Load that does not wait for its server. Requests go out at fixed times, so a server that stalls causes long answers and not fewer
//! requests.

use std::{
    net::SocketAddr,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use http::Request;
use tokio::{sync::watch, task::JoinSet};

use crate::{Client, body::BoxBody};

/// A load under way. Stops when dropped.
#[derive(Debug)]
pub struct Load {
    stop: watch::Sender<Option<Instant>>,
    connections: JoinSet<Vec<Shot>>,
}

/// One request, and its result.
#[derive(Clone, Debug)]
pub struct Shot {
    /// Its number, from 0.
    pub nth: u64,
    /// The time at which the request was due to be sent.
    pub due: Instant,
    /// The time from `due` until its answer was read to the end, or failed.
    pub took: Duration,
    /// The status of the answer, or the error if there was no answer.
    pub status: Result<u16, String>,
    /// `X-RateLimit-Limit`, if the answer has it.
    pub limit: Option<u64>,
    /// Whether the answer has a `Retry-After`.
    pub has_retry_after: bool,
}

/// The results of requests, in the order in which they were due.
#[derive(Clone, Debug, Default)]
pub struct Shots(pub Vec<Shot>);

impl Load {
    /// Sends `rate` requests a second over `connections` connections, which stay open and are spread over `servers` in turn. `request`
    /// makes a request from the request's number. A connection that waits for an answer sends its next request late, and `took` of that
    /// next request includes the delay.
    pub fn start<F>(servers: &[SocketAddr], rate: u32, connections: u32, request: F) -> Self
    where
        F: Fn(u64) -> Request<BoxBody> + Send + Sync + 'static,
    {
        let (stop, stopped) = watch::channel(None);
        let request = Arc::new(request);
        let start = Instant::now();
        let connections = (0..connections).map(|place| {
            let server = servers[place as usize % servers.len()];
            let (request, stopped) = (Arc::clone(&request), stopped.clone());
            let numbers = (u64::from(place)..).step_by(connections as usize);
            async move {
                let client = Client::new(server);
                let mut shots = Vec::new();
                for nth in numbers {
                    let due = start + Duration::from_secs_f64(nth as f64 / f64::from(rate));
                    tokio::time::sleep_until(due.into()).await;
                    if stopped.borrow().is_some_and(|stop| due >= stop) {
                        break;
                    }
                    shots.push(Shot::fire(&client, nth, due, request(nth)).await);
                }
                shots
            }
        });
        Self {
            stop,
            connections: connections.collect(),
        }
    }

    /// Sends all requests that are due by now, and waits for the answers. A connection that lags behind leaves no request out.
    pub async fn stop(self) -> Shots {
        self.stop.send(Some(Instant::now())).ok(); // fails if all connections have panicked; the next line reports that
        let mut shots = self.connections.join_all().await.concat();
        shots.sort_by_key(|shot| shot.nth);
        Shots(shots)
    }
}

impl Shot {
    async fn fire(client: &Client, nth: u64, due: Instant, request: Request<BoxBody>) -> Self {
        let answer = client.try_request(request).await;
        let took = due.elapsed();
        let header = |name| answer.as_ref().ok().and_then(|answer| answer.header(name));
        Self {
            nth,
            due,
            took,
            limit: header("x-ratelimit-limit").map(|limit| limit.parse().unwrap()),
            has_retry_after: header("retry-after").is_some(),
            status: match &answer {
                Ok(answer) => Ok(answer.status.as_u16()),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Returns the time at which the answer was complete, or the request failed.
    pub fn answered(&self) -> Instant {
        self.due + self.took
    }
}

impl Shots {
    /// Returns the requests for which a condition is true.
    #[must_use]
    pub fn only(&self, is_so: impl Fn(&Shot) -> bool) -> Self {
        Self(self.0.iter().filter(|shot| is_so(shot)).cloned().collect())
    }

    /// Returns the requests that were due in this time.
    #[must_use]
    pub fn during(&self, time: Range<Instant>) -> Self {
        self.only(|shot| time.contains(&shot.due))
    }

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of answers with this status.
    pub fn with_status(&self, status: u16) -> usize {
        self.only(|shot| shot.status == Ok(status)).count()
    }

    /// Returns the requests without an answer, or with another status than these.
    #[must_use]
    pub fn except(&self, statuses: &[u16]) -> Self {
        self.only(|shot| !matches!(&shot.status, Ok(status) if statuses.contains(status)))
    }

    /// Returns the longest time of a request.
    pub fn worst(&self) -> Duration {
        self.share(1.0)
    }

    /// Returns the time that 99 % of the requests did not exceed.
    pub fn p99(&self) -> Duration {
        self.share(0.99)
    }

    /// Returns the time that half of the requests did not exceed.
    pub fn median(&self) -> Duration {
        self.share(0.5)
    }

    fn share(&self, share: f64) -> Duration {
        let mut times: Vec<Duration> = self.0.iter().map(|shot| shot.took).collect();
        times.sort_unstable();
        let place = (times.len() as f64 * share).ceil() as usize;
        times
            .get(place.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;
    use crate::{Upstream, body};

    #[tokio::test]
    async fn a_stall_is_seen_as_waiting_and_not_as_fewer_requests() {
        const STALL: Duration = Duration::from_millis(200);
        let upstream = Upstream::start(|request| async move {
            if request.uri() == "/20" {
                tokio::time::sleep(STALL).await;
            }
            let answer = Response::builder().header("x-ratelimit-limit", 7);
            answer.body(body::empty()).unwrap()
        });
        let load = Load::start(&[upstream.addr()], 500, 2, |nth| {
            let request = Request::get(format!("/{nth}"));
            request.body(body::empty()).unwrap()
        });
        upstream.wait_for(150, Duration::from_secs(20)).await;
        let shots = load.stop().await;
        assert!(shots.count() >= 150 && shots.with_status(200) == shots.count());
        assert!(shots.0.iter().zip(0..).all(|(shot, nth)| shot.nth == nth));
        assert!(shots.0[22].took > STALL / 2, "{:?}", shots.0[22]);
        assert!(shots.worst() >= STALL && shots.worst() >= shots.p99());
        assert!(shots.p99() >= shots.median());
        assert_eq!(shots.0[0].limit, Some(7));
        assert_eq!(shots.except(&[204]).count(), shots.count());
        let first = shots.during(shots.0[0].due..shots.0[10].due);
        assert_eq!(first.count(), 10);
    }
}
