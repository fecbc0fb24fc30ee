//! Overrides with other numbers for a whole limit.

use super::numbers::numbers;
use super::*;
use crate::kit::{exact, get_each};
use crate::support::commands::{ended_beside, tidegate};

/// Numbers of a limit in a window of 31 days.
fn limit_of(units: u64) -> Value {
    numbers("it", &format!("limit: {units}, window: 31d"))
}

async fn next(client: &Client, user: &str) -> (u16, Option<u64>, Option<u64>) {
    told(&ask(client, "/", &[("x-user-id", user)]).await)
}

#[tokio::test]
async fn a_limit_has_the_numbers_at_once_and_its_counts_stay() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let (admin, client) = (bench.gateway.admin, &bench.client);
        used_up("41", &async || next(client, "41").await).await;
        set(admin, "user_id:42", plan("gold")).await;
        set(admin, "user_id:43", limit_of(5)).await;
        let answer = set(admin, "limit:it", limit_of(7)).await;
        assert_eq!(
            (&answer["name"], &answer["action"], &answer["reason"]),
            (&json!("limit:it"), &json!("set"), &json!("launch day"))
        );
        // The next request has the numbers, also if a refusal was remembered, and meets what was used before.
        assert_eq!(next(client, "41").await, shown(200, 7, 3));
        assert_eq!(next(client, "44").await, shown(200, 7, 6));
        // Numbers of a plan and of one client stay.
        assert_eq!(next(client, "42").await, shown(200, 9, 8));
        assert_eq!(next(client, "43").await, shown(200, 5, 4));
        let report = page_json(admin, "/limits/it?client=user_id:41").await;
        let does = json!({ "by": "limit:it", "does": "set it 'limit: 7, window: 31d'" });
        assert_eq!(
            (&report["budgets"][0]["limit"], &report["overridden"]),
            (&json!(7), &does)
        );
        let count = sample(admin, "tidegate_overrides{action=\"set\"}").await;
        assert_eq!(count, 2);
        // Fewer units than were used.
        set(admin, "limit:it", limit_of(2)).await;
        assert_eq!(next(client, "41").await, shown(429, 2, 0));
        assert_eq!(next(client, "44").await, shown(200, 2, 0));
        clear(admin, "limit:it").await;
        assert_eq!(next(client, "41").await, shown(429, 3, 0));
        assert_eq!(next(client, "44").await, shown(200, 3, 0));
        let report = page_json(admin, "/limits/it?client=user_id:41").await;
        assert_eq!(report["overridden"], Value::Null);
        bench.stop().await;
    })
    .await;
}

/// Another gateway has the numbers, also if it starts later, and after a reload of the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_gateways_have_the_numbers_until_they_end() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = limited(&format!("{}secret: the same for all\n", exact(&redis)));
    let yaml = yaml.replace("UPSTREAM", &upstream.url());
    let (one, two) = tokio::join!(TestGateway::start(&yaml), TestGateway::start(&yaml));
    let (on_one, on_two) = (Client::new(one.address), Client::new(two.address));
    assert_eq!(next(&on_one, "1").await, shown(200, 3, 2));
    set(one.admin, "limit:it", limit_of(900_000)).await;
    assert_eq!(next(&on_one, "1").await.1, Some(900_000));
    until("the other gateway has them", async || {
        next(&on_two, "1").await.1 == Some(900_000)
    })
    .await;
    let late = TestGateway::start(&yaml).await;
    let on_late = Client::new(late.address);
    assert_eq!(next(&on_late, "1").await.1, Some(900_000));
    late.reload(&yaml.replace("limit: 3", "limit: 4")).await;
    assert_eq!(next(&on_late, "1").await.1, Some(900_000));
    let reloads = "tidegate_config_reloads_total{outcome=\"taken\"}";
    assert_eq!(sample(one.admin, reloads).await, 0);
    assert_eq!(sample(late.admin, reloads).await, 1);
    let short = json!({ "limits": { "it": "limit: 800000, window: 31d" }, "for": "700ms" });
    set(two.admin, "limit:it", short).await;
    until("they end on all gateways", async || {
        let [one, two, late] = [&on_one, &on_two, &on_late].map(|it| next(it, "1"));
        let told = tokio::join!(one, two, late);
        [told.0.1, told.1.1, told.2.1] == [Some(3), Some(3), Some(4)]
    })
    .await;
    for gateway in [one, two, late] {
        gateway.stop().await;
    }
}

/// One budget for all clients, which are under way while its limit changes again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_a_limit_changes() {
    on_both_stores(async |store| {
        let yaml = limited(store).replacen("31d }", "31d }, per: []", 1);
        let bench = Bench::start(&yaml).await;
        let admin = bench.gateway.admin;
        set(admin, "limit:it", limit_of(100_000)).await;
        let asking = get_each(&bench.client, 300, "/", &[], 200);
        let changing = async {
            for units in 100_001..100_020 {
                set(admin, "limit:it", limit_of(units)).await;
            }
        };
        tokio::join!(asking, changing);
        let report = page_json(admin, "/limits/it").await;
        let budget = &report["budgets"][0];
        let units = (&budget["limit"], &budget["used"]);
        assert_eq!(units, (&json!(100_019), &json!(300)));
        bench.stop().await;
    })
    .await;
}

