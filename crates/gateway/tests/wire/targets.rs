//! S17, S18: request lines and hosts that two readers could read in two ways.

use crate::lab::{ALL, Lab};

const SMUG: &str = "GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn s17_a_request_names_exactly_one_host() {
    for (line, hosts) in [
        ("GET / HTTP/1.1", "Host: a\r\nHost: a\r\n"),
        ("GET / HTTP/1.1", "Host: a\r\nHost: b\r\n"),
        ("GET / HTTP/1.1", "Host: a\r\nX: y\r\nhost: b\r\n"),
        ("GET / HTTP/1.1", "Host: a, b\r\n"),
        ("GET / HTTP/1.1", ""),
        ("GET / HTTP/1.0", ""),
        ("GET / HTTP/1.1", "Host:\r\n"),
        ("GET / HTTP/1.1", "Host: a:b\r\n"),
        ("GET / HTTP/1.1", "Host: a:80:80\r\n"),
        ("GET / HTTP/1.1", "Host: a/../b\r\n"),
        ("GET / HTTP/1.1", "Host: a/b\r\n"),
        ("GET / HTTP/1.1", "Host: a@b\r\n"),
        ("GET / HTTP/1.1", "Host: a b\r\n"),
        ("GET / HTTP/1.1", "Host: a\tb\r\n"),
        ("GET / HTTP/1.1", "Host: a?b\r\n"),
        ("GET / HTTP/1.1", "Host: a#b\r\n"),
        ("GET / HTTP/1.1", "Host: a\\b\r\n"),
        ("GET / HTTP/1.1", "Host: a%2eb\r\n"),
        ("GET / HTTP/1.1", "Host: http://a\r\n"),
        ("GET / HTTP/1.1", "Host: \u{e4}\r\n"),
        ("GET / HTTP/1.1", "Host: [::1\r\n"),
        ("GET http://b/ HTTP/1.1", ""),
        ("GET http://b/ HTTP/1.1", "Host: b\r\nHost: b\r\n"),
        ("GET http://a@b/ HTTP/1.1", "Host: b\r\n"),
        ("GET http://b:c/ HTTP/1.1", "Host: b\r\n"),
        ("GET http:// HTTP/1.1", "Host: b\r\n"),
        ("GET http:///x HTTP/1.1", "Host: b\r\n"),
        ("GET ftp://b/ HTTP/1.1", "Host: b\r\n"),
        ("GET file:///etc/passwd HTTP/1.1", "Host: b\r\n"),
    ] {
        let lab = Lab::new(ALL).await;
        lab.refuses(format!("{line}\r\n{hosts}\r\n{SMUG}"), &[400])
            .await;
    }
}

#[tokio::test]
async fn s17_a_whole_url_replaces_the_host() {
    for (target, host, start) in [
        ("http://b/x?y=z", "b", "/x?y=z"),
        ("http://b:8080/x", "b:8080", "/x"),
        ("HTTP://B/x", "B", "/x"),
        ("https://b/x", "b", "/x"),
        ("http://b/./x//y/", "b", "/x/y/"),
        ("http://b", "b", "/"),
        ("http://b?y=z", "b", "/?y=z"),
    ] {
        let lab = Lab::new(ALL).await;
        let case = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        for request in lab.answers(case, &[200]).await {
            assert_eq!(request.header("host"), Some(host), "{target}");
            assert_eq!(request.header("x-forwarded-host"), Some(host), "{target}");
            assert_eq!(request.start, format!("GET {start} HTTP/1.1"));
        }
    }
}

