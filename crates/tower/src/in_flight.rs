//! The holds of an admitted request until the request ends. The head or the body of the answer may contain the cost of a hold.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use parking_lot::Mutex;
use tidegate_net::transmission::Transmission;
use tidegate_store::{Holds, Limit};

use crate::body_costs::{BodyCost, BodyCosts};
use crate::shares::Permit;
use crate::{RequestTexts, Rule, WaitQueues};
use tidegate_identity::Client;

/// The holds of a request while the gateway passes on the answer's body: holds of `concurrency`, and holds whose cost is in the body.
///
/// The HTTP server that sends the answer keeps this value until the body has ended. When the last clone is dropped, the holds end, and
/// charge the costs that the [read](Self::read_step) parts of the body contain. [`Decided::settle_body`](crate::Decided::settle_body) ends
/// the holds earlier, and returns the costs.
#[derive(Clone, Debug)]
pub struct InFlight {
    held: Arc<Mutex<Held>>,
    reads_body: bool,
}

#[derive(Debug)]
struct Held {
    holds: Holds,
    body: Option<Box<Body>>,
}

/// An answer's body that contains the cost for at least one limit.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) costs: BodyCosts,
    /// `None` if the client left before the head of the answer.
    pub(crate) client: Option<Client>,
    pub(crate) address: IpAddr,
    pub(crate) wait_queues: WaitQueues,
    pub(crate) has_left: bool,
    /// Whether the upstream broke off the body.
    pub(crate) is_cut: bool,
}