/// A client's own numbers stay apart, also if they are equal to the numbers of the configuration.
#[tokio::test]
async fn equal_numbers_of_one_client_have_a_budget_of_their_own() {
    on_both_stores(async |store| {
        let yaml = limited(store).replacen("31d }", "31d }, per: []", 1);
        let bench = Bench::start(&yaml).await;
        let admin = bench.gateway.admin;
        set(admin, "user_id:42", limit_of(3)).await;
        set(admin, "limit:it", limit_of(100)).await;
        get_each(&bench.client, 9, "/", &[("x-user-id", "1")], 200).await;
        get_each(&bench.client, 3, "/", &[("x-user-id", "42")], 200).await;
        get_each(&bench.client, 1, "/", &[("x-user-id", "42")], 429).await;
        get_each(&bench.client, 1, "/", &[("x-user-id", "1")], 200).await;
        bench.stop().await;
    })
    .await;
}

/// A reload that changes the window leaves the numbers without effect. They return with the window.
#[tokio::test]
async fn numbers_that_a_reload_makes_useless_are_not_shown() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let admin = bench.gateway.admin;
        let yaml = limited(store).replace("UPSTREAM", &bench.upstream.url());
        let log = yaml.replace("fixed_window", "sliding_window_log");
        let log = log.replace("limit: 3", "limit: 4");
        let week = yaml.replace("31d", "7d").replace("limit: 3", "limit: 4");
        set(admin, "limit:it", limit_of(7)).await;
        for (yaml, limit, is_overridden) in [(&log, 7, true), (&week, 4, false), (&yaml, 7, true)] {
            bench.gateway.reload(yaml).await;
            let report = page_json(admin, "/limits/it?client=user_id:1").await;
            let shown = (
                &report["budgets"][0]["limit"],
                report["overridden"].is_object(),
            );
            assert_eq!(shown, (&json!(limit), is_overridden), "{yaml}");
        }
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_is_no_numbers_of_the_limit_is_refused() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    for (name, wanted, detail) in [
        (
            "limit:it",
            numbers("it", "unlimited"),
            "cannot be unlimited",
        ),
        ("limit:it", numbers("ti", "limit: 1, window: 31d"), "`ti`"),
        ("limit:it", plan("gold"), "gives it other numbers"),
        ("limit:it", block(), "gives it other numbers"),
        ("limit:it", exempt(), "gives it other numbers"),
        ("limit:it", numbers("it", "limit: 9, window: 1d"), "window"),
        ("limit:other", limit_of(9), "gives it other numbers"),
        ("limit:ti", numbers("ti", "limit: 9"), "did you mean `it`?"),
        ("limit:", limit_of(9), "limit:NAME"),
    ] {
        let answer = change(admin, Method::PUT, name, &[], &wanted).await;
        assert_eq!(
            (answer.status.as_u16(), error(&answer)),
            (400, json!("bad_override")),
            "{name} {wanted}"
        );
        assert!(answer.text().contains(detail), "{}", answer.text());
    }
    assert!(names(admin).await.is_empty());
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_sets_shows_explains_and_clears() {
    let bench = Bench::start(&limited("")).await;
    let url = format!("http://{}", bench.gateway.admin);
    let run = async |line: &str| {
        let line = format!("{line}|--admin|{url}");
        let mut command = tidegate(&line.split('|').collect::<Vec<_>>());
        command.current_dir(std::env::temp_dir());
        ended_beside(command).await
    };
    let line = "limit|it|set|limit: 9, window: 31d|--for|24h|--reason|launch day";
    let (status, out, err) = run(line).await;
    assert_eq!((status, &*err), (Some(0), ""));
    let expected = "limit:it: set it 'limit: 9, window: 31d' until 20";
    assert!(out.starts_with(expected), "{out}");
    let (_, out, _) = run("limit|it|show|--client|user_id:1").await;
    let expected = "\noverride for limit:it: set it 'limit: 9, window: 31d'\n";
    assert!(out.contains(expected), "{out}");
    let (_, out, _) = run("overrides|list").await;
    assert!(
        out.contains("limit:it") && out.contains("launch day"),
        "{out}"
    );
    let (status, _, err) = run("limit|it|set|limit: 8, window: 31d|--for|1h|--expect|none").await;
    assert_eq!(status, Some(1));
    assert!(err.contains("412"), "{err}");
    let (status, out, _) = run("limit|it|clear|--reason|it is over").await;
    let expected = "limit:it: set it 'limit: 9, window: 31d' is cleared\n";
    assert_eq!((status, &*out), (Some(0), expected));
    for arguments in [
        "limit|it|set|limit: 9, window: 31d",
        "limit|it|set|--for|1h",
        "limit|it|set|limit: 9, window: 31d|--for|1h|--client|user_id:1",
        "limit|it|show|limit: 9, window: 31d",
        "limit|it|clear|--for|1h",
        "limit|it|show|--reason|x",
    ] {
        let (status, _, err) = run(arguments).await;
        assert_eq!(status, Some(2), "{arguments:?}: {err}");
    }
    bench.stop().await;
}
