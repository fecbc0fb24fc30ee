//! The reasons why the server ends connections: a stop was requested, or memory is short.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::overload::Pressure;

/// After a stop, an HTTP/1 connection is closed only when no request was under way for this time. Only an answer can inform an HTTP/1
/// client of the stop. If the gateway closes the connection while a request is on its way, the request is lost.
pub(crate) const LAST_CALL: Duration = Duration::from_secs(1);

/// Waits until a stop is requested. If the sender is dropped, the wait ends, too.
pub(crate) async fn stop_asked(drain: &mut watch::Receiver<bool>) {
    let _ = drain.wait_for(|stop| *stop).await;
}

/// Waits for `end`, and then for [`LAST_CALL`].
pub(crate) async fn last_call(end: impl Future<Output = ()>) {
    end.await;
    sleep(LAST_CALL).await;
}

/// Waits until the process is short of memory.
pub(crate) async fn memory_short(pressure: &mut watch::Receiver<Pressure>) {
    // The sender exists until the server ends, so the wait has no error.
    let _ = pressure.wait_for(|it| *it != Pressure::None).await;
}
