//! Bytes on the wire: framings, targets and upstreams that a proxy must not misread.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each binary uses its own part")]
mod support;

/// What all subjects need: a gateway between bytes and bytes, and cases sent in every way.
mod lab;

// What a client sends that readers could cut in two ways.
mod chunks;
mod framing;
mod header_lines;
mod lists;
mod paths;
mod refused_body;
mod targets;
mod upgrade;

// What an upstream answers, or does not.
mod bad_answers;
mod early_answers;
mod reuse;
mod upstream_charges;
mod upstream_faults;

// How much, how many, and how long.
mod floods;
mod least_rate;
mod rests;
mod sizes;
mod slow_clients;
mod slow_lines;
mod times;

// What passes through.
mod headers;
mod http2;
mod http_rules;
mod messages;
mod streaming;
