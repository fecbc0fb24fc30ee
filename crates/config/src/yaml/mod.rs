//! Reads a YAML file with the place of each value, fills in variables of the environment, and shows mistakes in the file.
//!
//! Start reading at [`read`](fn@read). This folder does not define the keys of a file or their meaning.

mod expand;
mod keys;
mod read;
mod report;
mod shape;
mod spanned;

pub(crate) use expand::{Unfilled, Why, expand};
pub(crate) use keys::Keys;
pub(crate) use read::{read, unknown_key};
pub use report::{ConfigError, Warning};
pub(crate) use report::{MAX_PROBLEMS, Place, Problem, Source, slip};
pub(crate) use shape::{BlockOr, ScalarOr, entries};
pub(crate) use spanned::Spanned;