#[tokio::test]
async fn s18_a_request_line_is_three_words_and_two_spaces() {
    for start in [
        "GET /a b HTTP/1.1\r\n",
        "GET  / HTTP/1.1\r\n",
        "GET /  HTTP/1.1\r\n",
        " GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1 \r\n",
        "GET\t/\tHTTP/1.1\r\n",
        "GET\t/ HTTP/1.1\r\n",
        "GET /\tHTTP/1.1\r\n",
        "GET / HTTP/1.2\r\n",
        "GET / HTTP/2.0\r\n",
        "GET / HTTP/0.9\r\n",
        "GET / HTTP/1.10\r\n",
        "GET / HTTP/11\r\n",
        "GET / http/1.1\r\n",
        "get / http/1.1\r\n",
        "GET / HTTPS/1.1\r\n",
        "GET /\r\n",
        "GET\r\n",
        "G(T / HTTP/1.1\r\n",
        "\0GET / HTTP/1.1\r\n",
        "\u{16}\u{3}\u{1}GET / HTTP/1.1\r\n",
        "garbage\r\nGET / HTTP/1.1\r\n",
        "GET admin HTTP/1.1\r\n",
        "GET * HTTP/1.1\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "OPTIONS */test HTTP/1.1\r\n",
        "GET /a\0b HTTP/1.1\r\n",
        "GET /a\u{7f}b HTTP/1.1\r\n",
        "GET /\u{e4} HTTP/1.1\r\n",
        "GET ?x HTTP/1.1\r\n",
        "GET #x HTTP/1.1\r\n",
    ] {
        let lab = Lab::new(ALL).await;
        lab.refuses(format!("{start}Host: a\r\n\r\n{SMUG}"), &[400])
            .await;
    }
}

/// `curl -g`, Node and Python send them as they are typed.
#[tokio::test]
async fn characters_that_no_target_may_have_are_escaped() {
    let lab = Lab::new(ALL).await;
    for (sent, expected) in [
        (
            "/x?filter={\"a\":[1,2]}&b=<c>",
            "/x?filter={%22a%22:[1,2]}&b=%3Cc%3E",
        ),
        ("/a\"<b>`{c}|^", "/a%22%3Cb%3E%60%7Bc%7D%7C%5E"),
        ("/x?`|\\^{}[]'", "/x?`|\\^{}[]'"),
        ("/x?q=%22%3c\"", "/x?q=%22%3c%22"),
    ] {
        let case =
            format!("GET {sent} HTTP/1.1\r\nHost: a\r\nX-Quote: \"<>\r\nConnection: close\r\n\r\n");
        for request in lab.answers(case, &[200]).await {
            assert_eq!(request.start, format!("GET {expected} HTTP/1.1"));
            assert_eq!(request.header("x-quote"), Some("\"<>"));
        }
    }
}

/// Bodies that look like requests are not changed. Neither is a request that does not wait for the answer before.
#[tokio::test]
async fn characters_of_a_body_are_not_escaped() {
    let lab = Lab::new(ALL).await;
    let inner = "GET /x?\" HTTP/1.1\r\nHost: a\r\n\r\n";
    let next = "GET /y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let length = inner.len();
    for framed in [
        format!("Content-Length: {length}\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{inner}\r\n0\r\n\r\n"),
    ] {
        let case = format!("POST /?\" HTTP/1.1\r\nHost: a\r\n{framed}{next}");
        let mut bodies = 0;
        for request in lab.answers(case, &[200, 200]).await {
            if request.start.starts_with("POST") {
                assert_eq!(request.start, "POST /?%22 HTTP/1.1");
                assert_eq!(request.body, inner.as_bytes());
                bodies += 1;
            } else {
                assert_eq!(request.start, "GET /y HTTP/1.1");
            }
        }
        assert!(bodies > 0);
    }
}

/// A part that the upstream would never see is an error of the client.
#[tokio::test]
async fn a_target_has_no_fragment() {
    for target in ["/#", "/a#b", "/a?b#c", "http://a/b#c", "/a?\"#\""] {
        let lab = Lab::new(ALL).await;
        lab.refuses(
            format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n{SMUG}"),
            &[400],
        )
        .await;
    }
}

#[tokio::test]
async fn s18_empty_lines_before_a_request_are_skipped() {
    let lab = Lab::new(ALL).await;
    for lines in ["\r\n", "\r\n\r\n", "\n"] {
        let case = format!("{lines}GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        for request in lab.answers(case, &[200]).await {
            assert_eq!(request.start, "GET /x HTTP/1.1");
        }
    }
}

#[tokio::test]
async fn trace_is_not_forwarded() {
    let lab = Lab::new(ALL).await;
    let case = "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    lab.refuses(case, &[405]).await;
}
