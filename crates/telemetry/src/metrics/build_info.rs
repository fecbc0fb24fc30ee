//! The build of the running program.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

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
