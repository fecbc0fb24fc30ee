//! Bodies that are forwarded as they come, in both directions, and what follows them: trailers.

use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use tidegate_testkit::{Client, Message, RawClient, RawUpstream, Upstream, body};
use tokio::time::timeout;

use crate::lab::{ALL, LONG, Lab, answer_to, gateway};

/// Each part goes to the upstream and back while the next has not been sent.
#[tokio::test]
async fn nothing_is_held_back_in_either_direction() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), ALL).await;
    for client in [Client::new, Client::h2] {
        let client = client(gateway.address);
        let (mut sender, body) = body::channel();
        let mut answer = client.open(Request::post("/").body(body).unwrap()).await;
        for part in ["one", "two", "three"] {
            sender.send_data(part.into()).await.unwrap();
            let frame = timeout(LONG, answer.body_mut().frame()).await;
            let frame = frame.expect("it comes before the next").unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), part);
        }
        drop(sender);
        let rest = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(rest, "");
    }
}

#[tokio::test]
async fn large_bodies_arrive_whole_in_both_directions() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), ALL).await;
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    for client in [Client::new, Client::h2] {
        let client = client(gateway.address);
        let answer = client.post("/", large.clone()).await;
        assert!(answer.body == large, "{} bytes", answer.body.len());
        let (mut sender, body) = body::channel();
        let sending = async {
            for part in large.chunks(100_001) {
                sender.send_data(part.to_vec().into()).await.unwrap();
            }
            drop(sender);
        };
        let request = Request::post("/").body(body).unwrap();
        let (answer, ()) = tokio::join!(client.request(request), sending);
        assert!(answer.body == large, "{} bytes", answer.body.len());
    }
}

/// Sends a body of one part with these trailers, and says which came back, if the client takes any.
async fn trailers(client: &Client, takes: bool) -> Option<HeaderMap> {
    let mut request = Request::post("/").header("trailer", "x-sum");
    if takes {
        request = request.header("te", "trailers");
    }
    let (mut sender, body) = body::channel();
    let asked = client.request(request.body(body).unwrap());
    let sending = async {
        sender.send_data("part".into()).await.unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "7".parse().unwrap());
        sender.send_trailers(trailers).await.unwrap();
        drop(sender);
    };
    let (answer, ()) = tokio::join!(asked, sending);
    assert_eq!(answer.text(), "part");
    answer.trailers
}

#[tokio::test]
async fn trailers_go_to_the_upstream_and_back_to_who_takes_them() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), ALL).await;
    for client in [Client::new, Client::h2] {
        let client = client(gateway.address).knows("x-sum");
        let back = trailers(&client, true).await.expect("trailers");
        assert_eq!((back.len(), back["x-sum"].to_str().unwrap()), (1, "7"));
        assert_eq!(trailers(&client, false).await, None);
    }
    let te: Vec<_> = upstream
        .requests()
        .iter()
        .map(|r| r.header("te").map(str::to_owned))
        .collect();
    let taken = Some("trailers".to_owned());
    assert_eq!(te, [taken.clone(), None, taken, None]);
}

/// Some servers merge trailers into the headers: there a stranger could say what only the gateway
/// and trusted proxies say.
#[tokio::test]
async fn trailers_say_nothing_that_headers_may_not() {
    let yaml = "clients: [{ user_id: { header: X-User-Id } }, { ip: {} }]";
    let lab = Lab::new(&format!("trusted_proxies: [10.0.0.0/8]\n{yaml}\n{ALL}")).await;
    let forged = [
        "X-User-Id: 42",
        "X-User_Id: 42",
        "X-Forwarded-For: 9.9.9.9",
        "X_Forwarded_For: 9.9.9.9",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: evil",
        "Forwarded: for=9.9.9.9",
        "X-Real-IP: 9.9.9.9",
        "X-Request-ID: mine",
        "Connection: close",
        "Keep-Alive: timeout=9",
        "Upgrade: foo",
        "Transfer-Encoding: chunked",
        "Content-Length: 9",
        "Host: evil",
        "Cookie: a=b",
        "Authorization: Basic eDp5",
    ];
    let names: Vec<_> = forged
        .iter()
        .map(|line| line.split_once(':').unwrap().0)
        .collect();
    let case = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTrailer: X-Sum, {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n0\r\nX-Sum: 7\r\n{}\r\n\r\n",
        names.join(", "),
        forged.join("\r\n")
    );
    let (said, _) = RawClient::exchange(lab.gateway.address, case, LONG).await;
    assert_eq!(Message::responses(&said).unwrap()[0].status(), 200);
    let request = lab.upstream.requests().pop().unwrap();
    assert_eq!(request.text(), "part");
    assert_eq!(request.trailers, [("x-sum".to_owned(), "7".to_owned())]);
}

/// What an upstream says after its answer is bound by the same rules.
#[tokio::test]
async fn trailers_that_were_not_announced_or_not_asked_for_stay_here() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-RateLimit-Limit\r\n\r\n\
        2\r\nok\r\n0\r\nX-Sum: 7\r\nX-Other: 8\r\n\r\n";
    let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
    for (te, expected) in [("TE: trailers\r\n", &[("x-sum", "7")][..]), ("", &[])] {
        let mut client = lab.connect().await;
        let got = answer_to(
            &mut client,
            format!("GET / HTTP/1.1\r\nHost: a\r\n{te}\r\n"),
        )
        .await;
        let trailers: Vec<_> = got
            .trailers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        assert_eq!((got.text(), &trailers[..]), ("ok", expected));
    }
    assert_eq!(lab.upstream.seen().len(), 1, "its connection is kept");
}
