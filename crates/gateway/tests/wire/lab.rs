//! A gateway between a client and an upstream that are both made of bytes. The cases are sent through it whole and in two parts.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{End, Message, RawClient, RawUpstream};
use tokio::task::JoinSet;

use crate::support::TestGateway;
pub(crate) use crate::support::asking::{LONG, answer_to};

/// What an upstream answers when nothing else matters.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Everything goes to the upstream, without a limit.
pub(crate) const ALL: &str = "routes: [{ path: /**, upstream: UPSTREAM }]";

/// Everything is limited to one request a day and address, but for `/SMUG`: whoever smuggles it past
/// the limit is seen at the upstream.
pub(crate) const ONE_A_DAY: &str = "
limits: { one: { fixed_window: { limit: 1, window: 1d } } }
routes:
  - { path: /SMUG, upstream: UPSTREAM }
  - { path: /**, upstream: UPSTREAM, limits: [one] }
";

/// Connections at once: few enough for the file descriptors of any machine.
const AT_ONCE: usize = 64;

/// A gateway in front of `upstream`, whose URL stands for `UPSTREAM` in the YAML.
pub(crate) async fn gateway(upstream: impl fmt::Display, yaml: &str) -> TestGateway {
    let upstream = format!("\"{upstream}\"");
    let yaml = yaml.replace("UPSTREAM", &upstream);
    TestGateway::start(&format!("log: {{ access: false }}\n{yaml}")).await
}

/// Demands that this time has passed, but for what a timer of the gateway may be early by: it counts in milliseconds.
pub(crate) fn lasted(from: Instant, time: Duration) {
    const SLACK: Duration = Duration::from_millis(20);
    let took = from.elapsed();
    assert!(took + SLACK >= time, "after {took:?} already");
}

/// An address of this machine that nobody else in this process has: a client of its own.
pub(crate) fn fresh_address() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(Ipv4Addr::new(127, 1, 0, 1).to_bits());
    Ipv4Addr::from_bits(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A gateway and the upstream behind it.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) upstream: RawUpstream,
    pub(crate) gateway: TestGateway,
}

impl Lab {
    /// A lab whose upstream answers every complete request with [`OK`].
    pub(crate) async fn new(yaml: &str) -> Self {
        Self::around(RawUpstream::answering(OK), yaml).await
    }

    /// A lab around an upstream of the test's own.
    pub(crate) async fn around(upstream: RawUpstream, yaml: &str) -> Self {
        let gateway = gateway(upstream.url(), yaml).await;
        Self { upstream, gateway }
    }

    /// Connects as a client that nobody else is.
    pub(crate) async fn connect(&self) -> RawClient {
        RawClient::connect_from(fresh_address(), self.gateway.address).await
    }

    /// Sends `bytes` whole, and split at each of their offsets, every time on a connection of its own. Returns what came until the
    /// gateway closed, and panics if it does not close.
    pub(crate) async fn every_way(&self, bytes: &[u8]) -> Vec<Conversation> {
        let mut conversations = Vec::new();
        let mut offsets = 0..bytes.len();
        while !offsets.is_empty() {
            let mut running = JoinSet::new();
            for at in offsets.by_ref().take(AT_ONCE) {
                let mut client = self.connect().await;
                let bytes = bytes.to_vec();
                running.spawn(async move {
                    // What is refused early may be refused before all of it was sent.
                    _ = client.send_split(&bytes, at).await;
                    let (answers, end) = client.read_to_close(LONG).await;
                    Conversation { at, answers, end }
                });
            }
            conversations.extend(running.join_all().await);
        }
        conversations
    }

    /// Every way of sending `case` gets one answer, of one of these statuses, and a close; nothing
    /// of it reaches the upstream.
    pub(crate) async fn refuses(&self, case: impl AsRef<[u8]>, statuses: &[u16]) {
        let case = case.as_ref();
        for conversation in self.every_way(case).await {
            let answers = conversation.answers(case);
            assert!(
                matches!(&answers[..], [one] if statuses.contains(&one.status())),
                "{}: {answers:#?}",
                conversation.of(case)
            );
        }
        let seen = self.upstream.seen();
        assert!(seen.is_empty(), "{}: {seen:?}", shown(case));
    }

    /// Every way of sending `case` gets answers of just these statuses and a close. As many strict requests as were answered with
    /// 200 reach the upstream, which gives them back.
    pub(crate) async fn answers(&self, case: impl AsRef<[u8]>, statuses: &[u16]) -> Vec<Message> {
        let case = case.as_ref();
        let before = self.upstream.requests().len();
        let conversations = self.every_way(case).await;
        for conversation in &conversations {
            let answers = conversation.answers(case);
            let got: Vec<u16> = answers.iter().map(Message::status).collect();
            assert_eq!(got, statuses, "{}: {answers:#?}", conversation.of(case));
        }
        let served = statuses.iter().filter(|status| **status == 200).count();
        let requests = self.upstream.requests().split_off(before);
        assert_eq!(
            requests.len(),
            served * conversations.len(),
            "{}",
            shown(case)
        );
        self.saw_nothing_smuggled(case);
        requests
    }

    /// What the upstream got is strict HTTP, and nothing in it was smuggled.
    pub(crate) fn saw_nothing_smuggled(&self, case: &[u8]) {
        let malformed = self.upstream.malformed();
        assert!(malformed.is_empty(), "{}: {malformed:#?}", shown(case));
        assert!(!self.upstream.saw("SMUG"), "{}", shown(case));
    }
}

/// What a client got that sent its bytes in two parts.
#[derive(Debug)]
pub(crate) struct Conversation {
    at: usize,
    answers: Vec<u8>,
    end: End,
}

impl Conversation {
    /// The answers, all complete, and the connection closed in an orderly way.
    pub(crate) fn answers(&self, case: &[u8]) -> Vec<Message> {
        assert_eq!(self.end, End::Closed, "{}", self.of(case));
        Message::responses(&self.answers).unwrap_or_else(|e| panic!("{}: {e}", self.of(case)))
    }

    fn of(&self, case: &[u8]) -> String {
        format!("{} split at {}", shown(case), self.at)
    }
}

/// A case as a panic shows it.
pub(crate) fn shown(case: &[u8]) -> String {
    let start = &case[..case.len().min(300)];
    format!("{:?}", String::from_utf8_lossy(start))
}
