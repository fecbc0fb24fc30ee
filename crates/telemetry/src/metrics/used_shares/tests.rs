//! Tests the bucket of a share, and the text of the histogram.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;

#[test]
fn a_share_is_in_its_bucket() {
    for (capacity, remaining, bucket) in [
        (10, 10, 0),
        (10, 9, 0),
        (1_000, 899, 1),
        (4, 3, 1),
        (10, 5, 2),
        (5, 1, 3),
        (1_000_000, 199_999, 4),
        (10, 1, 4),
        (1_000, 99, 5),
        (10, 0, 5),
        // A plan or an override may have more units than the limit.
        (10, 11, 0),
        (0, 0, 0),
        (1 << 53, 0, 5),
    ] {
        let shares = UsedShares::default();
        shares.add(capacity, remaining);
        let expected: [u64; BUCKETS] = from_fn(|at| u64::from(at == bucket));
        assert_eq!(shares.counts(), expected, "{remaining} of {capacity}");
    }
}

#[test]
fn the_text_is_that_of_a_histogram() {
    let shares = UsedShares::default();
    for remaining in [9, 5, 0, 0] {
        shares.add(10, remaining);
    }
    let mut registry = Registry::default();
    registry.register("it", "Shares", shares);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "it_sum 2.6",
        "it_count 4",
        "it_bucket{le=\"0.1\"} 1",
        "it_bucket{le=\"0.5\"} 2",
        "it_bucket{le=\"0.9\"} 2",
        "it_bucket{le=\"1.0\"} 4",
        "it_bucket{le=\"+Inf\"} 4",
    ] {
        assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
    }
}
