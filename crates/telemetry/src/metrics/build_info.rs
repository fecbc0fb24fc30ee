//! The build of the running program, and the start of its process.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use super::registrar::Registrar;
use crate::program;

pub(super) fn register(registrar: &mut Registrar) {
    let build: Family<_, Gauge> = registrar.add(
        "build_info",
        "1, with version, commit and profile as labels",
    );
    let of_this = [
        ("version", program::VERSION),
        ("commit", program::COMMIT),
        ("profile", program::PROFILE),
        ("os", std::env::consts::OS),
        ("arch", std::env::consts::ARCH),
    ];
    build.get_or_create_owned(&of_this).set(1);
}

/// The time at which the gateway was first made, in epoch seconds.
static STARTED: LazyLock<f64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
});

/// Returns a registry with the start of the process. Its name has no prefix, because dashboards expect the usual name.
pub(super) fn of_process() -> Registry {
    let mut registry = Registry::default();
    let help = "When the process started, in seconds since the epoch";
    let started = ConstGauge::new(*STARTED);
    registry.register_with_unit("process_start_time", help, Unit::Seconds, started);
    registry
}
