//! The listener for decisions about requests that other programs carry (`decisions`).

mod descriptor;
pub(crate) mod domains;
pub(crate) mod files;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::yaml::{Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_doors::Domains;
use tidegate_identity::{AccessLists, api_keys};
use tidegate_store::Limit;
use tidegate_tower::{Answers, Policy, Rule};

use crate::access::{FileAccess, policy_access};
use crate::admin::TokenText;
use crate::check::Check;
use crate::decisions::domains::RateLimitService;
use crate::decisions::files::RatelimitFiles;
use crate::limits::Rules;
use crate::listeners::{self, Listener, ListenerSettings, TakenAddress};
use crate::secret::short;
use crate::shape::SingleOr;
use crate::value::Scalar;

/// The listener for decisions about requests that other programs carry.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decisions {
    /// The address of the listener, or `{ address, tls }`. An address that is not loopback needs `token`, or client certificates.
    pub(crate) listen: SingleOr<SocketAddr, Listener>,
    /// The token that callers send as `Authorization: Bearer`. Default: none.
    pub(crate) token: Option<Scalar<TokenText>>,
    /// The limits of descriptors, which Envoy's RateLimitService sends. Default: none.
    pub(crate) rate_limit_service: Option<RateLimitService>,
}

/// The settings of the listener for decisions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecisionsSettings {
    /// The address and the TLS settings of the listener.
    pub listener: ListenerSettings,
    /// The SHA-256 hash of the token that callers send. `None` if callers need no token.
    pub token: Option<[u8; 32]>,
    /// All limits, in the order of [`Settings::limits`](crate::Settings::limits), with the access lists of the file. The policy may have
    /// more rules than one request can charge. It does not have the `require` of the file.
    pub policy: Policy,
    /// The limits of descriptors.
    pub domains: Domains,
    /// The files of envoyproxy/ratelimit that the configuration was read from.
    pub files: Vec<PathBuf>,
}

/// Reads the listener. The other settings need the limits, so [`decisions`] makes them later.
pub(crate) fn listener(
    check: &mut Check<'_>,
    written: &Spanned<Decisions>,
    taken: &mut Vec<TakenAddress>,
) -> Option<ListenerSettings> {
    listeners::listener(check, &written.value.listen, taken)
}

/// Makes the settings. `charged` has all limits, and their rules by name.
pub(crate) fn decisions(
    check: &mut Check<'_>,
    written: Option<&Spanned<Decisions>>,
    listener: Option<ListenerSettings>,
    files: RatelimitFiles,
    (limits, rules): (&[Arc<Limit>], &Rules),
    access: &FileAccess,
    answers: &Answers,
) -> Option<DecisionsSettings> {
    let written = &written?.value;
    let indices: HashMap<_, _> = (0..).zip(limits).map(|(at, it)| (it.name(), at)).collect();
    let service = written.rate_limit_service.as_ref();
    let (files, domains) = domains::domains(check, service, files, rules, &indices);
    let token = token(check, written);
    let listener = listener?;
    guarded(check, written, &listener, token?);
    let all = limits.iter().filter_map(|limit| rules.get(limit.name()));
    let all: Vec<Rule> = all.flatten().cloned().collect();
    Some(DecisionsSettings {
        listener,
        token: token?,
        policy: Policy {
            route: "none".into(),
            access: policy_access(access, &AccessLists::default(), &all, 0),
            rules: all.into(),
            always: 0,
            answers: answers.clone(),
        },
        domains,
        files,
    })
}

/// Returns the hash of the token, or `Some(None)` if there is no token. `None` if the token was refused.
fn token(check: &mut Check<'_>, written: &Decisions) -> Option<Option<[u8; 32]>> {
    let Some(scalar) = &written.token else {
        return Some(None);
    };
    let token = check.read(scalar)?.0;
    if let Some(token) = &token {
        short(check, "token", token, scalar.place);
    }
    Some(token.map(|token| api_keys::hash(token.expose().as_bytes())))
}

/// Refuses a listener that other machines can reach, unless its callers need a token or a client certificate.
fn guarded(
    check: &mut Check<'_>,
    written: &Decisions,
    listener: &ListenerSettings,
    token: Option<[u8; 32]>,
) {
    let is_local = listener.address.ip().to_canonical().is_loopback();
    let tls = listener.tls.as_ref();
    let clients = tls.and_then(|tls| tls.files().clients.as_ref());
    if is_local || token.is_some() || clients.is_some_and(|clients| clients.required) {
        return;
    }
    let message = "other machines can reach this address, and callers need no token";
    let problem = Problem::new(written.listen.place(), message);
    check.refuse(problem.note(
        "allowed here: a `token`, `tls` with `client_ca` and required certificates, or a loopback address such as 127.0.0.1:8090",
    ));
}
