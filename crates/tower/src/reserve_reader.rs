//! Reads the units that a request reserves, and the texts that limits need, from the beginning of its body.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Request};
use tidegate_usage::{BodyReader, JsonPath, WeightedPath};

use crate::body_costs::only;
use crate::reserve::{ReadBody, RequestReserve};
use crate::shares::Permit;
use crate::{Per, Policy, RequestTexts, Rule};

/// The most bytes of a request's body that are read before the decision.
pub const READ_AHEAD: usize = 64 << 10;

/// A reader of the numbers and texts in a request's body that determine the units to reserve and the keys.
#[derive(Debug)]
pub struct ReserveReader {
    rules: Arc<[Rule]>,
    /// `None` if the body is not JSON or is compressed, or if too many bodies are kept.
    reader: Option<BodyReader>,
    /// The paths to texts, in the reader's order.
    texts: Vec<JsonPath>,
    /// The length of the body, if its head has the length.
    length: Option<u64>,
    read: u64,
    permit: Option<Permit>,
}

/// The units that a request reserves by its body.
#[derive(Clone, Debug)]
pub struct Reserves {
    /// The units in the order of the rules of the policy. `None` if the body does not determine them.
    units: Arc<[Option<u64>]>,
    /// The permit to keep the beginning of the body.
    _permit: Option<Arc<Permit>>,
}

impl Reserves {
    /// Returns the units under the rule with this index. `None` if the body does not determine them.
    pub(crate) fn units(&self, rule: usize) -> Option<u64> {
        self.units.get(rule).copied().flatten()
    }
}

impl ReserveReader {
    /// Makes a reader for a request's body. `None` if no rule needs the body. `keep` takes a permit to keep the beginning of the body: without
    /// one, the body is not read.
    pub(crate) fn of<B>(
        policy: &Policy,
        request: &Request<B>,
        keep: impl FnOnce() -> Option<Permit>,
    ) -> Option<Self> {
        let asking = || policy.rules.iter().filter_map(in_body);
        let texts = texts(&policy.rules);
        if asking().next().is_none() && texts.is_empty() {
            return None;
        }
        let headers = request.headers();
        let paths = asking().flat_map(|reserve| reserve.numbers.iter().cloned());
        let paths: Vec<WeightedPath> = paths.collect();
        let length = only(headers, CONTENT_LENGTH).and_then(|text| text.parse().ok());
        let permit = keep();
        Some(Self {
            reader: reader(headers, paths, &texts).filter(|_| permit.is_some()),
            texts,
            length,
            rules: policy.rules.clone(),
            read: 0,
            permit,
        })
    }

    /// Reads the next part of the body.
    pub fn read(&mut self, part: &[u8]) {
        self.read += part.len() as u64;
        if let Some(reader) = &mut self.reader {
            reader.read(part);
        }
    }

    /// Whether the rest of the body need not be read: all numbers were read, or the body is not JSON.
    pub fn is_complete(&self) -> bool {
        match &self.reader {
            Some(reader) => reader.is_failed() || reader.has_all(),
            None => true,
        }
    }

    /// Returns the units to reserve, and the texts. `has_ended` is true if the whole body was read.
    pub fn reserves(self, headers: &HeaderMap, has_ended: bool) -> (Reserves, RequestTexts) {
        let reader = self.reader.as_ref();
        let has_all = reader.is_some_and(BodyReader::has_all);
        let is_json = reader.is_some_and(|reader| !reader.is_failed());
        let is_known = has_all || has_ended && (is_json || self.read == 0);
        let length = self.length.or(has_ended.then_some(self.read));
        let texts = self.texts.iter().enumerate().map(|(index, path)| {
            let text = reader.and_then(|reader| reader.text(index));
            (path.clone(), text.map(Box::from))
        });
        let texts: RequestTexts = texts.collect();
        let mut first = 0;
        let units = self.rules.iter().map(|rule| {
            let reserve = in_body(rule)?;
            let paths = first..first + reserve.numbers.len();
            first = paths.end;
            let body = ReadBody {
                thousandths: reader.and_then(|reader| reader.sum(paths)),
                is_known,
                length,
            };
            Some(reserve.units(headers, &body, &texts))
        });
        let reserves = Reserves {
            units: units.collect(),
            _permit: self.permit.map(Arc::new),
        };
        (reserves, texts)
    }
}

/// Returns the parts of the request's body that determine the units under this rule.
fn in_body(rule: &Rule) -> Option<&RequestReserve> {
    rule.cost.reserve()?.in_body()
}

/// Returns the paths to the texts in the request's body that these rules need, each once.
fn texts(rules: &[Rule]) -> Vec<JsonPath> {
    let mut paths = Vec::new();
    for rule in rules {
        let by_key = rule.per.iter().filter_map(|per| match per {
            Per::Json(budgets) => Some(&budgets.path),
            _ => None,
        });
        let by_price = rule.cost.prices().map(|prices| &prices.path);
        for path in by_key.chain(by_price) {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
    }
    paths
}

/// Returns a reader for a plain JSON body with these headers.
fn reader(headers: &HeaderMap, paths: Vec<WeightedPath>, texts: &[JsonPath]) -> Option<BodyReader> {
    let content_type = only(headers, CONTENT_TYPE)?;
    let is_plain = only(headers, CONTENT_ENCODING)?.is_empty();
    let reader = BodyReader::new(content_type, "", paths).ok()?;
    // A compressed body could expand to many times its size, and its reader needs 43 KB.
    Some(reader.with_texts(texts.iter().cloned())).filter(|_| is_plain)
}
