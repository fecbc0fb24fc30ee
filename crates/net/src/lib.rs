//! Parsers of notations that HTTP servers and proxies use on the wire and in files: hosts, paths, patterns, origins, the PROXY protocol,
//! certificates. Other modules set TCP options, count file descriptors, and hold state that the client side and the upstream side of a
//! gateway share.
//!
//! A parser makes no decision. This crate has no routes, no limits, no configuration file and no HTTP server or client.

pub mod descriptors;
pub mod file_error;
pub mod file_stamp;
pub mod head;
pub mod headers;
pub mod host;
pub mod origin;
pub mod pace;
pub mod path;
pub mod pattern;
pub mod peer;
pub mod proxy_protocol;
pub mod route_index;
pub mod tcp;
pub mod text;
pub mod tls;
pub mod transmission;
pub mod tree;
