//! Limits per parameter of the query.

use crate::callers::at;
use crate::kit::{Bench, get, on_both_stores};

async fn per_index(store: &str) {
    let limit = "fixed_window: { limit: 1, window: 31d }, per: [\"query:index\"]";
    let bench = Bench::of_limit(store, limit).await;
    let (one, other) = (at(&bench, 2), at(&bench, 3));
    for (client, target, status) in [
        (&one, "/search?index=a%20b&page=1", 200),
        // Another spelling, path or client is the same value.
        (&one, "/search?index=a+b", 429),
        (&one, "/else?%69ndex=%61%20b", 429),
        (&other, "/search?page=2&index=a+b", 429),
        (&one, "/search?index=A+B", 200),
        // Without one value the address counts.
        (&one, "/search", 200),
        (&one, "/search?index=", 429),
        (&one, "/search?index=c&index=d", 429),
        (&one, "/search?Index=c", 429),
        (&other, "/search?index=c&index=c", 200),
        (&other, "/search?index=c", 200),
    ] {
        assert_eq!(get(client, target, &[]).await, status, "{target}");
    }
    let forwarded = bench.upstream.requests();
    let first = forwarded.first().unwrap();
    assert_eq!(first.target, "/search?index=a%20b&page=1", "as it was sent");
    bench.stop().await;
}

#[tokio::test]
async fn each_value_of_a_parameter_is_counted_alone() {
    on_both_stores(per_index).await;
}
