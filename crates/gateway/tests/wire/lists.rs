//! Headers that are lists: nobody makes the gateway read thousands of elements for one request.

use crate::lab::{ALL, LONG, Lab};
use tidegate_testkit::{RawClient, RawUpstream};

/// As many elements as fit into the headers of one request.
const MOST: usize = 16_000;

async fn status(lab: &Lab, header: &str, element: &str, count: usize, lines: usize) -> u16 {
    let line = format!("{header}: {}\r\n", vec![element; count].join(","));
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", line.repeat(lines));
    let mut client = RawClient::connect(lab.gateway.address).await;
    _ = client.send(head).await;
    client.response(LONG).await.unwrap().status()
}

#[tokio::test]
async fn what_names_more_than_a_hundred_options_is_refused() {
    let lab = Lab::new(ALL).await;
    for header in ["Connection", "TE", "Upgrade"] {
        for element in ["a", ""] {
            assert_eq!(status(&lab, header, element, 100, 1).await, 200, "{header}");
            assert_eq!(status(&lab, header, element, 101, 1).await, 400, "{header}");
            assert_eq!(
                status(&lab, header, element, MOST, 1).await,
                400,
                "{header}"
            );
            // In lines of their own they are as many.
            assert_eq!(status(&lab, header, element, 11, 10).await, 400, "{header}");
        }
    }
    assert_eq!(lab.upstream.requests().len(), 6);
}

/// The same of an answer, which costs as much.
#[tokio::test]
async fn an_upstream_that_names_more_gives_no_proper_answer() {
    for (count, expected) in [(100, 200), (101, 502)] {
        let named = vec!["a"; count].join(",");
        let answer =
            format!("HTTP/1.1 200 OK\r\nConnection: {named}\r\nContent-Length: 2\r\n\r\nok");
        let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
        assert_eq!(status(&lab, "X", "a", 1, 1).await, expected, "{count}");
    }
}
