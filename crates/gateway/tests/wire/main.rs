//! Bytes on the wire: framings, targets and upstreams that a proxy must not misread.

#[path = "../support/mod.rs"]
mod support;
