//! S1 to S5, S7: requests whose body has two lengths, or one that readers read differently.

use crate::lab::{ALL, Lab};

/// What a body that ends too early leaves behind.
const SMUG: &str = "GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n";

fn post(headers: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n{body}{SMUG}")
}

#[tokio::test]
async fn s1_s2_of_a_length_and_chunks_the_chunks_count_and_the_connection_ends() {
    for headers in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\nConnection: keep-alive\r\n",
    ] {
        let lab = Lab::new(ALL).await;
        for request in lab.answers(post(headers, "0\r\n\r\n"), &[200]).await {
            assert_eq!(request.header("content-length"), None);
            assert_eq!(request.header("transfer-encoding"), Some("chunked"));
            assert_eq!(request.text(), "");
        }
    }
}

#[tokio::test]
async fn s3_s4_a_coding_beside_chunked_is_refused() {
    for headers in [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked;x=1\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ] {
        let lab = Lab::new(ALL).await;
        lab.refuses(post(headers, "0\r\n\r\n"), &[400]).await;
    }
}

#[tokio::test]
async fn s5_http_1_0_knows_no_chunks() {
    let lab = Lab::new(ALL).await;
    for headers in [
        "Transfer-Encoding: chunked\r\n",
        "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let case = format!("POST / HTTP/1.0\r\nHost: a\r\n{headers}\r\n0\r\n\r\n{SMUG}");
        lab.refuses(case, &[400]).await;
    }
}

#[tokio::test]
async fn s5_a_body_of_http_1_0_without_a_length_is_not_read() {
    let lab = Lab::new(ALL).await;
    let case = format!("POST / HTTP/1.0\r\nHost: a\r\n\r\n{SMUG}");
    for request in lab.answers(case, &[200]).await {
        assert_eq!(request.text(), "");
    }
}

#[tokio::test]
async fn s7_a_length_is_digits_and_one() {
    for headers in [
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 4\r\n",
        "Content-Length: 4\r\nX-Between: 1\r\nContent-Length: 04x\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: -0\r\n",
        "Content-Length: 4,4\r\n",
        "Content-Length: 4, 4\r\n",
        "Content-Length: 4 4\r\n",
        "Content-Length: 0x4\r\n",
        "Content-Length: 4.0\r\n",
        "Content-Length: 4_0\r\n",
        "Content-Length: \"4\"\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 99999999999999999999999999\r\n",
    ] {
        let lab = Lab::new(ALL).await;
        lab.refuses(post(headers, "0\r\n\r\n"), &[400]).await;
    }
    // A number that fits, but no buffer.
    let lab = Lab::new(ALL).await;
    let longest = post("Content-Length: 18446744073709551615\r\n", "");
    lab.refuses(longest, &[400, 413, 431]).await;
}

#[tokio::test]
async fn s7_one_length_said_twice_reaches_the_upstream_once() {
    let lab = Lab::new(ALL).await;
    let twice = "Content-Length: 4\r\nContent-Length: 4\r\nConnection: close\r\n";
    for request in lab.answers(post(twice, "0\r\n\r"), &[200]).await {
        assert_eq!(request.all("content-length"), ["4"]);
        assert_eq!(request.text(), "0\r\n\r");
    }
}
