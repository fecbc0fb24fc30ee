//! Logs an outage of Redis: at its start, once a minute while it lasts, and at its end.
//!
//! Decisions show an outage only while there are requests. Without this log, a gateway that starts without Redis would seem healthy until
//! its first request.

use std::time::Duration;

use tidegate_store::{RedisStore, StoreError};
use tokio::time::Instant;

use tidegate_telemetry::metrics::GatewayMetrics;

/// The interval between two checks of the connection. A check sends no call to Redis.
const EVERY: Duration = Duration::from_millis(500);
/// The interval between two lines of the log during an outage.
const AGAIN: Duration = Duration::from_secs(60);

/// Checks the connection until the future is dropped.
pub(crate) async fn watch(store: &RedisStore, metrics: &GatewayMetrics) {
    let mut every = tokio::time::interval(EVERY);
    let mut connection = Connection::New;
    loop {
        every.tick().await;
        let connected = store.connected();
        metrics.redis().connected(connected.is_ok());
        let (next, event) = connection.look(connected, Instant::now());
        connection = next;
        match event {
            None => {}
            Some(Event::Lost(error)) => {
                tracing::warn!(%error, "Redis cannot be reached; each limit follows its on_failure");
            }
            Some(Event::StillLost(error, lasts)) => {
                let lasts_s = lasts.as_secs();
                tracing::warn!(%error, lasts_s, "Redis still cannot be reached; each limit follows its on_failure");
            }
            Some(Event::Back(lasted)) => {
                let lasted_s = lasted.as_secs();
                tracing::info!(lasted_s, "Redis is reached again");
            }
        }
    }
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Connection {
    /// The connection was not checked yet.
    New,
    /// There is a connection.
    Up,
    /// There was no connection at the last check. If there is a connection at the next check, no outage is logged.
    Away(Instant),
    /// There is no connection, and the outage was logged.
    Lost { since: Instant, last_line: Instant },
}

/// An event for the log.
#[derive(Debug, PartialEq)]
enum Event {
    Lost(StoreError),
    StillLost(StoreError, Duration),
    Back(Duration),
}

impl Connection {
    /// Returns the state after a check of the connection, and the event to log.
    fn look(self, connected: Result<(), StoreError>, now: Instant) -> (Self, Option<Event>) {
        match (self, connected) {
            (Self::Lost { since, .. }, Ok(())) => (Self::Up, Some(Event::Back(now - since))),
            (_, Ok(())) => (Self::Up, None),
            (Self::Up, Err(_)) => (Self::Away(now), None),
            (Self::New, away) => Self::Away(now).look(away, now),
            (Self::Away(since), Err(error)) => {
                let last_line = now;
                (Self::Lost { since, last_line }, Some(Event::Lost(error)))
            }
            (Self::Lost { since, last_line }, Err(error)) if now - last_line >= AGAIN => {
                let last_line = now;
                let event = Event::StillLost(error, now - since);
                (Self::Lost { since, last_line }, Some(event))
            }
            (lost @ Self::Lost { .. }, Err(_)) => (lost, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Result<(), StoreError> = Ok(());
    const DOWN: Result<(), StoreError> = Err(StoreError::Disconnected);

    /// Checks the connection at these times, in seconds, and returns the events to log.
    fn events(looks: &[(u64, Result<(), StoreError>)]) -> Vec<(u64, Event)> {
        let start = Instant::now();
        let mut connection = Connection::New;
        let mut events = Vec::new();
        for (at, connected) in looks {
            let now = start + Duration::from_secs(*at);
            let (next, event) = connection.look(connected.clone(), now);
            connection = next;
            events.extend(event.map(|event| (*at, event)));
        }
        events
    }

    #[test]
    fn an_outage_at_start_is_told_at_once_then_once_a_minute_and_at_its_end() {
        let mut looks: Vec<_> = (0..150).map(|at| (at, DOWN)).collect();
        looks.extend([(150, UP), (151, UP)]);
        let error = || StoreError::Disconnected;
        let seconds = Duration::from_secs;
        assert_eq!(
            events(&looks),
            [
                (0, Event::Lost(error())),
                (60, Event::StillLost(error(), seconds(60))),
                (120, Event::StillLost(error(), seconds(120))),
                (150, Event::Back(seconds(150))),
            ]
        );
    }

    #[test]
    fn a_connection_that_comes_back_at_once_is_no_outage() {
        assert_eq!(
            events(&[(0, UP), (1, DOWN), (2, UP), (3, DOWN), (4, UP)]),
            []
        );
        let lost = events(&[(0, UP), (1, DOWN), (2, DOWN), (3, DOWN), (9, UP)]);
        let back = Event::Back(Duration::from_secs(8));
        assert_eq!(
            lost,
            [(2, Event::Lost(StoreError::Disconnected)), (9, back)]
        );
    }
}
