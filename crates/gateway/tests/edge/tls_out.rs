//! TLS towards upstreams: nobody is sent anything who is not who they should be.

use std::time::Duration;

use http::Version;
use tidegate_testkit::{Authority, Client, Speaks, TlsRedis, Upstream};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::bench::{ALL, BOTH, HTTP1, LONG, Papers, gateway, through};
use crate::support::asking::get_each;
use crate::support::{GatewayProcess, TestGateway};

const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

async fn answer(gateway: &TestGateway) -> (u16, String) {
    let answer = Client::fresh(gateway.address).get("/a?b=c").await;
    (answer.status.as_u16(), answer.text().to_owned())
}

async fn is_untrusted(gateway: &TestGateway) {
    let (status, text) = answer(gateway).await;
    assert_eq!(status, 502, "{text}");
    assert!(text.contains("\"upstream_untrusted\""), "{text}");
}

#[tokio::test]
async fn the_handshake_says_which_http_the_server_is_spoken_to_in() {
    let papers = Papers::new();
    let shown = papers.authority.issue(&HERE);
    for (protocols, version) in [
        (&HTTP1[..], Version::HTTP_11),
        (&BOTH[..], Version::HTTP_2),
        (&[][..], Version::HTTP_11),
    ] {
        let upstream = papers.upstream(&shown, protocols);
        let gateway = papers.believing(upstream.url(), "").await;
        let client = Client::new(gateway.address);
        get_each(&client, 3, "/a?b=c", &[], 200).await;
        let seen = upstream.requests().remove(2);
        assert_eq!((seen.version, &*seen.target), (version, "/a?b=c"));
        let host = gateway.address.to_string();
        assert_eq!(seen.header("host"), Some(&*host));
        assert_eq!(seen.header("x-forwarded-proto"), Some("http"));
        assert_eq!(upstream.connections(), 1);
    }
}

#[tokio::test]
async fn whoever_is_not_trusted_is_sent_nothing() {
    let papers = Papers::new();
    for shown in [
        Authority::new().issue(&HERE),
        papers.authority.issue_expired(&HERE),
        papers.authority.issue(&["api.internal"]),
    ] {
        let upstream = papers.upstream(&shown, &BOTH);
        is_untrusted(&papers.believing(upstream.url(), "").await).await;
        // Of the system's authorities, if there are any, none knows it.
        if !rustls_native_certs::load_native_certs().certs.is_empty() {
            is_untrusted(&gateway(upstream.url(), ALL).await).await;
        }
        assert_eq!(upstream.count(), 0);
    }
    let plain = Upstream::ok();
    let url = plain.url().replace("http:", "https:");
    is_untrusted(&papers.believing(url, "").await).await;
    assert_eq!(plain.count(), 0);
}

/// The recipe of docs/proxying.md marks a certificate as an authority's. Named under `ca`, it is its server's own.
#[tokio::test]
async fn a_certificate_that_itself_is_listed_is_trusted_for_its_name_and_time() {
    let papers = Papers::new();
    let own = Authority::own(&HERE);
    for (listed, shown, is_trusted) in [
        (&own, &own, true),
        (&own, &Authority::own(&HERE), false),
        (&Authority::own(&HERE), &own, false),
        (&papers.authority.issue(&HERE), &own, false),
    ] {
        std::fs::write(papers.path("ca.pem"), &listed.pem).unwrap();
        let upstream = papers.upstream(shown, &BOTH);
        let gateway = papers.believing(upstream.url(), "").await;
        match is_trusted {
            true => assert_eq!(answer(&gateway).await.0, 200),
            false => is_untrusted(&gateway).await,
        }
    }
    let issued = papers.authority.issue(&HERE);
    for (listed, is_trusted) in [
        // Without its authority.
        (&issued, true),
        (&Authority::own(&["api.internal"]), false),
        (&Authority::own_expired(&HERE), false),
        (&papers.authority.issue_expired(&HERE), false),
    ] {
        std::fs::write(papers.path("ca.pem"), &listed.pem).unwrap();
        let upstream = papers.upstream(listed, &BOTH);
        let gateway = papers.believing(upstream.url(), "").await;
        match is_trusted {
            true => assert_eq!(answer(&gateway).await.0, 200),
            false => is_untrusted(&gateway).await,
        }
    }
}

