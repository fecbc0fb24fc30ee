//! P1 to P14. Every spelling of `/api/login` shares its one budget or is refused, with and without a route behind it that takes
//! everything and limits nothing.

use tidegate_testkit::{Client, RawClient, Upstream};

use crate::lab::{Lab, answer_to, gateway};

/// Five logins a day and address.
const LOGIN: &str = "
limits: { logins: { fixed_window: { limit: 5, window: 1d } } }
routes:
  - { path: /api/login, upstream: UPSTREAM, limits: [logins] }
";

/// What an attacker would rather meet.
const ANYTHING: &str = "  - { path: /**, upstream: UPSTREAM }";

/// What becomes of a spelling.
#[derive(Clone, Copy, Debug)]
enum Becomes {
    /// It is a login, and arrives as this target.
    Login(&'static str),
    /// It is refused, and costs nothing.
    Refused(u16),
    /// It is another path for gateway and upstream alike, and arrives as this target.
    Other(&'static str),
}

use Becomes::{Login, Other, Refused};

const SPELLINGS: &[(&str, Becomes)] = &[
    ("/api/login", Login("/api/login")),
    // P1
    ("/api//login", Login("/api/login")),
    ("//api///login", Login("/api/login")),
    ("/api/login//", Login("/api/login/")),
    // P2
    ("/api/./login", Login("/api/login")),
    ("/./api/login/.", Login("/api/login/")),
    ("/api/x/../login", Login("/api/login")),
    ("/x/%2e%2e/api/login", Login("/api/login")),
    ("/x/.%2E/api/%2e/login", Login("/api/login")),
    ("/../../api/login", Login("/api/login")),
    ("/api/login/x/..", Login("/api/login/")),
    ("/api/..;/api/login", Refused(400)),
    ("/api/x/..;v/login", Refused(400)),
    // P3
    ("/api%2flogin", Refused(400)),
    ("/api%2Flogin", Refused(400)),
    ("/api%5clogin", Refused(400)),
    ("/api\\login", Refused(400)),
    ("/x/..%2fapi/login", Refused(400)),
    ("/x/..%5c..\\api/login", Refused(400)),
    // P4
    ("/api/%6cogin", Login("/api/login")),
    ("/api/%6C%6f%67%69%6E", Login("/api/login")),
    ("/%61pi/login", Login("/api/login")),
    // P5: paths are told apart by case (RFC 3986, 6.2.2.1).
    ("/API/login", Other("/API/login")),
    // P6
    ("/api/login/", Login("/api/login/")),
    // P7
    ("/api/login;v=1", Login("/api/login;v=1")),
    ("/api;x/login;y;z", Login("/api;x/login;y;z")),
    ("/;x/api/login", Login("/;x/api/login")),
    ("/api/login/;v=1", Login("/api/login/;v=1")),
    ("/api/login%3bv=1", Other("/api/login%3Bv=1")),
    // P8
    ("/api/login?x=1", Login("/api/login?x=1")),
    ("/api/login/?x=1", Login("/api/login/?x=1")),
    ("/api//login?x=//./%2e%zz", Login("/api/login?x=//./%2e%zz")),
    ("/api/login?", Login("/api/login?")),
    ("/api/login?/../x", Login("/api/login?/../x")),
    // P10
    ("/api/login%00", Refused(400)),
    ("/api/login%0a", Refused(400)),
    ("/api/login%0d%0a", Refused(400)),
    ("/api/login%09", Refused(400)),
    ("/api/login%7f", Refused(400)),
    ("/api/login%zz", Refused(400)),
    ("/api/login%", Refused(400)),
    ("/api/login%6", Refused(400)),
    ("/api/login%c0%af", Refused(400)),
    ("/api/login%e0%80%af", Refused(400)),
    ("/api%c0%aflogin", Refused(400)),
    ("/api/login%u002f", Refused(400)),
    // An escaped space and an escaped percent sign are letters like any other, and never decoded.
    ("/api/login%20", Other("/api/login%20")),
    ("/api/login%252f", Other("/api/login%252f")),
    ("/api%252flogin", Other("/api%252flogin")),
    ("/api/%256cogin", Other("/api/%256cogin")),
    // But for dots, which lead elsewhere wherever somebody does decode them.
    ("/x/%252e%252e/api/login", Refused(400)),
    ("/x/..%252fapi/login", Refused(400)),
    // P11
    ("http://host/api/login", Login("/api/login")),
    ("http://host//api/./login?x", Login("/api/login?x")),
    ("http://host/api%2flogin", Refused(400)),
    // P12
    ("//host/api/login", Other("/host/api/login")),
    ("//api/login", Login("/api/login")),
    // P13
    ("/api/login%3fx", Other("/api/login%3Fx")),
    ("/api/login%23x", Other("/api/login%23x")),
];

#[tokio::test]
async fn every_spelling_of_a_path_shares_its_budget_or_is_refused() {
    for (spelling, becomes) in SPELLINGS {
        let lab = Lab::new(LOGIN).await;
        let expected = match becomes {
            Other(_) => &Refused(404),
            becomes => becomes,
        };
        meets(&lab, spelling, *expected).await;
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_slips_to_a_route_without_its_limit() {
    for (spelling, becomes) in SPELLINGS {
        let lab = Lab::new(&format!("{LOGIN}{ANYTHING}")).await;
        meets(&lab, spelling, *becomes).await;
    }
}

/// HTTP/2 has other ways to send a target, and the same targets.
#[tokio::test]
async fn nor_does_one_over_http_2() {
    let upstream = Upstream::ok();
    for (spelling, becomes) in SPELLINGS
        .iter()
        .filter(|(spelling, _)| spelling.starts_with('/'))
    {
        let gateway = gateway(upstream.url(), &format!("{LOGIN}{ANYTHING}")).await;
        let client = Client::h2(gateway.address);
        let before = upstream.count();
        let status = client.get(spelling).await.status;
        let arrived = upstream
            .requests()
            .get(before)
            .map(|request| request.target.clone());
        let (cost, expected) = match becomes {
            Login(target) => (1, (200, Some(*target))),
            Other(target) => (0, (200, Some(*target))),
            Refused(status) => (0, (*status, None)),
        };
        assert_eq!(
            (status.as_u16(), arrived.as_deref()),
            expected,
            "{spelling}"
        );
        for _ in 0..5 - cost {
            assert_eq!(client.get("/api/login").await.status, 200, "{spelling}");
        }
        assert_eq!(client.get("/api/login").await.status, 429, "{spelling}");
    }
}

#[tokio::test]
async fn p14_a_path_of_60_kib_is_too_long() {
    let lab = Lab::new(&format!("{LOGIN}{ANYTHING}")).await;
    meets(&lab, &format!("/{}", "a".repeat(60 * 1024)), Refused(414)).await;
    meets(
        &lab,
        &format!("{}/api/login", "/x/..".repeat(12 * 1024)),
        Refused(414),
    )
    .await;
}

/// One login, one request with the spelling, and then as many logins as are left. One more of each must be refused. So the spelling
/// costs exactly one, or nothing.
async fn meets(lab: &Lab, spelling: &str, becomes: Becomes) {
    let shown = &spelling[..spelling.len().min(80)];
    let mut client = lab.connect().await;
    assert_eq!(get(lab, &mut client, "/api/login").await, 200);
    let before = lab.upstream.requests().len();
    let status = get(lab, &mut client, spelling).await;
    let arrived = lab.upstream.requests().split_off(before);
    let targets: Vec<_> = arrived
        .iter()
        .map(|request| request.start.as_str())
        .collect();
    let (cost, expected, again) = match becomes {
        Login(target) => (1, (200, Some(target)), 429),
        Other(target) => (0, (200, Some(target)), 200),
        Refused(status) => (0, (status, None), status),
    };
    let (wanted, target) = expected;
    assert_eq!(status, wanted, "{shown}");
    let target = target.map(|target| format!("GET {target} HTTP/1.1"));
    assert_eq!(targets, target.iter().collect::<Vec<_>>(), "{shown}");
    for _ in 0..4 - cost {
        assert_eq!(get(lab, &mut client, "/api/login").await, 200, "{shown}");
    }
    assert_eq!(get(lab, &mut client, "/api/login").await, 429, "{shown}");
    assert_eq!(get(lab, &mut client, spelling).await, again, "{shown}");
}

/// The status of an answer; the connection is opened again where the gateway closed it.
async fn get(lab: &Lab, client: &mut RawClient, target: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: host\r\n\r\n");
    let answer = answer_to(client, request).await;
    if answer.header("connection") == Some("close") {
        let from = client.local_addr().ip();
        *client = RawClient::connect_from(from, lab.gateway.address).await;
    }
    answer.status()
}
