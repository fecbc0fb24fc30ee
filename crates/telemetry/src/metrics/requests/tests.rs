//! Totals over reloads.

use tidegate_tower::WaitQueues;

use super::*;
use crate::metrics::{GatewayMetrics, RouteMetrics};

#[test]
fn no_total_shrinks_when_routes_are_made_anew_or_go() {
    let metrics = GatewayMetrics::new(WaitQueues::default());
    let route =
        |name| RouteMetrics::new(&metrics, &Arc::from(name), Door::Proxy, std::iter::empty());
    let ended = |route: &RouteMetrics, status: u16| {
        let status = http::StatusCode::from_u16(status).ok();
        let outcome = RequestOutcome::Forwarded;
        route.ended(outcome, status, Duration::from_millis(2));
    };
    let all = |totals: RequestTotals| (totals.outcomes.iter().sum::<u64>(), totals.took);
    let (first, second) = (route("first"), route("second"));
    // Status 101 is unusual, so its counter is created with the first request.
    for status in [101, 200] {
        ended(&first, status);
    }
    ended(&second, 200);
    drop(second);
    let anew = route("first");
    assert_eq!(all(anew.requests()), (2, 4_000));
    assert_eq!(all(metrics.requests.totals()), (3, 6_000));
    // A request that began before a reload ends.
    ended(&first, 101);
    ended(&route("second"), 200);
    assert_eq!(all(anew.requests()), (3, 6_000));
    assert_eq!(all(metrics.requests.totals()), (5, 10_000));
}
