//! Reads the single values of a configuration, and collects their errors.
//!
//! Start reading at [`Check`](check::Check) and [`Value`](value::Value). The forms of a duration or a path are here. The keys of a
//! configuration are no part of this folder.

pub(crate) mod check;
pub(crate) mod shape;
pub(crate) mod value;
