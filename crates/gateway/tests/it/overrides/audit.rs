//! Who may change overrides, the line that says who did, and changes at the same time.

use std::time::Duration;

use tidegate_testkit::{CallFault, RawClient, RedisProxy};

use super::*;
use crate::callers::sha256;
use crate::kit::LONG;
use crate::status::browser;
use crate::support::GatewayProcess;

/// Alice may write, Bob may read.
fn admin_port() -> String {
    let entry = |name: &str, role: &str| {
        let hash = sha256(&format!("hunter2-{name}"));
        format!("{{ name: {name}, hash: \"sha256:{hash}\", role: {role} }}")
    };
    format!(
        "{{ address: \"127.0.0.1:0\", tokens: [{}, {}] }}",
        entry("alice", "write"),
        entry("bob", "read")
    )
}

const ALICE: (&str, &str) = ("authorization", "Bearer hunter2-alice");
const BOB: (&str, &str) = ("authorization", "Bearer hunter2-bob");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_is_an_audit_line_with_who_what_and_why() {
    let upstream = Upstream::ok();
    let yaml = limited("").replace("UPSTREAM", &upstream.url());
    let gateway = GatewayProcess::start_with(&admin_port(), "level: info", &yaml).await;
    let changed = async |method, headers: &[_], wanted: Value| {
        change(gateway.admin, method, "user_id:42", headers, &wanted).await
    };
    // Who may not is no line.
    for (headers, status) in [(&[][..], 401), (&[BOB], 403)] {
        for method in [Method::PUT, Method::DELETE] {
            let answer = changed(method, headers, block()).await;
            assert_eq!(answer.status, status);
        }
    }
    assert_eq!(changed(Method::GET, &[BOB], Value::Null).await.status, 404);
    let gold = json!({ "plan": "gold", "until": "2030-01-01T00:00:00Z", "reason": "launch day" });
    assert_eq!(changed(Method::PUT, &[ALICE], gold).await.status, 200);
    let over = json!({ "reason": "it is over" });
    assert_eq!(changed(Method::DELETE, &[ALICE], over).await.status, 200);
    assert_eq!(
        changed(Method::DELETE, &[ALICE], Value::Null).await.status,
        404
    );
    let pattern = "\"target\":\"audit\"";
    gateway.process.wait_for_nth_line(pattern, 2, LONG).await;
    let lines = gateway.process.output().into_iter();
    let lines: Vec<Value> = lines
        .filter(|line| line.contains(pattern))
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    let fields = ["action", "by", "client", "before", "after", "reason"];
    let told: Vec<_> = lines
        .iter()
        .map(|line| fields.map(|field| line[field].as_str().unwrap()))
        .collect();
    let gold = "plan gold until 2030-01-01T00:00:00Z";
    assert_eq!(
        told,
        [
            [
                "override",
                "alice",
                "user_id:42",
                "none",
                gold,
                "launch day"
            ],
            [
                "override",
                "alice",
                "user_id:42",
                gold,
                "none",
                "it is over"
            ],
        ]
    );
    assert!(lines[0]["from"].as_str().unwrap().starts_with("127.0.0.1:"));
}

/// A gateway that asks Redis through a proxy.
async fn asking(proxy: &RedisProxy, upstream: &Upstream) -> GatewayProcess {
    let store = format!(
        "store: {{ redis: {{ url: \"redis://{}\", timeout: 2s, on_failure: open }} }}\n",
        proxy.addr()
    );
    let yaml = limited(&store).replace("UPSTREAM", &upstream.url());
    GatewayProcess::start_with(&admin_port(), "level: info", &yaml).await
}

/// A client that hangs up while Redis takes its time is told nothing, but the log is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_an_audit_line_though_nobody_waits_for_the_answer() {
    let redis = RedisServer::start().await;
    let proxy = RedisProxy::start(redis.addr());
    let upstream = Upstream::ok();
    let gateway = asking(&proxy, &upstream).await;
    let body = block().to_string();
    let length = body.len();
    for (request, action) in [
        (
            format!("PUT /overrides/user_id:42 HTTP/1.1\r\ncontent-length: {length}"),
            "override",
        ),
        (
            "POST /clients/user_id:42/reset HTTP/1.1".to_owned(),
            "reset",
        ),
    ] {
        let body = if action == "override" { &*body } else { "" };
        let line = format!("\"action\":\"{action}\"");
        // Others ask Redis, too, and may have been the late ones.
        until("its audit line", async || {
            let before = proxy.struck().len();
            for skip in 0..5 {
                proxy.strike(skip, CallFault::AnsweredLate(Duration::from_millis(300)));
            }
            let mut client = RawClient::connect(gateway.admin).await;
            let (name, value) = ALICE;
            let head = format!("{request}\r\nhost: 127.0.0.1\r\n{name}: {value}\r\n\r\n{body}");
            client.send(&head).await.unwrap();
            until("Redis is asked", async || proxy.struck().len() > before).await;
            drop(client);
            until("the late answers have come", async || {
                proxy.struck().len() >= before + 5
            })
            .await;
            proxy.heal();
            gateway.process.output().iter().any(|it| it.contains(&line))
        })
        .await;
    }
}

