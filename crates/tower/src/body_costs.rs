//! What the body of an answer says that its request has cost, read while it passes.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use tidegate_core::MAX_EXACT;
use tidegate_store::Limit;
use tidegate_usage::{BodyReader, JsonPath};

use crate::Rule;

/// What the body of an answer told of a request's cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyCost {
    /// No limit of the request asks for it.
    #[default]
    NotAsked,
    /// The body cannot be read: it is no JSON and no event stream, it is compressed by something else than gzip, or it is a part of
    /// something. The request costs what was reserved.
    Unreadable,
    /// The body is on its way.
    Pending,
    /// The body ended, or broke off, without the number that a limit asks for. The request costs what was reserved there.
    Missing,
    /// The body told all.
    Read,
}

/// Reads the body of one answer.
#[derive(Debug)]
pub(crate) struct BodyCosts {
    reader: BodyReader,
    /// The limits whose cost the body tells, in the order of the reader's paths.
    limits: Box<[Arc<Limit>]>,
}

impl BodyCosts {
    /// What is to be read of this answer.
    pub(crate) fn of<B>(rules: &[Rule], answer: &Response<B>) -> Result<Self, BodyCost> {
        let asking = || {
            let paths = rules.iter().map(|rule| (rule, rule.cost.path()));
            paths.filter_map(|(rule, path)| Some((rule, path?)))
        };
        if asking().next().is_none() {
            return Err(BodyCost::NotAsked);
        }
        let paths = asking().map(|(_, path)| path.clone());
        let reader = reader(answer.status(), answer.headers(), paths);
        Ok(Self {
            reader: reader.ok_or(BodyCost::Unreadable)?,
            limits: asking().map(|(rule, _)| rule.limit.clone()).collect(),
        })
    }

    /// Reads the next part of the body, or its beginning; how many bytes were read.
    pub(crate) fn read_step(&mut self, part: &[u8]) -> usize {
        self.reader.read_step(part)
    }

    /// What the body has said until now of the cost under this limit; at most [`MAX_EXACT`].
    pub(crate) fn used(&self, limit: &Limit) -> Option<u64> {
        let path = self
            .limits
            .iter()
            .position(|it| it.name() == limit.name())?;
        Some(self.reader.found(path)?.min(MAX_EXACT))
    }
}

/// Reads an answer with this head, if that can be done. A part of something (206) is not read: the client chose which.
fn reader(
    status: StatusCode,
    headers: &HeaderMap,
    paths: impl Iterator<Item = JsonPath>,
) -> Option<BodyReader> {
    if status == StatusCode::PARTIAL_CONTENT {
        return None;
    }
    let content_type = only(headers, CONTENT_TYPE)?;
    let content_encoding = only(headers, CONTENT_ENCODING)?;
    BodyReader::new(content_type, content_encoding, paths).ok()
}

/// The value of a header, empty without one; none if there are several, or if it is not text.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map_or(Some(""), |value| value.to_str().ok());
    value.filter(|_| values.next().is_none())
}
