//! The parsers of lines, by format.

pub(crate) mod alb;
pub(crate) mod clf;
pub(crate) mod cloudfront;
pub(crate) mod cursor;
pub(crate) mod envoy;
pub(crate) mod haproxy;
pub(crate) mod json;
pub(crate) mod pairs;
pub(crate) mod template;
