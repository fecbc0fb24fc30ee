//! Reads the single values of a configuration, and collects what is wrong with them.
//!
//! Start reading at [`Check`](check::Check) and [`Value`](value::Value). This crate knows what a duration or a path looks like, and not which keys a
//! configuration has.

pub(crate) mod check;
pub(crate) mod shape;
pub(crate) mod value;
