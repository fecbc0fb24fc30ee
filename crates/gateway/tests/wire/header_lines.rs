//! S6, S9, S14 to S16: header lines that readers cut in different places, and headers that take
//! others away.

use crate::lab::{ALL, Lab, ONE_A_DAY};

const SMUG: &str = "GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n";

/// What every test here trusts: all of 127.0.0.0/8 but 127.1.0.0/16, where strangers come from.
const TRUSTING: &str = "trusted_proxies: [127.0.0.0/16]";

#[tokio::test]
async fn s6_a_header_line_with_two_readings_is_refused() {
    for lines in [
        &b"Host: a\r\nX: a\0b\r\n"[..],
        b"Host: a\r\nX: a\0\r\n",
        b"Host: a\r\nX: a\rb\r\n",
        b"Host: a\r\nX: a\r\r\n",
        b"Host: a\r\nX: a\x7fb\r\n",
        b"Host: a\r\nX: a\x08b\r\n",
        b"Host: a\r\nX Y: a\r\n",
        b"Host: a\r\nX\t: a\r\n",
        b"Host: a\r\nX\0: a\r\n",
        b"Host: a\r\nX\xe9: a\r\n",
        b"Host: a\r\n: a\r\n",
        b"Host: a\r\nX\r\n",
        b"Host: a\r\nTransfer-Encoding : chunked\r\n",
        b"Host: a\r\nTransfer-Encoding\t: chunked\r\n",
        b"Host: a\r\nContent-Length : 5\r\n",
        b"Host: a\r\nTransfer-Encoding:\x0bchunked\r\n",
        b"Host: a\r\nTransfer-Encoding: chunked\x0c\r\n",
        b" X: a\r\nHost: a\r\n",
        b"\tX: a\r\nHost: a\r\n",
        b" Host: a\r\n",
        b"Host: a\r\nX: a\r\n b\r\n",
        b"Host: a\r\nX: a\r\n\tb\r\n",
        b"Host: a\r\nTransfer-Encoding:\r\n chunked\r\n",
        b"Host: a\r\nTransfer-Encoding: identity\r\n , chunked\r\n",
    ] {
        let lab = Lab::new(ALL).await;
        let case = [
            b"POST / HTTP/1.1\r\n",
            lines,
            b"\r\n0\r\n\r\n",
            SMUG.as_bytes(),
        ]
        .concat();
        lab.refuses(case, &[400]).await;
    }
}

#[tokio::test]
async fn s9_bare_line_feeds_reach_the_upstream_as_ends_of_lines() {
    for case in [
        "POST / HTTP/1.1\nHost: a\nConnection: close\nX: y\nContent-Length: 2\n\nhi",
        "POST / HTTP/1.1\r\nHost: a\nConnection: close\nX: y\r\nContent-Length: 2\n\r\nhi",
    ] {
        let lab = Lab::new(ALL).await;
        for request in lab.answers(case, &[200]).await {
            assert_eq!((request.header("x"), request.text()), (Some("y"), "hi"));
        }
    }
}

#[tokio::test]
async fn s14_connection_takes_away_nothing_that_the_upstream_relies_on() {
    let lab = Lab::new(ALL).await;
    let case = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nAuthorization: Basic eDp5\r\n\
        X-Api-Key: k\r\nX-Mine: m\r\nX-Forwarded-For: 9.9.9.9\r\n\
        Connection: close, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Real-IP, \
        X-Request-ID, Authorization, X-Api-Key, Host, Content-Length, X-Mine\r\n\r\nhi";
    for request in lab.answers(case, &[200]).await {
        assert_eq!(request.header("host"), Some("a"));
        assert_eq!(request.header("content-length"), Some("2"));
        assert_eq!(request.header("authorization"), Some("Basic eDp5"));
        let address = request.header("x-forwarded-for").unwrap();
        assert!(address.starts_with("127.1."), "{address}");
        assert_eq!(request.header("x-forwarded-proto"), Some("http"));
        assert_eq!(request.header("x-forwarded-host"), Some("a"));
        assert!(request.header("x-request-id").is_some());
        // What it names otherwise belongs to this connection.
        assert_eq!(request.header("x-mine"), None);
        assert_eq!(request.header("connection"), None);
        assert_eq!(request.text(), "hi");
    }
}

/// A trusted proxy names two clients; one of them asks the proxy to forget that.
#[tokio::test]
async fn s14_connection_does_not_change_who_is_charged() {
    let lab = Lab::new(&format!("{TRUSTING}\n{ONE_A_DAY}")).await;
    let named = |more: &str| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.7\r\nConnection: {more}\r\n\r\n"
        )
    };
    let mut statuses = Vec::new();
    for more in ["close, X-Forwarded-For", "close"] {
        let mut proxy = tidegate_testkit::RawClient::connect(lab.gateway.address).await;
        proxy.send(named(more)).await.unwrap();
        statuses.push(proxy.response(crate::lab::LONG).await.unwrap().status());
    }
    assert_eq!(statuses, [200, 429]);
    let request = &lab.upstream.requests()[0];
    assert_eq!(
        request.header("x-forwarded-for"),
        Some("198.51.100.7, 127.0.0.1")
    );
}

#[tokio::test]
async fn s15_an_underscore_does_not_stand_for_a_hyphen() {
    let yaml = "clients: [{ user_id: { header: X-User-Id } }]";
    let lab = Lab::new(&format!("{TRUSTING}\n{yaml}\n{ALL}")).await;
    let aliases = "X_Forwarded_For: 9.9.9.9\r\nX-Forwarded_For: 9.9.9.9\r\nX_Forwarded-Proto: https\r\n\
        x_real_ip: 9.9.9.9\r\nX_User_Id: 42\r\nX-User_Id: 42\r\nContent_Length: 5\r\n\
        Transfer_Encoding: chunked\r\nX_Mine: m\r\n";
    let case = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{aliases}\r\n");
    for request in lab.answers(case, &[200]).await {
        let (names, values): (Vec<_>, Vec<_>) = request.headers.iter().cloned().unzip();
        let underscored: Vec<_> = names.iter().filter(|name| name.contains('_')).collect();
        assert_eq!(underscored, ["x_mine"]);
        assert!(!values.iter().any(|value| value == "9.9.9.9"), "{values:?}");
    }
}

#[tokio::test]
async fn s16_escapes_become_no_header_lines() {
    let lab = Lab::new(ALL).await;
    for target in [
        "/a%0d%0aX-Smuggled:%20SMUG",
        "/%0D%0A%0D%0AGET%20/SMUG",
        "/a%0aX:b",
    ] {
        let case = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        lab.refuses(case, &[400]).await;
    }
    let escaped = "x%0d%0aX-Smuggled:%20y";
    let case = format!(
        "GET /?q={escaped} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: {escaped}\r\n\r\n"
    );
    for request in lab.answers(case, &[200]).await {
        assert_eq!(request.header("x-smuggled"), None);
        assert_eq!(request.header("cookie"), Some(escaped));
        assert_eq!(request.start, format!("GET /?q={escaped} HTTP/1.1"));
    }
}
