//! What systemd is told of a service with `Type=notify` or `notify-reload`. Without one nobody is told.

use sd_notify::NotifyState;

/// Requests are served.
pub(super) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// A reload has begun, which ends with [`ready`] or [`still`].
pub(super) fn reloading() {
    // The clock is always there.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// A reload was refused, and requests are served as before.
pub(super) fn still() {
    let status = "serving; a changed configuration is refused, the log says why";
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Requests in flight are the last.
pub(super) fn stopping() {
    let status = "requests in flight are answered";
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot report the state of the service to systemd");
    }
}
