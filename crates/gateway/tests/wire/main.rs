//! Bytes on the wire: framings, targets and upstreams that a proxy must not misread.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod support;

mod bad_answers;
mod chunks;
mod framing;
mod header_lines;
mod lab;
mod paths;
mod refused_body;
mod sizes;
mod slow_clients;
mod targets;
mod times;
mod upgrade;
