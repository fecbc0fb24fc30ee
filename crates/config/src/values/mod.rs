//! Reads the single values of a configuration, and collects their errors.
//!
//! Start reading at [`Check`](check::Check) and [`Value`](value::Value). This folder defines the forms of values, such as durations and
//! paths. Other folders define the keys of a configuration.

pub(crate) mod check;
pub(crate) mod shape;
pub(crate) mod value;
