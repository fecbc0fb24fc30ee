//! S10, S11: nothing is tunnelled past the limits, be a switch of protocols allowed or not.

use tidegate_testkit::{Message, RawClient, RawUpstream};

use crate::lab::{ALL, LONG, Lab};

/// Two requests a day for everybody: a third that reaches the upstream was not counted.
const TWO: &str = "
limits: { two: { fixed_window: { limit: 2, window: 1d } } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [two] }]
";

/// The same where clients may switch to WebSocket.
const TWO_ALLOWED: &str = "
limits: { two: { fixed_window: { limit: 2, window: 1d } } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [two], upgrade: [websocket] }]
";

fn asking_for(protocol: &str) -> String {
    format!(
        "GET /first HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n{protocol}\r\n\
         GET /second HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /SMUG HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
}

const ASKED: [&str; 4] = [
    "Upgrade: foo\r\n",
    "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "Upgrade: TLS/1.0\r\nUpgrade: websocket\r\n",
];

#[tokio::test]
async fn s10_what_follows_a_wish_for_another_protocol_is_a_request_that_is_limited() {
    let lab = Lab::new(TWO).await;
    for protocol in ASKED {
        let requests = lab.answers(asking_for(protocol), &[200, 200, 429]).await;
        for request in requests {
            let asked =
                ["upgrade", "connection", "http2-settings"].map(|name| request.header(name));
            assert_eq!(asked, [None; 3]);
        }
    }
}

#[tokio::test]
async fn s11_an_upgrade_in_an_ordinary_answer_opens_no_tunnel() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nok";
    for yaml in [TWO, TWO_ALLOWED] {
        let lab = Lab::around(RawUpstream::answering(answer), yaml).await;
        let case = asking_for(ASKED[2]);
        for conversation in lab.every_way(case.as_bytes()).await {
            let answers = conversation.answers(case.as_bytes());
            let statuses: Vec<u16> = answers.iter().map(Message::status).collect();
            assert_eq!(statuses, [200, 200, 429]);
            assert!(
                answers
                    .iter()
                    .all(|answer| answer.header("upgrade").is_none())
            );
        }
        lab.saw_nothing_smuggled(case.as_bytes());
    }
}

/// Nobody was told of the client's wish, so a 101 is an answer to nothing.
#[tokio::test]
async fn s11_a_switch_of_protocols_is_no_answer() {
    let answer =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let lab = Lab::around(RawUpstream::answering(answer), TWO).await;
    let case = asking_for(ASKED[2]);
    for conversation in lab.every_way(case.as_bytes()).await {
        let answers = conversation.answers(case.as_bytes());
        let statuses: Vec<u16> = answers.iter().map(Message::status).collect();
        assert_eq!(statuses, [502, 502, 429]);
    }
    lab.saw_nothing_smuggled(case.as_bytes());
}

/// A client is switched to what it asked for, or to nothing.
#[tokio::test]
async fn s11_a_switch_to_something_else_is_no_answer_either() {
    for headers in [
        "Connection: Upgrade\r\nUpgrade: foo\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: foo\r\n",
        "Connection: Upgrade\r\n",
        "Upgrade: websocket\r\n",
    ] {
        let answer = format!("HTTP/1.1 101 Switching Protocols\r\n{headers}\r\n");
        let lab = Lab::around(RawUpstream::answering(answer), TWO_ALLOWED).await;
        let case = asking_for(ASKED[2]);
        let (answers, _) = RawClient::exchange(lab.gateway.address, &case, LONG).await;
        let answers = Message::responses(&answers).unwrap();
        let statuses: Vec<u16> = answers.iter().map(Message::status).collect();
        assert_eq!(statuses, [502, 502, 429], "{headers}");
        lab.saw_nothing_smuggled(case.as_bytes());
    }
}

#[tokio::test]
async fn a_tunnel_by_connect_is_not_offered_either() {
    let lab = Lab::new(ALL).await;
    let address = lab.upstream.addr();
    for target in [
        address.to_string(),
        "/".into(),
        format!("http://{address}/"),
    ] {
        let mut client = RawClient::connect(lab.gateway.address).await;
        let connect = format!("CONNECT {target} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        client
            .send(format!("{connect}GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n"))
            .await
            .unwrap();
        let (answers, _) = client.read_to_close(LONG).await;
        let answers = Message::responses(&answers).unwrap();
        let statuses: Vec<u16> = answers.iter().map(Message::status).collect();
        // One answer, and a close: a client that takes it for a yes talks to nobody.
        assert!(
            matches!(statuses[..], [400 | 405]),
            "{target}: {statuses:?}"
        );
    }
    assert_eq!(lab.upstream.seen(), Vec::<Vec<u8>>::new());
}
