//! Tests which exemplars are shown, and on which lines.

use tidegate_tower::WaitQueues;

use super::super::{Format, GatewayMetrics, RouteMetrics};
use super::*;
use crate::outcome::{Door, RequestOutcome};

#[test]
fn the_last_recorded_request_of_each_bucket_is_shown_in_openmetrics_only() {
    let metrics = GatewayMetrics::new(WaitQueues::default());
    let routes = ["/a\"b\\**", "/b"].map(|name| {
        let none = std::iter::empty();
        RouteMetrics::new(&metrics, &Arc::from(name), Door::Proxy, none)
    });
    for (millis, trace_id) in [(3, 0xa), (4, 0xb), (700, 0xc), (90_000, 0xd)] {
        let took = Duration::from_millis(millis);
        routes[0].ended(RequestOutcome::Forwarded, None, took);
        routes[0].recorded(took, trace_id);
    }
    // This request is not recorded.
    let took = Duration::from_millis(3);
    routes[1].ended(RequestOutcome::Forwarded, None, took);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics.registry).unwrap();
    assert!(!metrics.written(text.clone(), Format::Text).contains(" # {"));
    let text = metrics.written(text, Format::OpenMetrics);
    let with: Vec<_> = text.lines().filter(|line| line.contains(" # {")).collect();
    let expected = [
        ("0.005", "2", 0xb_u128, "0.004"),
        ("1.0", "3", 0xc, "0.7"),
        ("+Inf", "4", 0xd, "90.0"),
    ];
    assert_eq!(with.len(), expected.len(), "{with:?}");
    for (line, (bound, count, trace_id, took)) in with.iter().zip(expected) {
        let start = format!(
            "{BUCKET}le=\"{bound}\",route=\"/a\\\"b\\\\**\"}} {count} # {{trace_id=\"{trace_id:032x}\"}} {took} "
        );
        let time = line.strip_prefix(&start);
        let time = time.unwrap_or_else(|| panic!("{line}\ndoes not begin with\n{start}"));
        assert!(time.parse::<f64>().unwrap() > 1.7e9);
    }
    assert!(text.ends_with("# EOF\n"));
}
