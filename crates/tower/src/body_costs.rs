//! Reads the cost of a request from the body of its answer, while the gateway passes the body on.

use std::ops::Range;
use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use tidegate_core::MAX_EXACT;
use tidegate_store::Limit;
use tidegate_usage::{BodyReader, JsonPath, Weight, WeightedPath};

use crate::reserve::units_at;
use crate::{Cost, Prices, RequestTexts, Rule};

/// The result of reading a request's cost from the body of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyCost {
    /// No limit of the request needs the body.
    #[default]
    NotAsked,
    /// The body cannot be read: it is neither JSON nor an event stream, has another compression than gzip, or is partial content (206).
    /// [`Missing`](crate::Missing) determines the charge.
    Unreadable,
    /// The body has not ended yet.
    Pending,
    /// The body ended or broke off without a number that a limit needs. [`Missing`](crate::Missing) determines the charge.
    Missing,
    /// The client left, and a number that a limit needs is not in the parts of the body that the gateway read. [`Missing`](crate::Missing)
    /// determines the charge.
    Left,
    /// The body contained all numbers that the limits need.
    Read,
    /// The body contained all numbers that the limits need. The gateway read some of these numbers after the client had left.
    ReadOn,
}

/// Reads the body of one answer.
#[derive(Debug)]
pub(crate) struct BodyCosts {
    reader: BodyReader,
    /// The limits whose cost is in the body, in the order of the reader's paths.
    limits: Box<[(Arc<Limit>, Cost)]>,
    /// The paths to the names of models, in the reader's order.
    models: Vec<JsonPath>,
    /// The texts in the request's body.
    texts: RequestTexts,
    /// Whether the answer is successful, and may have a body.
    has_success: bool,
}

impl BodyCosts {
    /// Prepares to read the costs in this answer's body. If there are no costs to read, returns the reason.
    pub(crate) fn of<B>(
        (rules, texts): (&[Rule], RequestTexts),
        answer: &Response<B>,
        has_success: bool,
    ) -> Result<Self, BodyCost> {
        let asking = || {
            let in_body = rules.iter().map(|rule| (rule, rule.cost.numbers()));
            in_body.filter(|(_, numbers)| !numbers.is_empty())
        };
        if asking().next().is_none() {
            return Err(BodyCost::NotAsked);
        }
        let paths = asking().flat_map(|(_, numbers)| numbers.iter().cloned());
        let mut models: Vec<JsonPath> = Vec::new();
        for prices in asking().filter_map(|(rule, _)| rule.cost.prices()) {
            if !models.contains(&prices.path) {
                models.push(prices.path.clone());
            }
        }
        let reader = reader(answer.status(), answer.headers(), paths);
        let reader = reader.ok_or(BodyCost::Unreadable)?;
        Ok(Self {
            reader: reader.with_texts(models.iter().cloned()),
            models,
            texts,
            limits: asking()
                .map(|(rule, _)| (rule.limit.clone(), rule.cost.clone()))
                .collect(),
            has_success,
        })
    }

    /// Reads the next part of the body, or only the beginning of the part. Returns the number of bytes read.
    pub(crate) fn read_step(&mut self, part: &[u8]) -> usize {
        self.reader.read_step(part)
    }

    /// Returns the cost of the request under this limit; at most [`MAX_EXACT`]. `None` if no number of the cost is in the parts of the body
    /// that were read.
    pub(crate) fn used(&self, limit: &Limit) -> Option<u64> {
        let thousandths = self.reader.sum(self.paths(limit)?)?;
        Some(units_at(self.price(limit), thousandths).min(MAX_EXACT))
    }

    /// Returns the price of the request under this limit. The model in the answer counts before the model in the request, because the client
    /// cannot choose the answer.
    fn price(&self, limit: &Limit) -> Weight {
        let Some(prices) = self.prices(limit) else {
            return Weight::ONE;
        };
        match self.model(&prices.path) {
            Some(index) if self.reader.has_text(index) => prices.of(self.reader.text(index)),
            _ => prices.of(self.texts.get(&prices.path)),
        }
    }

    /// Returns the reader's index of the path to a model.
    fn model(&self, path: &JsonPath) -> Option<usize> {
        self.models.iter().position(|other| other == path)
    }

    /// Whether the parts of the body that were read have all numbers of the cost under this limit, and the model.
    pub(crate) fn is_whole(&self, limit: &Limit) -> bool {
        let mut paths = self.paths(limit).into_iter().flatten();
        let model = self.prices(limit).and_then(|it| self.model(&it.path));
        paths.all(|path| self.reader.thousandths(path).is_some())
            && model.is_none_or(|index| self.reader.has_text(index))
    }

    fn prices(&self, limit: &Limit) -> Option<&Prices> {
        let (_, cost) = self.limits.get(self.position(limit)?)?;
        cost.prices()
    }

    /// Returns the charge under this limit for a body without the limit's number. `reserved` are the units that the request holds.
    pub(crate) fn missing(&self, limit: &Limit, reserved: u64) -> u64 {
        let cost = self.position(limit).and_then(|at| self.limits.get(at));
        match cost {
            Some((_, cost)) if self.has_success => cost.missing(limit, reserved),
            _ => reserved,
        }
    }

    /// Returns the reader's paths for this limit.
    fn paths(&self, limit: &Limit) -> Option<Range<usize>> {
        let position = self.position(limit)?;
        let count = |(_, cost): &(Arc<Limit>, Cost)| cost.numbers().len();
        let first = self.limits[..position].iter().map(count).sum();
        Some(first..first + count(&self.limits[position]))
    }

    fn position(&self, limit: &Limit) -> Option<usize> {
        let mut limits = self.limits.iter();
        limits.position(|(it, _)| it.name() == limit.name())
    }
}

/// Returns a reader for an answer with this head, if the gateway can read the body. Partial content (206) is not read, because the client
/// could request a range without the cost.
fn reader(
    status: StatusCode,
    headers: &HeaderMap,
    paths: impl Iterator<Item = WeightedPath>,
) -> Option<BodyReader> {
    if status == StatusCode::PARTIAL_CONTENT {
        return None;
    }
    let content_type = only(headers, CONTENT_TYPE)?;
    let content_encoding = only(headers, CONTENT_ENCODING)?;
    BodyReader::new(content_type, content_encoding, paths).ok()
}

/// Returns the value of a header, or an empty text without the header. `None` if there are several values, or if the value is not text.
pub(crate) fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map_or(Some(""), |value| value.to_str().ok());
    value.filter(|_| values.next().is_none())
}
