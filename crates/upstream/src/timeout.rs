//! The timeout of an upstream's answer.

use std::pin::{Pin, pin};
use std::time::Duration;

use super::body::{BodyPhase, BodyState};

/// Waits for the upstream's answer, for at most `timeout` after the last part of the body was passed on. The time does not run while the
/// gateway waits for the client. Returns `None` after the timeout.
pub(crate) async fn in_time<T>(
    mut answer: Pin<&mut impl Future<Output = T>>,
    timeout: Duration,
    body_state: Option<&BodyState>,
) -> Option<T> {
    let mut deadline = pin!(tokio::time::sleep(timeout));
    loop {
        tokio::select! {
            biased;
            answer = answer.as_mut() => return Some(answer),
            () = deadline.as_mut() => {
                let left = body_state.and_then(|body_state| match body_state.phase() {
                    BodyPhase::AwaitingClient => Some(timeout),
                    _ => timeout.checked_sub(body_state.progress().elapsed()),
                });
                match left {
                    Some(left) if !left.is_zero() => {
                        deadline.as_mut().reset(tokio::time::Instant::now() + left);
                    }
                    _ => return None,
                }
            }
        }
    }
}