/// Redis breaks off in the midst of a load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_load_sets_before_it_fails_is_audited() {
    let redis = RedisServer::start().await;
    let proxy = RedisProxy::start(redis.addr());
    let upstream = Upstream::ok();
    let gateway = asking(&proxy, &upstream).await;
    let one =
        |id: usize| json!({ "name": format!("user_id:{id}"), "action": "block", "for": "1h" });
    let load = json!({ "overrides": (0..1_000).map(one).collect::<Vec<_>>() });
    // Other scripts may be among the first.
    proxy.strike(5, CallFault::Unanswered);
    let request = Request::post("/overrides").header(ALICE.0, ALICE.1);
    let request = request.body(body::full(load.to_string())).unwrap();
    let answer = Client::fresh(gateway.admin).request(request).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    let (_, set) = answer.text().split_once("before that, ").unwrap();
    let (set, _) = set.split_once(" of these were set").unwrap();
    let set: usize = set.parse().unwrap();
    assert!(set > 0 && set < 1_000, "{set}");
    let failed = "the change of an override failed";
    gateway.process.wait_for_nth_line(failed, 1, LONG).await;
    let lines = gateway.process.output();
    let lines = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(lines("an override was changed"), set);
    assert_eq!(lines(&format!("\"client\":\"{} names\"", 1_000 - set)), 1);
}

/// The page has an event of each change, with who made it.
#[tokio::test]
async fn the_status_page_tells_of_changes() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    set(admin, "user_id:42", plan("gold")).await;
    let text = "Override for user_id:42: plan gold, by no token (launch day).";
    let client = browser(admin);
    until("the event is there", async || {
        client.get("/status.json").await.text().contains(text)
    })
    .await;
    set(admin, "user_id:7", block()).await;
    let reason = json!({ "reason": "it is over" });
    change(admin, Method::DELETE, "user_id:7", &[], &reason).await;
    let text = "The override for user_id:7 was cleared by no token (it is over): block.";
    until("the event of the end is there", async || {
        client.get("/status.json").await.text().contains(text)
    })
    .await;
    set(admin, "10.0.0.0%2F8", block()).await;
    until("the list has both, the latest first", async || {
        let status = client.get("/status.json").await;
        let status: Value = serde_json::from_str(status.text()).unwrap();
        let field = |at: usize, field| status["overrides"]["latest"][at][field].clone();
        status["overrides"]["count"] == 2
            && [field(0, "name"), field(0, "does"), field(0, "until")]
                == ["10.0.0.0/8", "block", "never"]
            && [field(1, "name"), field(1, "reason")] == ["user_id:42", "launch day"]
    })
    .await;
    bench.stop().await;
}

#[tokio::test]
async fn a_change_may_demand_that_nothing_else_came_first() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let admin = bench.gateway.admin;
        let put = async |headers: &[(&str, &str)], wanted: Value| {
            change(admin, Method::PUT, "user_id:42", headers, &wanted).await
        };
        let none = ("if-none-match", "*");
        let first = put(&[none], plan("gold")).await;
        assert_eq!(first.status, 200);
        let version = first.header("etag").unwrap().to_owned();
        assert_eq!(put(&[none], block()).await.status, 412);
        let second = put(&[("if-match", &version)], exempt()).await;
        assert_eq!(second.status, 200, "{}", second.text());
        let late = put(&[("if-match", &version)], block()).await;
        assert_eq!(
            (late.status.as_u16(), error(&late)),
            (412, json!("override_changed"))
        );
        assert_eq!(late.header("etag"), second.header("etag"));
        let cleared = [("if-match", version.as_str())];
        let answer = change(admin, Method::DELETE, "user_id:42", &cleared, &Value::Null).await;
        assert_eq!(answer.status, 412);
        assert_eq!(get(&bench.client, "/", &[("x-user-id", "42")]).await, 200);
        for broken in ["7", "\"x\"", "W/\"7\"", ""] {
            assert_eq!(
                put(&[("if-match", broken)], block()).await.status,
                400,
                "{broken}"
            );
        }
        bench.stop().await;
    })
    .await;
}
