//! Notifies systemd of the state of a service with `Type=notify` or `notify-reload`. Without systemd this has no effect.

use sd_notify::NotifyState;

/// Reports that requests are served.
pub(super) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// Reports that a reload has begun, which ends with [`ready`] or [`still`].
pub(super) fn reloading() {
    // The clock is always there.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Reports that a reload was refused, and that requests are served as before.
pub(super) fn still() {
    let status = "serving; a changed configuration is refused, the log says why";
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that requests in flight are the last.
pub(super) fn stopping() {
    let status = "requests in flight are answered";
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot report the state of the service to systemd");
    }
}
