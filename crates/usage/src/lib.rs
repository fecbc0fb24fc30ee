//! Reads numbers and short texts, such as the used units and the model, from a body while the body passes.
//!
//! A [`BodyReader`] gets each part of a body, and stores no part. So its size does not grow with the body: about 100 bytes for each
//! [`JsonPath`], and 43 KB for a compressed body. It reads JSON, sequences of JSON documents, and event streams, plain or with gzip.
//!
//! A reader checks a document only as far as necessary to find the path. After text that is not JSON, the reader ignores the rest of the
//! document, but keeps the values that it read before that text.

mod events;
mod gzip;
mod json;
mod name_pattern;
mod number;
mod path;
mod reader;
mod text;
mod weight;

pub use name_pattern::{NamePattern, NamePatternError};
pub use path::{JsonPath, PathError};
pub use reader::{BodyReader, Unreadable};
pub use weight::{Weight, WeightError, WeightedPath};
