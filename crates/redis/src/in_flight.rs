//! The bounds on calls to one server, in case the server does not answer. Each call has a deadline, and the number of calls in flight is
//! limited. While calls fail, a circuit breaker refuses most of them.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Micros;
use tokio::sync::{Notify, Semaphore};

use super::breaker::{Breaker, Change};
use super::clock::Clock;
use super::complaints::Complaints;
use super::error::CallError;
use super::wait::Wait;

/// The most calls that wait for a server at once. A hung server delays only this many calls, and receives only this many calls when it
/// works again.
const IN_FLIGHT: usize = 4_096;

/// The bounds of calls to one server: the number in flight, the circuit breaker, and the server's clock.
#[derive(Debug)]
pub struct InFlightLimit {
    clock: Clock,
    breaker: Breaker,
    calls: Semaphore,
    // Whether the last call failed.
    fails: AtomicBool,
    // The error of the last failed call.
    failure: Mutex<Option<CallError>>,
    complaints: Complaints,
    // Notified when a short wait ends without an answer.
    doubt: Notify,
}

/// An answer, with the times of its call.
#[derive(Debug)]
pub struct Answer<T> {
    /// The reply of the script.
    pub content: T,
    /// The time at which the call was sent.
    pub sent: Instant,
    /// The time at which the answer came.
    pub received: Instant,
}

impl Default for InFlightLimit {
    fn default() -> Self {
        Self {
            clock: Clock::default(),
            breaker: Breaker::default(),
            calls: Semaphore::new(IN_FLIGHT),
            fails: AtomicBool::new(false),
            failure: Mutex::default(),
            complaints: Complaints::default(),
            doubt: Notify::new(),
        }
    }
}

impl InFlightLimit {
    /// Makes a call by `ask`, if the circuit breaker admits it and fewer than `IN_FLIGHT` calls wait. The call times out at the deadline of
    /// `wait`. `ask` gets this deadline on the server's clock. `ask` returns the server's time, and the answer, or `None` if the script ran
    /// after the deadline.
    ///
    /// If a request waits for less than the configured timeout, its timeout is no failure of the server. It only raises a doubt, which the
    /// server's `Shard` resolves.
    pub async fn call<T, F>(
        &self,
        wait: Wait,
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
        let sent = Instant::now();
        let patience = wait.until.saturating_duration_since(sent);
        let call = ask(self.clock.deadline(patience));
        let answer = tokio::time::timeout(patience, call).await;
        match answer.unwrap_or(Err(CallError::Timeout)) {
            Ok((time, None)) => {
                self.clock.set(time, sent);
                Err(CallError::Late)
            }
            Ok((time, Some(content))) => {
                self.clock.saw(time, sent);
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
                match wait.explains(&error) {
                    true => self.doubt.notify_one(),
                    false => self.failed(&error),
                }
                Err(error)
            }
        }
    }

    /// Waits until a short wait has ended without an answer. Several waits may raise one doubt.
    pub(crate) async fn doubt(&self) {
        self.doubt.notified().await;
    }

    /// Records that a call has failed, for the circuit breaker and the log.
    pub(crate) fn failed(&self, error: &CallError) {
        self.fails.store(true, Ordering::Relaxed);
        *self.failure.lock() = Some(error.clone());
        let now = self.clock.elapsed();
        let change = match error.is_at_once() {
            true => self.breaker.failed_at_once(now),
            false => self.breaker.failed(now),
        };
        self.log(change, Some(error));
    }

    /// Records that the server has answered a call in time. So the circuit breaker closes, and decisions use the server again.
    pub fn answered(&self) {
        self.fails.store(false, Ordering::Relaxed);
        self.log(self.breaker.succeeded(), None);
    }

    /// Whether the last call failed.
    pub fn fails(&self) -> bool {
        self.fails.load(Ordering::Relaxed)
    }

    /// Returns the error of the last failed call, if any call has failed.
    pub fn failure(&self) -> Option<CallError> {
        self.failure.lock().clone()
    }

    /// Whether the circuit breaker is open, so that it refuses most calls. The breaker closes with the next answer.
    pub fn is_open(&self) -> bool {
        self.breaker.is_open()
    }

    /// Returns the time on the server's clock, or `None` before the first answer.
    pub fn now(&self) -> Option<Micros> {
        self.clock.now()
    }

    /// Returns the deadline, on the server's clock, of a call that is sent now and waits for `patience`.
    pub fn deadline(&self, patience: Duration) -> Option<Micros> {
        self.clock.deadline(patience)
    }

    /// Sets the estimate of the server's clock from the answer of a background call that ran too late.
    pub fn was_late(&self, time: Micros, sent: Instant) {
        self.clock.set(time, sent);
    }

    /// Updates the estimate of the server's clock from the answer of a background call.
    pub fn saw(&self, time: Micros, sent: Instant) {
        self.clock.saw(time, sent);
    }

    /// Logs that a key cannot be read, at most once a minute for each kind of error.
    pub fn complain(&self, error: &CallError) {
        if self.complaints.is_due(error) {
            tracing::warn!(%error, "the state of a client in Redis cannot be read; the limits of that client follow their on_failure");
        }
    }

    /// Logs when Redis stops deciding and when it decides again. Logs an error reply at the first failed decision, other errors only when
    /// the breaker opens.
    fn log(&self, change: Option<Change>, error: Option<&CallError>) {
        match (change, error) {
            (_, Some(error @ CallError::Refused(_))) if self.complaints.is_due(error) => {
                tracing::warn!(%error, "Redis does not decide; each limit follows its on_failure");
            }
            (_, Some(CallError::Refused(_))) => {}
            (Some(Change::Opened), Some(error)) => {
                tracing::warn!(%error, "Redis does not answer decisions in time; each limit follows its on_failure");
            }
            (Some(Change::Closed), _) => {
                self.complaints.end();
                tracing::info!("Redis decides again");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(limit: &InFlightLimit, answer: Result<Option<u8>, &str>) -> Result<u8, CallError> {
        let answer = answer.map(|content| (1, content));
        let answer = answer.map_err(CallError::refused);
        let wait = Wait::new(Duration::from_secs(5), None);
        let answer = limit.call(wait, |_| async { answer }).await;
        answer.map(|answer| answer.content)
    }

    #[tokio::test]
    async fn a_server_that_cannot_decide_is_left_alone() {
        let limit = InFlightLimit::default();
        let mut answers = Vec::new();
        for _ in 0..20 {
            answers.push(ask(&limit, Err("ERR Error compiling script")).await);
        }
        assert!(answers.contains(&Err(CallError::NotAsked)));
        let failure = CallError::refused("ERR Error compiling script");
        assert_eq!(limit.failure(), Some(failure));
    }

    #[tokio::test]
    async fn an_answer_about_a_key_is_no_fault_of_its_server() {
        let limit = InFlightLimit::default();
        for text in ["TRYAGAIN", "WRONGTYPE", "ERR user_script:2: too long"] {
            for _ in 0..20 {
                let answer = ask(&limit, Err(text)).await;
                assert_eq!(answer, Err(CallError::refused(text)));
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
