//! Reads numbers, such as the used units, from the body of an answer while the body passes.
//!
//! A [`BodyReader`] gets each part of a body, and stores no part. So its size does not grow with the body: about 100 bytes for each
//! [`JsonPath`], and 43 KB for a compressed body. It reads JSON, sequences of JSON documents, and event streams, plain or with gzip.
//!
//! It checks a document only as far as it needs to find the path. If it meets text that is not JSON, it ignores the rest of the document.
//! Numbers before that text count.

mod events;
mod gzip;
mod json;
mod number;
mod path;
mod reader;

pub use path::{JsonPath, PathError};
pub use reader::{BodyReader, Unreadable};
