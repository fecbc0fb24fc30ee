//! Tests the text of a histogram of durations.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;

const NAME: &str = "it";

#[test]
fn a_duration_is_in_its_bucket_and_all_beyond() {
    let durations = Durations::default();
    for micros in [0, 500, 501, 3_000_000, 61_000_000] {
        durations.observe(Duration::from_micros(micros));
    }
    let mut registry = Registry::default();
    registry.register(NAME, "Durations", durations);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "it_sum 64.001001",
        "it_count 5",
        "it_bucket{le=\"0.0005\"} 2",
        "it_bucket{le=\"0.001\"} 3",
        "it_bucket{le=\"2.5\"} 3",
        "it_bucket{le=\"10.0\"} 4",
        "it_bucket{le=\"60.0\"} 4",
        "it_bucket{le=\"+Inf\"} 5",
    ] {
        assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
    }
}
