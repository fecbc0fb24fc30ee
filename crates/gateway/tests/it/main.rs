//! The gateway as its users meet it, in one binary for the sake of link time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each binary uses its own part")]
mod support;

/// What several subjects need: both stores, requests in one line, answers as numbers.
mod kit;

/// What tests of identities need: keys and tokens, addresses, and what is left for whom.
mod callers;

// Limits in force, the same on both stores.
mod access;
mod algorithms;
mod answers;
mod bypass;
mod case_insensitive;
mod claims;
mod clients;
mod cors;
mod costs;
mod dropped;
mod headers;
mod health;
mod key_files;
mod key_use;
mod matched;
mod overrides;
mod plans;
mod plans_readme;
mod proxy_protocol;
mod queries;
mod together;
mod told_upstream;
mod unknown_keys;
mod unparsed;
mod untrusted;

// Requests that wait, hold places, and are settled by their answers.
mod abandoned;
mod actions;
mod body_costs;
mod delay;
mod left_at_once;
mod llm;
mod observed;
mod own_budgets;
mod places;
mod queue;
mod reserves;
mod settled;
mod settling;
mod unanswered;

// Keys that issuers of tokens publish.
mod jwks;

// Several gateways, and a Redis in trouble.
mod fleet;
mod leased;
mod outage;
mod redis_refuses;
mod redis_undecided;
mod redis_unreachable;
mod shared_secret;
mod synced;
mod topologies;

// Long bodies, new configurations, and the end of a gateway.
mod drain;
mod reload;
mod reload_files;
mod reload_keys;
mod reload_load;
mod rolling;
mod streams;
mod systemd;

// What a gateway tells about itself, and what it does not.
mod access_log;
mod access_log_bounds;
mod access_log_errors;
mod access_log_file;
mod access_log_rotation;
mod admin;
mod admin_connections;
mod admin_hosts;
mod admin_roles;
mod admin_token;
mod metrics;
mod metrics_format;
mod notify;
mod observability;
mod one_client;
mod one_limit;
mod redis_seen;
mod request_id;
mod scripts;
mod secrets;
mod status;
mod status_events;
mod status_near;
mod status_redis;
mod status_reload;
mod status_servers;
mod traces;
mod unread_log;
mod why;

// The commands, by the real binary.
mod builds;
mod client_command;
mod commands;
mod demo;
mod explain;
mod init;
mod shares;
mod simulated;
mod top;
mod usage;