/// A file of an authority is not the place for another server's mark.
#[tokio::test]
async fn the_log_names_the_mark_of_an_authority_and_the_remedy() {
    let papers = Papers::new();
    let upstream = papers.upstream(&Authority::own(&HERE), &BOTH);
    let (url, ca) = (upstream.url(), papers.path("ca.pem"));
    let yaml = format!(
        "upstreams: {{ it: {{ servers: [\"{url}\"], tls: {{ ca: \"{ca}\" }} }} }}\n\
         routes: [{{ path: /**, upstream: it }}]\n"
    );
    let gateway = GatewayProcess::start(&yaml).await;
    assert_eq!(Client::new(gateway.address).get("/").await.status, 502);
    let line = gateway
        .process
        .wait_for_line("TLS with a server of an upstream fails", LONG)
        .await;
    assert!(line.contains("CA:TRUE") && line.contains("`ca`"), "{line}");
}

/// The same file serves Redis.
#[tokio::test]
async fn a_redis_that_shows_its_listed_certificate_is_trusted() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let own = Authority::own(&HERE);
    std::fs::write(papers.path("ca.pem"), &own.pem).unwrap();
    let redis = TlsRedis::start(&papers.authority, &own, false).await;
    let yaml = format!(
        "
store: {{ redis: {{ url: \"{}\", timeout: 5s, on_failure: closed, tls: {{ ca: \"{}\" }} }} }}
limits: {{ once: {{ fixed_window: {{ limit: 1, window: 1d }} }} }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [once] }}]
",
        redis.url("", "127.0.0.1"),
        papers.path("ca.pem")
    );
    let gateway = gateway(upstream.url(), &yaml).await;
    assert_eq!(answer(&gateway).await.0, 200);
    assert_eq!(answer(&gateway).await.0, 429);
}

#[tokio::test]
async fn a_server_may_have_another_name_than_its_address_or_be_anybody() {
    let papers = Papers::new();
    let upstream = papers.upstream(&papers.authority.issue(&["api.internal"]), &BOTH);
    let named = papers
        .believing(upstream.url(), "server_name: api.internal")
        .await;
    assert_eq!(answer(&named).await.0, 200);
    let credulous = through(upstream.url(), "tls: { verify: false }").await;
    assert_eq!(answer(&credulous).await.0, 200);
}

#[tokio::test]
async fn a_server_that_wants_to_know_us_is_shown_who_we_are() {
    let papers = Papers::new();
    let shown = papers.authority.issue(&HERE);
    let upstream =
        Upstream::ok_speaking(Speaks::Tls(papers.authority.server_asking(&shown, &HTTP1)));
    let (cert, key) = (papers.path("own.pem"), papers.path("own.key"));
    let own = format!("cert: \"{cert}\", key: \"{key}\"");
    let known = papers.believing(upstream.url(), &own).await;
    assert_eq!(answer(&known).await.0, 200);
    let unknown = papers.believing(upstream.url(), "").await;
    assert_eq!(answer(&unknown).await.0, 502);
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_hung_handshake_has_the_time_of_a_connection() {
    // Connections are made by the system, and nobody looks at them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let papers = Papers::new();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let ca = papers.path("ca.pem");
    let yaml = format!(
        "timeouts: {{ connect: 300ms }}\nupstreams: {{ it: {{ servers: [\"{url}\"], tls: {{ ca: \"{ca}\" }} }} }}\n{}",
        ALL
    );
    let gateway = gateway("it", &yaml).await;
    let mut asking = JoinSet::new();
    for _ in 0..10 {
        let client = Client::fresh(gateway.address);
        asking.spawn(async move { client.get("/").await.status.as_u16() });
    }
    let answered = tokio::time::timeout(LONG, asking.join_all()).await;
    assert_eq!(answered.unwrap(), [504; 10]);
}

/// What is wrong with a server is told, and not again with each request.
#[tokio::test]
async fn the_log_says_once_why_a_server_is_not_trusted() {
    let papers = Papers::new();
    let upstream = papers.upstream(&Authority::new().issue(&HERE), &BOTH);
    let (url, ca) = (upstream.url(), papers.path("ca.pem"));
    let yaml = format!(
        "upstreams: {{ it: {{ servers: [\"{url}\"], tls: {{ ca: \"{ca}\" }} }} }}\n\
         routes: [{{ path: /**, upstream: it }}]\n"
    );
    let mut gateway = GatewayProcess::start(&yaml).await;
    let client = Client::new(gateway.address);
    get_each(&client, 3, "/", &[], 502).await;
    let line = gateway
        .process
        .wait_for_line("TLS with a server of an upstream fails", LONG)
        .await;
    assert!(
        line.contains(&url) && line.contains("invalid peer certificate"),
        "{line}"
    );
    gateway.process.signal("TERM");
    gateway.process.wait(Duration::from_secs(30)).await;
    let output = gateway.process.output().join("\n");
    assert_eq!(
        output
            .matches("TLS with a server of an upstream fails")
            .count(),
        1,
        "{output}"
    );
}
