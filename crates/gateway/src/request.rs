//! The gateway's own steps between a request's head and the limits. `stack` has the order of the steps.

pub(crate) mod conditions;
pub(crate) mod cors;
pub(crate) mod credentials;
pub(crate) mod grpc;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod own_headers;
pub(crate) mod problem;
pub(crate) mod record;
pub(crate) mod routes;
pub(crate) mod target;
mod unread;
pub(crate) mod values;
