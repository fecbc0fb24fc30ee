//! Converts a history to the deciding clock, if that clock was stepped.
//!
//! Promises are about time spans of the deciding clock. A step forward is time that passes at once. A step back is no time: the clock
//! continues from the time before the step. If a step back leads into an earlier window, the units used in the later window still count.

use tidegate_core::Micros;
use tidegate_store::Mode;

use super::{Charge, History, Judged, Leeway, Limit, Span, Trouble};
use crate::law::Kind;

/// A clock between two steps.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// By this machine's clock.
    span: Span,
    /// The us by which the deciding clock is ahead of this machine's clock.
    ahead: i64,
    /// The us by which the time of promises is ahead of the deciding clock.
    shift: i64,
    /// The earliest time of promises. Their time stands still until it would be later.
    least: Micros,
}

impl Piece {
    fn of_decider(&self, at: Micros) -> Micros {
        at.saturating_add_signed(self.shift).max(self.least)
    }

    fn of_machine(&self, at: Micros) -> Micros {
        self.of_decider(at.saturating_add_signed(self.ahead))
    }

    fn machine(&self, at: Micros) -> Micros {
        at.saturating_add_signed(-self.ahead)
    }
}

/// A clock that was stepped, as the promises of one limit see it.
struct Clock {
    pieces: Vec<Piece>,
    leeway: Leeway,
}

/// The precision of times of one call, in us.
const SLACK: Micros = 2_000;

impl Clock {
    fn of(history: &History, limit: &Limit) -> Self {
        let mut piece = Piece {
            span: Span {
                begin: 0,
                end: super::FOREVER,
            },
            ahead: 0,
            shift: 0,
            least: 0,
        };
        let mut leeway = Leeway::default();
        let mut pieces = Vec::new();
        for step in &history.steps {
            piece.span.end = step.span.end;
            pieces.push(piece);
            let before = piece.of_machine(step.span.end);
            let by = step.ahead - piece.ahead;
            piece.ahead = step.ahead;
            piece.span = Span {
                begin: step.span.begin,
                end: super::FOREVER,
            };
            if by >= 0 {
                leeway.ahead += by.unsigned_abs();
                continue;
            }
            // The store moves a state that is ahead of the clock by more than a period to the time of the next request.
            leeway.back += by.unsigned_abs();
            if is_of_windows(limit.kind) {
                let window = limit.window;
                let now = step
                    .span
                    .end
                    .saturating_add_signed(piece.ahead + piece.shift);
                let (left, entered) = (before / window, now / window);
                if left > entered + 1 {
                    piece.shift += ((left - entered) * window).cast_signed();
                }
                piece.least = before;
                leeway.stands = true;
                // Units used before the left window may count again.
                leeway.back += 2 * window;
            } else {
                piece.shift -= by;
            }
        }
        pieces.push(piece);
        Self { pieces, leeway }
    }

    /// A span of this machine's clock.
    fn of_machine(&self, span: Span) -> Span {
        let pieces = self.pieces.iter();
        let meeting = pieces.filter(|piece| piece.span.meets(span.begin, span.end));
        let spans = meeting.map(|piece| Span {
            begin: piece.of_machine(span.begin.max(piece.span.begin)),
            end: piece.of_machine(span.end.min(piece.span.end)),
        });
        spans.reduce(hull).unwrap_or(span)
    }

    /// Converts a time of the deciding clock, which lies in a span of this machine's clock.
    fn of_decider(&self, at: Span, asked: Span) -> Span {
        let (begin, end) = (asked.begin.saturating_sub(SLACK), asked.end + SLACK);
        let pieces = self.pieces.iter();
        let meeting = pieces.filter(|piece| {
            let own = Span {
                begin: piece.span.begin.saturating_sub(SLACK),
                end: piece.span.end + SLACK,
            };
            let (first, last) = (piece.machine(at.begin), piece.machine(at.end));
            own.meets(begin, end) && own.meets(first, last) && first <= end && begin <= last
        });
        let spans = meeting.map(|piece| Span {
            begin: piece.of_decider(at.begin),
            end: piece.of_decider(at.end),
        });
        // The time of a remembered verdict is older than its request.
        let spans = spans.reduce(hull);
        spans.unwrap_or_else(|| self.of_machine(asked))
    }

    fn last(&self) -> Piece {
        self.pieces[self.pieces.len() - 1]
    }
}

fn hull(one: Span, other: Span) -> Span {
    Span {
        begin: one.begin.min(other.begin),
        end: one.end.max(other.end),
    }
}

const fn is_of_windows(kind: Kind) -> bool {
    matches!(kind, Kind::FixedWindow | Kind::Calendar | Kind::Counter)
}

impl History {
    /// The histories by which the promises are judged. Without a step, one clock is enough. With a step, there is a history by the
    /// gateways' clock, and one by the clock of each limit.
    pub(crate) fn by_clock(&self) -> Vec<Self> {
        if self.steps.is_empty() {
            return vec![self.clone()];
        }
        let mut all = vec![Self {
            judged: Judged::Gateways,
            ..self.clone()
        }];
        for (nth, limit) in self.limits.iter().enumerate() {
            // Counts that gateways keep themselves have no promises across a step.
            if self.in_memory || limit.mode == Mode::Exact {
                all.push(self.by(&Clock::of(self, limit), nth));
            }
        }
        all
    }

    fn by(&self, clock: &Clock, limit: usize) -> Self {
        let mut history = self.clone();
        history.judged = Judged::Limit(limit);
        history.leeway = clock.leeway;
        let map = |span: &mut Span| *span = clock.of_machine(*span);
        let at = |time: Micros| clock.of_machine(Span::at(time));
        for request in &mut history.requests {
            let asked = request.asked;
            for charge in &mut request.charges {
                charge.at = at_of(clock, self, charge, asked);
            }
            map(&mut request.asked);
            request.given_up = at(request.given_up).end;
            request.ran_until = request.ran_until.map(|time| at(time).begin);
            request.settled = request.settled.map(|time| at(time).end);
        }
        history
            .resets
            .iter_mut()
            .for_each(|reset| map(&mut reset.span));
        history
            .losses
            .iter_mut()
            .for_each(|loss| map(&mut loss.span));
        history
            .ends
            .iter_mut()
            .for_each(|end| end.at = at(end.at).end);
        history
            .counts
            .iter_mut()
            .for_each(|count| count.at = at(count.at).begin);
        for look in &mut history.looks {
            look.at = clock.last().of_decider(look.at);
        }
        for trouble in &mut history.troubles {
            map(&mut trouble.span);
        }
        for step in &mut history.steps {
            map(&mut step.span);
            history.troubles.push(Trouble {
                gateway: None,
                kind: "clock stepped",
                span: step.span,
            });
        }
        history
    }
}

fn at_of(clock: &Clock, history: &History, charge: &Charge, asked: Span) -> Span {
    // A gateway decides by this machine's clock.
    if charge.here && !history.in_memory {
        return clock.of_machine(charge.at);
    }
    clock.of_decider(charge.at, asked)
}
