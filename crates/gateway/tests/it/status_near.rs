//! Who is near a limit: clients, where the limit counts something of theirs; a limit that all share has one key.

use tidegate_status::document::Status;
use tidegate_testkit::{Client, Upstream};

use crate::kit::{get, page};
use crate::status::when;
use crate::support::TestGateway;

const YAML: &str = "\
trusted_proxies: [127.0.0.1]
clients: [{ user_id: {} }, { ip: {} }]
limits:
  shared: { fixed_window: { limit: 10, window: 31d }, per: [] }
  own: { fixed_window: { limit: 5, window: 31d }, cost: { header: X-Cost, max: 5 } }
routes:
";

#[tokio::test]
async fn clients_are_near_limits_of_their_own_and_a_shared_limit_has_one_key() {
    let upstream = Upstream::ok();
    let url = upstream.url();
    let route = format!("  - {{ path: /**, upstream: \"{url}\", limits: [shared, own] }}\n");
    let gateway = TestGateway::start(&format!("{YAML}{route}")).await;
    let client = Client::new(gateway.address);
    let ask = async |user: &str, cost: &str| {
        let headers = [("x-user-id", user), ("x-cost", cost)];
        get(&client, "/", &headers).await
    };
    // Of 5, one has 1 left, and other has 2. A cost that is too large for what is left does not make it near.
    assert_eq!(ask("one", "4").await, 200);
    assert_eq!(ask("other", "3").await, 200);
    assert_eq!(ask("other", "5").await, 429);
    for n in 0..7 {
        assert_eq!(ask(&format!("single-{n}"), "1").await, 200);
    }
    let keys = |status: &Status, name: &str| {
        let limit = status.limits.iter().find(|limit| limit.name == name);
        limit.map(|limit| limit.near_keys)
    };
    let counts = |status: &Status, name: &str| {
        let limit = status.limits.iter().find(|limit| limit.name == name);
        limit.map(|limit| limit.used_shares.clone())
    };
    // Of `own`, seven clients used 1 of 5 units, and the others 3 and 4 of 5. The refused request left 3 of 5 used.
    let is_sampled = |status: &Status| {
        keys(status, "shared") == Some(1) && counts(status, "own") == Some(vec![0, 7, 0, 3, 0, 0])
    };
    let status = when(
        gateway.admin,
        "the shared limit is near its end",
        is_sampled,
    )
    .await;
    assert_eq!(keys(&status, "own"), Some(1));
    let near = status.clients.near.iter();
    let near: Vec<_> = near.map(|it| (&*it.name, &*it.limit, it.left)).collect();
    assert_eq!(near, [("user_id:one", "own", 1)]);
    let (_, metrics) = page(gateway.admin, "/metrics").await;
    for limit in ["shared", "own"] {
        let line = format!("tidegate_limit_near_keys{{limit=\"{limit}\"}} 1\n");
        assert!(metrics.contains(&line), "{metrics}");
        // The nine clients are `one`, `other` and seven more. An estimate of so few clients is seldom off by one.
        let line = format!("tidegate_limit_clients{{limit=\"{limit}\"}} ");
        let clients = metrics
            .lines()
            .find_map(|one| one.strip_prefix(&line)?.parse::<u64>().ok());
        assert!(
            clients.is_some_and(|it| (7..=10).contains(&it)),
            "{metrics}"
        );
    }
    for (bound, count) in [
        ("0.1", 0),
        ("0.25", 7),
        ("0.5", 7),
        ("0.8", 10),
        ("1.0", 10),
    ] {
        let bucket = format!("bucket{{le=\"{bound}\",limit=\"own\"}} {count}\n");
        assert!(
            metrics.contains(&format!("tidegate_decision_used_ratio_{bucket}")),
            "{metrics}"
        );
    }
}
