//! The protocols by which other programs ask for decisions: may a request pass that tidegate does not carry?
//!
//! This crate reads calls and writes replies. It decides nothing. It is the only crate that uses tonic.
//!
//! - [`rate_limit_service`]: Envoy's `RateLimitService`, and the health service of gRPC
//! - [`Domains`]: the limits of descriptors, which calls of the `RateLimitService` contain
//! - [`CheckCall`] and [`SettleCall`]: the JSON of `/v1/check` and `/v1/settle`

mod check;
mod domains;
mod rate_limit;

pub use check::{
    Check, CheckCall, CheckReply, CheckResult, LimitState, MAX_CHECKS, MAX_COST, MAX_HOLD,
    SettleCall, SettleReply, SettleResult, Settlement,
};
pub use domains::{Domain, DomainList, Domains, Entry, Node, Target, ValuePattern};
pub use rate_limit::{
    Call, CallDescriptor, CallError, Fact, HEALTH_CHECK, MAX_DESCRIPTORS, Reply, RpcBody,
    SHOULD_RATE_LIMIT, Status, StatusLimit, health_service, rate_limit_service, timeout,
};

/// The OpenAPI document of the JSON paths.
pub const OPENAPI: &str = include_str!("../openapi.json");
