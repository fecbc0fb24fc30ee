//! Reads: one number in the body of an answer, while the body passes.
//!
//! A [`BodyReader`] gets each part of a body as it passes, and keeps none of it. Its size does not grow with the body: some 100 bytes for
//! each [`JsonPath`], and 43 KB if the body is compressed. It reads JSON, sequences of JSON documents, and event streams, plain or with
//! gzip.
//!
//! It checks a document only as far as it must to find the path. Text that is not JSON ends the reading of this document. Numbers before
//! that text count.

mod events;
mod gzip;
mod json;
mod number;
mod path;
mod reader;

pub use path::{JsonPath, PathError};
pub use reader::{BodyReader, Unreadable};