/// A permit to read the rest of a body after the client has left.
#[derive(Debug)]
pub struct ReadOn(#[expect(dead_code, reason = "its drop frees it")] Permit);

/// The result of reading an answer's body.
#[derive(Clone, Debug)]
pub struct BodySettled {
    /// The client that is charged for the body. `None` if the client left before the head of the answer.
    pub client: Option<Client>,
    /// The result: whether the body contained the costs.
    pub result: BodyCost,
    /// The highest cost that a limit charged when the body had been read.
    pub cost: u64,
}

impl InFlight {
    pub(crate) fn new(holds: Holds, body: Option<Body>) -> Self {
        let reads_body = body.is_some();
        let body = body.map(Box::new);
        let held = Arc::new(Mutex::new(Held { holds, body }));
        Self { held, reads_body }
    }

    /// Whether the body contains a cost of the request. If so, each part of the body must be passed to [`read_step`](Self::read_step).
    pub const fn reads_body(&self) -> bool {
        self.reads_body
    }

    /// Records that the client has left before the end of the body. Returns a permit to read the rest of the body. `None` if no hold waits
    /// for a cost in the body, or if too many exchanges continue after their clients have left.
    pub fn client_left(&self) -> Option<ReadOn> {
        let mut held = self.held.lock();
        let body = held.body.as_mut()?;
        body.has_left = true;
        body.wait_queues.abandon(body.address).map(ReadOn)
    }

    /// Records that the upstream broke off the body.
    pub fn broke_off(&self) {
        if let Some(body) = &mut self.held.lock().body {
            body.is_cut = true;
        }
    }

    /// Reads the next part of the answer's body, or only the beginning of the part. A compressed part can expand to many bytes, and other
    /// tasks must run between two calls. Returns the number of bytes of `part` that were read; 0 only for an empty part.
    pub fn read_step(&self, part: &[u8]) -> usize {
        match &mut self.held.lock().body {
            Some(body) => body.costs.read_step(part),
            None => part.len(),
        }
    }

    /// Ends the holds whose cost is in the body, and calls `noted` for each. `None` if no hold waits for a cost in the body.
    pub(crate) fn settle(&self, noted: impl FnMut(Settled<'_>)) -> Option<BodySettled> {
        match self.reads_body {
            true => self.held.lock().settle(noted),
            false => None,
        }
    }
}

impl Held {
    fn settle(&mut self, mut noted: impl FnMut(Settled<'_>)) -> Option<BodySettled> {
        let Body {
            costs,
            client,
            has_left,
            is_cut,
            ..
        } = *self.body.take()?;
        let (read, missing) = match has_left {
            true => (BodyCost::ReadOn, BodyCost::Left),
            false => (BodyCost::Read, BodyCost::Missing),
        };
        let (mut cost, mut result) = (0, read);
        self.holds.settle(|limit, reserved| {
            // A body that was not read to its end may have had further numbers.
            let is_whole = !has_left && !is_cut || costs.is_whole(limit);
            let used = costs.used(limit);
            if used.is_none() || !is_whole {
                result = missing;
            }
            let used = match used {
                Some(used) if is_whole => used,
                used => used.unwrap_or(0).max(costs.missing(limit, reserved)),
            };
            cost = cost.max(used);
            noted(Settled {
                limit,
                reserved,
                used,
            });
            used
        });
        Some(BodySettled {
            client,
            result,
            cost,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle(|_| {});
    }
}

/// The end of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled<'a> {
    pub(crate) limit: &'a Limit,
    /// The units that were held until now.
    pub(crate) reserved: u64,
    /// The units that are charged.
    pub(crate) used: u64,
}

/// The holds of a request before the head of its answer.
#[derive(Debug)]
pub(crate) struct Reservation {
    holds: Option<Holds>,
    rules: Arc<[Rule]>,
    /// Whether the request was forwarded.
    pub(crate) transmission: Transmission,
    /// Whether the request is a `HEAD`, whose answer has no body.
    pub(crate) is_head: bool,
    /// The address that the request came from.
    pub(crate) address: IpAddr,
    /// The texts in the request's body.
    pub(crate) texts: RequestTexts,
}

impl Reservation {
    pub(crate) fn new(holds: Holds, rules: Arc<[Rule]>, address: IpAddr) -> Self {
        Self {
            holds: Some(holds),
            rules,
            address,
            transmission: Transmission::default(),
            is_head: false,
            texts: RequestTexts::NONE,
        }
    }

    /// Ends the holds whose cost follows from the answer's head, and calls `noted` for each. Returns the other holds, and the reader of
    /// costs in the body. The error is the reason why the gateway does not read the body.
    pub(crate) fn settle<B>(
        mut self,
        answer: &Response<B>,
        mut noted: impl FnMut(Settled<'_>),
    ) -> (Option<Holds>, Result<BodyCosts, BodyCost>) {
        let Some(mut holds) = self.holds.take() else {
            return (None, Err(BodyCost::NotAsked));
        };
        // If the request was not sent, the answer is not from an upstream and contains no cost.
        let is_sent = self.transmission.is_sent();
        let has_success = !self.is_head && has_success(answer.status());
        let is_unanswered = self.transmission.is_unanswered();
        let costs = match is_sent && !is_unanswered {
            true => {
                let texts = std::mem::take(&mut self.texts);
                BodyCosts::of((&self.rules, texts), answer, has_success)
            }
            false => Err(BodyCost::NotAsked),
        };
        // If no hold needs a cost in the body, the body need not be read. For example, a client that is exempt from all limits with a cost
        // in the body has no such hold.
        let mut is_asked = false;
        holds.settle_known(|limit, reserved| {
            let rule = rule(&self.rules, limit);
            if rule.is_some_and(|rule| !rule.cost.numbers().is_empty()) {
                is_asked = true;
                if costs.is_ok() {
                    return None;
                }
            }
            let used = match is_unanswered {
                // If the request was sent, the upstream may have served it, so its reserved units are charged.
                true => (!is_sent).then_some(0),
                false => used(rule, answer, is_sent),
            };
            let used = used.unwrap_or_else(|| match (rule, &costs) {
                (Some(rule), Err(BodyCost::Unreadable)) if has_success => {
                    rule.cost.missing(limit, reserved)
                }
                _ => reserved,
            });
            noted(Settled {
                limit,
                reserved,
                used,
            });
            Some(used)
        });
        match is_asked {
            true => (Some(holds), costs),
            false => (Some(holds), Err(BodyCost::NotAsked)),
        }
    }

    /// Returns the holds, which the caller ends.
    pub(crate) fn into_holds(mut self) -> Option<Holds> {
        self.holds.take()
    }

    /// Ends the holds before the answer has come. Limits with a cost are charged as if the answer lacked the cost. Holds of `concurrency`
    /// last for `time`.
    pub(crate) fn keep(mut self, time: Duration) {
        if let Some(mut holds) = self.holds.take() {
            // A limit may charge more than the reserved units here. Otherwise clients could avoid costs by leaving very often.
            holds.settle(|limit, reserved| match rule(&self.rules, limit) {
                Some(rule) => rule.cost.missing(limit, reserved),
                None => reserved,
            });
            holds.keep(time);
        }
    }
}

impl Drop for Reservation {
    /// Handles a request that ends without an answer. The reserved units are charged only if the request was forwarded.
    fn drop(&mut self) {
        if let Some(mut holds) = self.holds.take() {
            let forwarded = self.transmission.is_sent();
            holds.settle(|_, reserved| if forwarded { reserved } else { 0 });
        }
    }
}

/// Whether a status is successful and allows a body.
fn has_success(status: StatusCode) -> bool {
    let has_none = matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT);
    status.is_success() && !has_none
}

/// Returns the rule of a limit.
fn rule<'a>(rules: &'a [Rule], limit: &Limit) -> Option<&'a Rule> {
    rules.iter().find(|rule| rule.limit.name() == limit.name())
}

/// Returns the cost of a request under the limit of this rule. `None` if the reserved units are the cost.
fn used<B>(rule: Option<&Rule>, answer: &Response<B>, is_sent: bool) -> Option<u64> {
    let rule = rule?;
    match &rule.count {
        None if is_sent => rule.cost.of_answer(answer.headers()),
        None => Some(0),
        Some(_) => (!rule.counts(answer.status().as_u16())).then_some(0),
    }
}
