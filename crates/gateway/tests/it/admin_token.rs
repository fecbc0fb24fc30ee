//! Who may ask about clients on the admin port: whoever has the token, or without one whoever is on this machine.

use std::net::SocketAddr;

use http::Method;
use tidegate_testkit::{Answer, Client, Upstream};

use crate::kit::{page, sample, send};
use crate::support::{GatewayProcess, TestGateway};

const TOKEN: &str = "k7-Vq+0pE/2s=hunter2";

const PATHS: [(Method, &str); 3] = [
    (Method::GET, "/clients/ip:127.0.0.1"),
    (Method::POST, "/clients/ip:127.0.0.1/reset"),
    (Method::GET, "/config"),
];

fn yaml() -> String {
    let upstream = Upstream::ok();
    format!(
        "
limits:
  it: {{ fixed_window: {{ limit: 3, window: 31d }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [it] }}
",
        upstream.url()
    )
}

async fn ask(admin: SocketAddr, method: &Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let client = Client::fresh(admin).knows("www-authenticate");
    send(&client, method.clone(), path, headers).await
}

/// The same port by an address that is surely ours.
fn on_loopback(admin: SocketAddr) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], admin.port()))
}

#[tokio::test]
async fn with_a_token_it_is_asked_for_wherever_the_port_is() {
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let admin = format!("{{ address: \"{address}\", token: \"{TOKEN}\" }}");
        let gateway = TestGateway::start_with_admin(&admin, &yaml()).await;
        let admin = on_loopback(gateway.admin);
        for (method, path) in &PATHS {
            let bearer = |token: &str| format!("Bearer {token}");
            for good in [bearer(TOKEN), format!("bearer  {TOKEN} ")] {
                let answer = ask(admin, method, path, &[("authorization", &good)]).await;
                assert_eq!(answer.status, 200, "{good}: {answer:?}");
            }
            let shorter = &TOKEN[..TOKEN.len() - 1];
            for wrong in [
                bearer(""),
                bearer(shorter),
                bearer(&format!("{TOKEN}a")),
                bearer(&TOKEN.to_lowercase()),
                bearer(&format!("{TOKEN} {TOKEN}")),
                format!("Basic {TOKEN}"),
                format!("Bearer{TOKEN}"),
                TOKEN.to_owned(),
                "Bearer".to_owned(),
            ] {
                let answer = ask(admin, method, path, &[("authorization", &wrong)]).await;
                assert_eq!(answer.status, 401, "{wrong}");
                let challenge = answer.header("www-authenticate").unwrap();
                // The first is the one that Chromium reads.
                assert!(challenge.starts_with("Basic "), "{challenge}");
                assert!(challenge.contains(", Bearer "), "{challenge}");
                assert!(!answer.text().contains("hunter2"), "{answer:?}");
            }
            assert_eq!(ask(admin, method, path, &[]).await.status, 401);
            let bearer = bearer(TOKEN);
            let twice = [("authorization", &*bearer), ("authorization", &*bearer)];
            assert_eq!(ask(admin, method, path, &twice).await.status, 401);
        }
        // Who may not ask does not learn who there is.
        let nobody = ask(admin, &Method::GET, "/clients/nobody", &[]).await;
        assert_eq!(nobody.status, 401);
        for open in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(page(admin, open).await.0, 200, "{open}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn without_one_other_machines_are_told_what_to_configure() {
    for admin in ["\"0.0.0.0:0\"", "{ address: \"0.0.0.0:0\", token: \"\" }"] {
        let gateway = TestGateway::start_with_admin(admin, &yaml()).await;
        let admin = on_loopback(gateway.admin);
        for (method, path) in &PATHS {
            for headers in [&[][..], &[("authorization", "Bearer ")]] {
                let answer = ask(admin, method, path, headers).await;
                assert_eq!(answer.status, 403, "{answer:?}");
                assert!(answer.text().contains("token: "), "{answer:?}");
                assert!(answer.text().contains("loopback"), "{answer:?}");
            }
        }
        assert_eq!(page(admin, "/metrics").await.0, 200);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_token_is_in_no_line_of_the_log() {
    let admin = format!("{{ address: \"127.0.0.1:0\", token: \"{TOKEN}\" }}");
    let yaml = yaml();
    let mut gateway = GatewayProcess::start_with(&admin, "level: info", &yaml).await;
    for shown in [TOKEN, "wrong-hunter2"] {
        for (method, path) in &PATHS {
            let bearer = format!("Bearer {shown}");
            ask(gateway.admin, method, path, &[("authorization", &bearer)]).await;
        }
    }
    gateway
        .process
        .wait_for_line("were reset", crate::kit::LONG)
        .await;
    gateway.process.signal("TERM");
    gateway.process.wait(crate::kit::LONG).await;
    let output = gateway.process.output();
    assert!(
        !output.iter().any(|line| line.contains("hunter2")),
        "{output:?}"
    );
}

/// Guessing leaves a line for each address, now and then, and a count. A browser that has not asked its user yet leaves a count.
#[tokio::test]
async fn wrong_tokens_are_counted_and_logged() {
    let admin = format!("{{ address: \"127.0.0.1:0\", token: \"{TOKEN}\" }}");
    let yaml = yaml();
    let mut gateway = GatewayProcess::start_with(&admin, "level: info", &yaml).await;
    let path = "/config";
    for number in 0..50 {
        let wrong = format!("Bearer wrong{number}");
        let answer = ask(
            gateway.admin,
            &Method::GET,
            path,
            &[("authorization", &wrong)],
        )
        .await;
        assert_eq!(answer.status, 401);
        assert!(answer.text().contains("admin_token_wrong"), "{answer:?}");
    }
    for _ in 0..3 {
        let answer = ask(gateway.admin, &Method::GET, path, &[]).await;
        assert!(answer.text().contains("admin_token_needed"), "{answer:?}");
    }
    let foreign = ask(
        gateway.admin,
        &Method::GET,
        "/healthz",
        &[("host", "evil.example")],
    )
    .await;
    assert_eq!(foreign.status, 403);
    for (error, count) in [
        ("admin_token_wrong", 50),
        ("admin_token_needed", 3),
        ("foreign_host", 1),
    ] {
        let name = format!("tidegate_admin_requests_refused_total{{error=\"{error}\"}}");
        assert_eq!(sample(gateway.admin, &name).await, count, "{error}");
    }
    gateway.process.signal("TERM");
    gateway.process.wait(crate::kit::LONG).await;
    let output = gateway.process.output();
    let is_refusal = |line: &&String| line.contains("the admin port refused");
    let lines: Vec<_> = output.iter().filter(is_refusal).collect();
    assert_eq!(lines.len(), 1, "{output:?}");
    assert!(lines[0].contains(r#""from":"127.0.0.1""#), "{lines:?}");
    assert!(
        !output.iter().any(|line| line.contains("wrong1")),
        "{output:?}"
    );
}
