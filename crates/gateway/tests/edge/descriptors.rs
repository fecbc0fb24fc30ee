//! A gateway that runs out of file descriptors: clients are refused before upstreams are, and no server is blamed for it.

use std::process::Command;

use tidegate_testkit::{Client, RawClient, Upstream};
use tokio::task::JoinSet;

use crate::bench::{LONG, sample};
use crate::support::GatewayProcess;
use crate::support::asking::until;
use crate::support::commands::written;
use crate::support::held::held;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const DESCRIPTORS: &str = "-n 128";

/// One failure is enough to be left out.
fn yaml(upstream: &Upstream) -> String {
    format!(
        "upstreams: {{ it: {{ servers: [\"{}\"], eject: {{ after: 1, for: 1h }} }} }}\n\
         routes: [{{ path: /**, upstream: it }}]\n",
        upstream.url()
    )
}

const FAILED: &str = "tidegate_requests_total{route=\"/**\",outcome=\"failed\",status=\"5xx\"}";
const EJECTIONS: &str = "tidegate_upstream_ejections_total{upstream=\"it\"}";
const REFUSED: &str = "tidegate_connections_refused_total{reason=\"descriptors\"}";

#[tokio::test]
async fn clients_leave_enough_of_them_to_upstreams() {
    let (upstream, release) = held();
    let gateway = GatewayProcess::start_limited(DESCRIPTORS, &yaml(&upstream)).await;
    let mut clients = JoinSet::new();
    for _ in 0..116 {
        let mut client = RawClient::connect(gateway.address).await;
        clients.spawn(async move {
            // Whoever is refused at once need not have been read.
            _ = client.send(GET).await;
            client.response(LONG).await.map(|answer| answer.status())
        });
    }
    until("each is refused or has reached the upstream", async || {
        sample(gateway.admin, REFUSED).await as usize + upstream.count() == 116
    })
    .await;
    // Probes are answered meanwhile.
    assert_eq!(
        Client::fresh(gateway.admin).get("/healthz").await.status,
        200
    );
    release.send(true).unwrap();
    let statuses = clients.join_all().await;
    let served = statuses
        .iter()
        .filter(|status| matches!(status, Ok(200)))
        .count();
    let refused = statuses
        .iter()
        .filter(|status| matches!(status, Ok(503) | Err(_)))
        .count();
    assert_eq!(served + refused, 116, "{statuses:?}");
    assert!(served >= 20, "{statuses:?}");
    assert_eq!(sample(gateway.admin, FAILED).await, 0);
    // All have left.
    assert_eq!(Client::fresh(gateway.address).get("/").await.status, 200);
    assert_eq!(sample(gateway.admin, EJECTIONS).await, 0);
    let output = gateway.process.output().join("\n");
    assert!(output.contains("max_connections"), "{output}");
}

/// One connection may carry a hundred requests, each of which needs a connection to its upstream.
#[tokio::test]
async fn requests_that_find_none_left_blame_no_server() {
    let (upstream, release) = held();
    let gateway = GatewayProcess::start_limited(DESCRIPTORS, &yaml(&upstream)).await;
    let clients =
        [Client::h2(gateway.address), Client::h2(gateway.address)].map(std::sync::Arc::new);
    let mut requests = JoinSet::new();
    for n in 0..180 {
        let client = clients[n % 2].clone();
        requests.spawn(async move {
            let answer = client.get("/").await;
            (answer.status.as_u16(), answer.text().to_owned())
        });
    }
    until("each is refused or has reached the upstream", async || {
        sample(gateway.admin, FAILED).await as usize + upstream.count() == 180
    })
    .await;
    release.send(true).unwrap();
    let answers = requests.join_all().await;
    let served = answers.iter().filter(|(status, _)| *status == 200).count();
    assert!((40..180).contains(&served), "{served}");
    for (status, text) in &answers {
        assert!(
            *status == 200 || (*status == 503 && text.contains("\"overloaded\"")),
            "{status} {text}"
        );
    }
    assert_eq!(sample(gateway.admin, EJECTIONS).await, 0);
    assert_eq!(Client::fresh(gateway.address).get("/").await.status, 200);
}

#[tokio::test]
async fn the_soft_limit_is_raised() {
    let (upstream, _release) = held();
    let gateway = GatewayProcess::start_limited("-S -n 100", &yaml(&upstream)).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.process.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{line}");
}

#[test]
fn check_says_what_does_not_fit() {
    let routes = "routes: [{ path: /**, upstream: \"http://127.0.0.1:1\" }]\n";
    let check = |yaml: &str| {
        let (_folder, file) = written(&format!("{yaml}{routes}"));
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("ulimit -n 256; exec \"$0\" check -c \"$1\"");
        let output = command
            .arg(env!("CARGO_BIN_EXE_tidegate"))
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = check("max_connections: 10000\n");
    assert!(
        said.contains("max_connections") && said.contains("256"),
        "{said}"
    );
    assert!(
        said.contains("2 warnings"),
        "the other is that there is no limit: {said}"
    );
    let said = check("max_connections: 50\n");
    assert!(said.contains("1 warning"), "{said}");
}
