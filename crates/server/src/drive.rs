//! Polls a connection, and ends it for reasons of the server: the watchdog, a stop, or a shortage of memory.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

use crate::activity::{Activity, Watch};
use crate::after_poll::polled;
use crate::drain::{LAST_CALL, stop_asked};

/// The way in which the server ends a connection. After a stop, the shutdown begins as soon as the connection has been quiet for
/// `quiet_for`. After another [`LAST_CALL`], the server no longer waits for the client.
pub(crate) struct End<S, F> {
    /// Becomes true when the server is to stop.
    pub(crate) drain: watch::Receiver<bool>,
    pub(crate) quiet_for: Duration,
    /// Returns whether the connection is to end without a stop, because memory is short. The watchdog calls this function.
    pub(crate) sheds: S,
    pub(crate) shut_down: F,
}

/// The reason why a connection is no longer polled.
#[derive(Debug)]
pub(crate) enum Driven {
    /// The connection has ended, or has to end. hyper may have returned an error.
    Over(hyper::Result<()>),
    /// The connection may rest.
    Rest,
}

/// Polls a connection until it ends or may rest.
pub(crate) async fn drive<C, S, F>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
    end: End<S, F>,
) -> Driven
where
    C: Future<Output = hyper::Result<()>>,
    S: Fn() -> bool,
    F: Fn(Pin<&mut C>),
{
    let drain = end.drain.clone();
    let mut stopping = end.drain;
    let mut stop = pin!(stop_asked(&mut stopping));
    let mut watchdog = pin!(sleep(Duration::ZERO));
    // The timer of the connection's end. It runs from the stop until the shutdown, and then for `LAST_CALL`.
    let mut ending: Option<Pin<Box<Sleep>>> = None;
    let mut shut_down = false;
    let mut waker: Option<Waker> = None;
    // Whether the TCP state of the socket was read for the next check of the timeouts. Initially true, because a new connection has sent no
    // byte that the client could acknowledge.
    let mut is_asked = true;
    poll_fn(|context| {
        'polls: loop {
            if let Poll::Ready(ended) = polled(|| connection.as_mut().poll(context)) {
                return Poll::Ready(Driven::Over(ended));
            }
            // A request polls its connection several times, but the watchdog and the stop are rarely ready. So both are polled only if they
            // are ready, or if they lack the task's waker. These polls ignore tokio's budget for the task, because a poll beyond the budget
            // would not register the waker.
            let is_new = !waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(context.waker()));
            if is_new {
                waker = Some(context.waker().clone());
            }
            if ending.is_none()
                && (is_new || drain.has_changed().unwrap_or(true))
                && pin!(unconstrained(stop.as_mut())).poll(context).is_ready()
            {
                activity.drains.set();
                ending = Some(Box::pin(sleep(end.quiet_for)));
            }
            if is_new || watchdog.is_elapsed() {
                while pin!(unconstrained(watchdog.as_mut()))
                    .poll(context)
                    .is_ready()
                {
                    // The first round polls the connection again, which reads the TCP state of the socket. The second round checks the
                    // timeouts.
                    is_asked = !is_asked;
                    if is_asked {
                        activity.ask();
                        continue 'polls;
                    }
                    match activity.watch() {
                        Watch::Until(next) => {
                            watchdog.as_mut().reset(next);
                            if ending.is_none() && (end.sheds)() {
                                activity.drains.set();
                                // No further quiet time is needed: `sheds` has found the connection quiet.
                                ending = Some(Box::pin(sleep(Duration::ZERO)));
                            }
                        }
                        Watch::Expired => return Poll::Ready(Driven::Over(Ok(()))),
                        Watch::Rest => return Poll::Ready(Driven::Rest),
                    }
                }
            }
            let Some(ending) = &mut ending else {
                return Poll::Pending;
            };
            let mut progress = false;
            while pin!(unconstrained(ending.as_mut()))
                .poll(context)
                .is_ready()
            {
                let more = end.quiet_for.saturating_sub(activity.quiet_for());
                let next = match shut_down {
                    false if more > Duration::ZERO => more,
                    false => {
                        shut_down = true;
                        progress = true;
                        (end.shut_down)(connection.as_mut());
                        LAST_CALL
                    }
                    true => {
                        activity.is_last_call_over.set();
                        progress = true;
                        LAST_CALL
                    }
                };
                ending.as_mut().reset(Instant::now() + next);
            }
            if !progress {
                return Poll::Pending;
            }
        }
    })
    .await
}
