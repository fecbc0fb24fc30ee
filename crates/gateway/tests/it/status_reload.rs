//! The figures of `/status.json` over reloads: what was counted stays, and a reload is no traffic.

use tidegate_status::document::Status;
use tidegate_testkit::{Client, Upstream};

use crate::kit::{get_each, page, until};
use crate::status::when;
use crate::support::TestGateway;

/// The routes of these names, each with its path.
fn yaml(upstream: &Upstream, routes: &[&str]) -> String {
    let route = |name: &&str| {
        let upstream = upstream.url();
        format!("  - {{ name: {name}, path: /{name}, upstream: \"{upstream}\", limits: [all] }}\n")
    };
    let limits = "limits: { all: { fixed_window: { limit: 100000, window: 31d }, per: [] } }\n";
    format!(
        "{limits}routes:\n{}",
        routes.iter().map(route).collect::<String>()
    )
}

async fn ask(gateway: &TestGateway, path: &str, times: usize, status: u16) {
    let client = Client::new(gateway.address);
    get_each(&client, times, path, &[], status).await;
}

/// The document when so many requests ended, all of them were sampled, and two more seconds have passed.
async fn sampled(gateway: &TestGateway, requests: u64) -> Status {
    let seen = when(gateway.admin, "all have ended", |it| {
        it.requests.total == requests
    })
    .await;
    let later = seen.tick + 2;
    when(gateway.admin, "they were sampled", |it| it.tick >= later).await
}

/// The requests of the last 300 seconds, and those of them that were refused. A test may take longer than a minute, and what was
/// asked first is then no longer in the figures of a minute.
fn seconds(status: &Status) -> (u64, u64) {
    let series = &status.requests.series.as_ref().unwrap().seconds;
    let sum = |counts: &[u32]| counts.iter().copied().map(u64::from).sum::<u64>();
    (sum(&series.all), sum(&series.refused))
}

#[tokio::test]
async fn a_route_that_goes_and_comes_back_is_no_traffic() {
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&upstream, &["stays", "goes"])).await;
    sampled(&gateway, 0).await;
    ask(&gateway, "/stays", 3, 200).await;
    ask(&gateway, "/goes", 40, 200).await;
    let before = sampled(&gateway, 43).await;
    assert_eq!(seconds(&before), (43, 0));

    gateway.reload(&yaml(&upstream, &["stays"])).await;
    ask(&gateway, "/stays", 2, 200).await;
    let without = sampled(&gateway, 45).await;
    assert_eq!(seconds(&without), (45, 0));
    assert!(without.requests.minute.all <= 45);
    assert_eq!(without.requests.outcomes["forwarded"], 45);
    assert!(without.routes.iter().all(|route| route.name != "goes"));

    gateway.reload(&yaml(&upstream, &["stays", "goes"])).await;
    ask(&gateway, "/stays", 1, 200).await;
    let again = sampled(&gateway, 46).await;
    assert_eq!(seconds(&again), (46, 0));
    assert!(again.requests.minute.all <= 46);
    let goes = again.routes.iter().find(|route| route.name == "goes");
    let goes = goes.unwrap();
    assert_eq!((goes.total, goes.minute.all), (40, 0));
    gateway.stop().await;
}

#[tokio::test]
async fn an_outcome_that_is_rare_is_counted_on_after_a_reload() {
    let upstream = Upstream::ok();
    let yaml = yaml(&upstream, &["plain"]);
    // A refusal with a status that refusals seldom have.
    let busy = yaml.replace("limits: [all]", "limits: [one], reject: { status: 503 }");
    let busy = busy.replace(
        "limits: { ",
        "limits: { one: { fixed_window: { limit: 1, window: 31d }, per: [] }, ",
    );
    let gateway = TestGateway::start(&busy).await;
    sampled(&gateway, 0).await;
    ask(&gateway, "/plain", 1, 200).await;
    ask(&gateway, "/plain", 30, 503).await;
    sampled(&gateway, 31).await;
    gateway.reload(&format!("{busy}# changed\n")).await;
    sampled(&gateway, 31).await;
    ask(&gateway, "/plain", 1, 503).await;
    let seen = sampled(&gateway, 32).await;
    assert_eq!(seen.requests.outcomes["limited"], 31);
    assert_eq!(seconds(&seen), (32, 31));
    assert!(seen.requests.minute.refused <= 31);
    let plain = seen.routes.iter().find(|route| route.name == "plain");
    let plain = plain.unwrap();
    assert_eq!(plain.total, 32);
    // A route has no series. The minute has all of its requests if the gateway is no older.
    if seen.tick < 60 {
        assert_eq!((plain.minute.all, plain.minute.refused), (32, 31));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn gauges_of_a_limit_that_is_gone_go() {
    let upstream = Upstream::ok();
    let with = yaml(&upstream, &["plain"]);
    let gateway = TestGateway::start(&with).await;
    let shows = async |limit: &str| {
        let (_, metrics) = page(gateway.admin, "/metrics").await;
        let of = |name| metrics.contains(&format!("\ntidegate_limit_{name}{{limit=\"{limit}\"}} "));
        [of("near_keys"), of("used_ratio"), of("clients")]
    };
    until("they are there", async || shows("all").await == [true; 3]).await;
    gateway.reload(&with.replace("all", "other")).await;
    until("they are gone", async || {
        [shows("all").await, shows("other").await] == [[false; 3], [true; 3]]
    })
    .await;
    gateway.stop().await;
}
