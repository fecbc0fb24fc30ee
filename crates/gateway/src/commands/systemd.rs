//! Notifies systemd of the state of a service with `Type=notify` or `notify-reload`. Has no effect without systemd.

use sd_notify::NotifyState;

/// Reports that the gateway serves requests.
pub(super) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// Reports that a reload has begun. The next call of [`ready`] or [`still`] reports its end.
pub(super) fn reloading() {
    // The monotonic clock always exists.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Reports that a reload was refused, and that the previous configuration stays in force.
pub(super) fn still() {
    let status = "serving; a changed configuration is refused, the log says why";
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the gateway is stopping and completes the requests in flight.
pub(super) fn stopping() {
    let status = "requests in flight are answered";
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot report the state of the service to systemd");
    }
}
