//! The limit on calls in flight to one server, which may not answer. Each call has a deadline, and a circuit breaker ends calls
//! that fail.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::Micros;
use tokio::sync::Semaphore;

use super::breaker::{Breaker, Change};
use super::clock::Clock;
use super::error::CallError;

/// Decisions that may wait for a server at once. A server that is hung holds up no more, and gets no more to do when it
/// comes back.
const IN_FLIGHT: usize = 4_096;

/// How many calls to one server may wait for an answer, and whether it is asked at all.
#[derive(Debug)]
pub struct InFlightLimit {
    clock: Clock,
    breaker: Breaker,
    calls: Semaphore,
    // The last call that was made was not answered as it should.
    fails: AtomicBool,
    // When a key was complained of, in seconds of the clock; 0: never.
    complained: AtomicU64,
}

/// A key that cannot be read is logged so often at most, in seconds.
const COMPLAINTS: u64 = 60;

/// An answer, and when it was asked for and came.
#[derive(Debug)]
pub struct Answer<T> {
    /// What the script answered.
    pub content: T,
    /// When the call was sent.
    pub sent: Instant,
    /// When the answer came.
    pub received: Instant,
}

impl Default for InFlightLimit {
    fn default() -> Self {
        Self {
            clock: Clock::default(),
            breaker: Breaker::default(),
            calls: Semaphore::new(IN_FLIGHT),
            fails: AtomicBool::new(false),
            complained: AtomicU64::new(0),
        }
    }
}

impl InFlightLimit {
    /// Makes a call that ends by `until`, if the server may be asked. The call is given the deadline on the server's clock. It
    /// returns what that clock showed, and its answer, if it did not find itself too late.
    pub async fn call<T, F>(
        &self,
        until: Instant,
        ask: impl FnOnce(Option<Micros>) -> F,
    ) -> Result<Answer<T>, CallError>
    where
        F: Future<Output = Result<(Micros, Option<T>), CallError>>,
    {
        if !self.breaker.admits(self.clock.elapsed()) {
            return Err(CallError::NotAsked);
        }
        let Ok(_permit) = self.calls.try_acquire() else {
            return Err(CallError::NotAsked);
        };
        let (sent, on_clock) = (Instant::now(), self.clock.elapsed());
        let patience = until.saturating_duration_since(sent);
        let asked = ask(self.clock.deadline(patience));
        let answer = tokio::time::timeout(patience, asked).await;
        match answer.unwrap_or(Err(CallError::Timeout)) {
            Ok((time, None)) => {
                self.clock.set(time, on_clock);
                Err(CallError::Late)
            }
            Ok((time, Some(content))) => {
                self.clock.saw(time, on_clock);
                self.answered();
                Ok(Answer {
                    content,
                    sent,
                    received: Instant::now(),
                })
            }
            Err(error) if error.is_about_keys() => {
                self.answered();
                if !error.is_moving() {
                    self.complain(&error);
                }
                Err(error)
            }
            Err(error) => {
                self.fails.store(true, Ordering::Relaxed);
                let now = self.clock.elapsed();
                let change = if matches!(
                    error,
                    CallError::Disconnected | CallError::Login(_) | CallError::Tls(_)
                ) {
                    self.breaker.failed_at_once(now)
                } else {
                    self.breaker.failed(now)
                };
                self.log(change, Some(&error));
                Err(error)
            }
        }
    }

    /// The server has answered something else than a decision, in time: decisions may ask it again.
    pub fn answered(&self) {
        self.fails.store(false, Ordering::Relaxed);
        self.log(self.breaker.succeeded(), None);
    }

    /// Whether the server failed to answer the last call.
    pub fn fails(&self) -> bool {
        self.fails.load(Ordering::Relaxed)
    }

    /// Whether the circuit breaker is open: most calls are not made. It closes with the next answer.
    pub fn is_open(&self) -> bool {
        self.breaker.is_open()
    }

    /// The time by the server's clock, as far as is known.
    pub fn now(&self) -> Option<Micros> {
        self.clock.now()
    }

    /// The deadline, by the server's clock, of a call that is sent now and waited for so long.
    pub fn deadline(&self, patience: Duration) -> Option<Micros> {
        self.clock.deadline(patience)
    }

    /// Notes the server's clock by the answer of a script that no decision waited for, and that found itself late.
    pub fn was_late(&self, time: Micros, sent: Instant) {
        let ago = sent.elapsed();
        self.clock
            .set(time, self.clock.elapsed().saturating_sub(ago));
    }

    /// Notes what a server's clock showed, in an answer that no decision waited for.
    pub fn saw(&self, time: Micros, sent: Instant) {
        let ago = sent.elapsed();
        self.clock
            .saw(time, self.clock.elapsed().saturating_sub(ago));
    }

    /// Logs that some key cannot be read, once a minute at most.
    pub fn complain(&self, error: &CallError) {
        let (last, now) = (
            self.complained.load(Ordering::Relaxed),
            self.clock.elapsed().as_secs() + 1,
        );
        let is_due = last == 0 || now >= last + COMPLAINTS;
        let relaxed = Ordering::Relaxed;
        if is_due
            && self
                .complained
                .compare_exchange(last, now, relaxed, relaxed)
                .is_ok()
        {
            tracing::warn!(%error, "the state of a client in Redis cannot be read; the limits of that client follow their on_failure");
        }
    }

    /// One line when Redis stops deciding, and one when it decides again; not one per request.
    fn log(&self, change: Option<Change>, error: Option<&CallError>) {
        match (change, error) {
            (Some(Change::Opened), Some(error)) => {
                tracing::warn!(%error, "Redis does not answer decisions in time; each limit follows its on_failure");
            }
            (Some(Change::Closed), _) => tracing::info!("Redis decides again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UNKNOWN_REPLY;

    async fn ask(limit: &InFlightLimit, answer: Result<Option<u8>, &str>) -> Result<u8, CallError> {
        let answer = answer.map(|content| (1, content));
        let answer = answer.map_err(|code| CallError::Refused(code.to_owned()));
        let until = Instant::now() + Duration::from_secs(5);
        let answer = limit.call(until, |_| async { answer }).await;
        answer.map(|answer| answer.content)
    }

    #[tokio::test]
    async fn a_server_that_cannot_decide_is_left_alone() {
        let limit = InFlightLimit::default();
        let mut answers = Vec::new();
        for _ in 0..20 {
            answers.push(ask(&limit, Err("OOM")).await);
        }
        assert!(answers.contains(&Err(CallError::NotAsked)));
    }

    #[tokio::test]
    async fn an_answer_about_a_key_is_no_fault_of_its_server() {
        let limit = InFlightLimit::default();
        for code in ["TRYAGAIN", "WRONGTYPE", "ERR", UNKNOWN_REPLY] {
            for _ in 0..20 {
                let answer = ask(&limit, Err(code)).await;
                assert_eq!(answer, Err(CallError::Refused(code.into())));
            }
            assert!(!limit.fails());
            assert_eq!(ask(&limit, Ok(Some(7))).await, Ok(7));
        }
    }

    #[tokio::test]
    async fn a_call_that_came_too_late_is_no_answer_and_no_fault_either() {
        let limit = InFlightLimit::default();
        for _ in 0..20 {
            assert_eq!(ask(&limit, Ok(None)).await, Err(CallError::Late));
        }
        assert_eq!(ask(&limit, Ok(Some(7))).await, Ok(7));
    }
}
