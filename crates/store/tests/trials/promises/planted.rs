//! Each checker finds a planted fault, and finds no fault in a history that barely keeps its promise.

mod blocks;
mod others;
mod several;
mod shares;
mod spans;

use tidegate_core::{Micros, Verdict};
use tidegate_store::{Mode, OnFailure, Outcome, Via};

use super::{ALL, broken, broken_by_any_clock};
use crate::history::{
    Charge, Count, End, History, Limit, Look, Loss, Request, Reset, Return, Said, Span, Step,
    Trouble,
};
use crate::law::{Kind, Numbers};

const MS: Micros = 1_000;
/// The start of a window of 100 ms.
const START: Micros = 1_700_000_000_000_000;
const WINDOW: Micros = 100 * MS;

const TEN: Numbers = Numbers {
    limit: 10,
    refill: 10,
    per: WINDOW,
};

const VERDICT: Verdict = Verdict {
    allowed: true,
    settling: false,
    remaining: 0,
    reset: 0,
    retry_after: 0,
    delay: 0,
};

/// An empty history of one limit.
fn of(kind: Kind, mode: Mode, on_failure: OnFailure) -> History {
    let limit = Limit {
        kind,
        window: WINDOW,
        mode,
        on_failure,
        block: None,
        is_observed: false,
        reserves: false,
        becomes: None,
    };
    History {
        limits: vec![limit],
        gateways: Some(2),
        unseen: 20 * MS,
        timeout: 10 * MS,
        ..History::default()
    }
}

fn exact(kind: Kind) -> History {
    of(kind, Mode::Exact, OnFailure::Closed)
}

/// A request of cost 1 that Redis admitted for the first gateway, at this time after the start.
fn admitted(at: Micros) -> Request {
    let at = START + at;
    Request {
        gateway: 0,
        asked: Span {
            begin: at - MS,
            end: at + MS,
        },
        charges: vec![Charge {
            limit: 0,
            key: 0,
            numbers: TEN,
            cost: 1,
            verdict: Some(VERDICT),
            at: Span::at(at),
            here: false,
            used: None,
            changed: None,
            share: None,
        }],
        said: Said::Decided {
            outcome: Outcome::Admitted,
            via: Via::Store,
            error: None,
        },
        ran_until: Some(at + MS),
        settled: None,
        called: true,
        given_up: at + 9 * MS,
        within: None,
    }
}

/// A request that this gateway admitted without Redis.
fn alone(at: Micros, gateway: usize) -> Request {
    let mut request = admitted(at);
    request.gateway = gateway;
    request.charges[0].here = true;
    request.said = Said::Decided {
        outcome: Outcome::Admitted,
        via: Via::Fallback,
        error: Some("no answer".to_owned()),
    };
    request
}

fn refused(at: Micros, via: Via) -> Request {
    let mut request = admitted(at);
    request.charges[0].verdict = Some(Verdict {
        allowed: false,
        // Longer than all times in these tests.
        retry_after: 10 * WINDOW,
        ..VERDICT
    });
    request.said = Said::Decided {
        outcome: Outcome::Refused,
        via,
        error: None,
    };
    request.ran_until = None;
    request
}

/// The promises that a history breaks.
fn names(history: &History) -> Vec<&'static str> {
    let mut names: Vec<_> = broken(history)
        .iter()
        .map(|breach| breach.promise)
        .collect();
    names.dedup();
    names
}

/// Checks that a history breaks no promise, and breaks this promise with one more request.
fn breaks(mut history: History, more: Request, promise: &'static str) {
    assert_eq!(names(&history), [""; 0], "{history:?}");
    history.requests.push(more);
    assert!(names(&history).contains(&promise), "{promise}: {history:?}");
}

/// Adds ten simultaneous requests.
fn ten(mut history: History) -> History {
    history.requests.extend((0..10).map(|_| admitted(0)));
    history
}

impl History {
    /// Adds the verdicts of a queue that releases a request every 10 ms.
    fn queued(mut self) -> Self {
        let requests = self.requests.into_iter().enumerate();
        self.requests = requests
            .map(|(nth, request)| request.queued(nth as u64, 0))
            .collect();
        self
    }
}

impl Request {
    fn queued(mut self, turn: u64, since: Micros) -> Self {
        let verdict = self.charges[0].verdict.as_mut().unwrap();
        verdict.delay = turn * 10 * MS - since;
        self
    }
}
