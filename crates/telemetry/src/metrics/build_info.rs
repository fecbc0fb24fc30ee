//! Which build runs.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::program;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    commit: &'static str,
    profile: &'static str,
    os: &'static str,
    arch: &'static str,
}

pub(super) fn register(registry: &mut Registry) {
    let build = Family::<BuildLabels, Gauge>::default();
    let of_this = BuildLabels {
        version: program::VERSION,
        commit: program::COMMIT,
        profile: program::PROFILE,
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
    };
    build.get_or_create_owned(&of_this).set(1);
    registry.register(
        "build_info",
        "1, with version, commit and profile as labels",
        build,
    );
}
