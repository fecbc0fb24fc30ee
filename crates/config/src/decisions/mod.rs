//! The listener for decisions about requests that other programs carry (`decisions`).

use std::net::SocketAddr;
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
use crate::limits::Rules;
use crate::listeners::{self, Listener, ListenerSettings, TakenAddress};
use crate::secret::short;
use crate::shape::SingleOr;
use crate::value::Scalar;

/// The listener for decisions about requests that other programs carry.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decisions {
    /// The address of the listener, or `{ address, tls }`. An address that is not loopback needs `token` or client certificates.
    pub(crate) listen: SingleOr<SocketAddr, Listener>,
    /// The token that callers send as `Authorization: Bearer`. Default: none.
    pub(crate) token: Option<Scalar<TokenText>>,
}

/// The settings of the listener for decisions.
#[derive(Debug)]
#[non_exhaustive]
pub struct DecisionsSettings {
    /// The address and the TLS settings of the listener.
    pub listener: ListenerSettings,
    /// The SHA-256 hash of the token that callers send. `None` if callers need no token.
    pub token: Option<[u8; 32]>,
    /// All limits of the configuration, with the access lists of the file. `require` has no effect here.
    pub policy: Policy,
    /// The limits of descriptors.
    pub domains: Domains,
}

/// Reads the address of the listener. Refuses an address that another caller can reach without a token and without a client certificate.
pub(crate) fn listener(
    check: &mut Check<'_>,
    written: &Spanned<Decisions>,
    taken: &mut Vec<TakenAddress>,
) -> Option<ListenerSettings> {
    listeners::listener(check, &written.value.listen, taken)
}

/// Makes the settings of the listener for decisions.
pub(crate) fn decisions(
    check: &mut Check<'_>,
    written: Option<&Spanned<Decisions>>,
    listener: Option<ListenerSettings>,
    limits: &[Arc<Limit>],
    rules: &Rules,
    access: &FileAccess,
    answers: &Answers,
) -> Option<DecisionsSettings> {
    let written = written?;
    let token = token(check, &written.value);
    let listener = listener?;
    guarded(check, written, &listener, token);
    let all = limits
        .iter()
        .filter_map(|limit| rules.get(limit.name())?.clone());
    let all: Vec<Rule> = all.collect();
    Some(DecisionsSettings {
        listener,
        token,
        policy: Policy {
            route: "none".into(),
            access: policy_access(access, &AccessLists::default(), &all, 0),
            rules: all.into(),
            always: 0,
            answers: answers.clone(),
        },
        domains: Domains::default(),
    })
}

/// Reads the token. Returns its hash.
fn token(check: &mut Check<'_>, written: &Decisions) -> Option<[u8; 32]> {
    let scalar = written.token.as_ref()?;
    let token = check.read(scalar)?.0?;
    short(check, "token", &token, scalar.place);
    Some(api_keys::hash(token.expose().as_bytes()))
}

/// Refuses a listener that other machines can reach, unless its callers need a token or a client certificate.
fn guarded(
    check: &mut Check<'_>,
    written: &Spanned<Decisions>,
    listener: &ListenerSettings,
    token: Option<[u8; 32]>,
) {
    let is_local = listener.address.ip().to_canonical().is_loopback();
    let tls = listener.tls.as_ref();
    let clients = tls.and_then(|tls| tls.files().clients.as_ref());
    let needs_certificate = clients.is_some_and(|clients| clients.required);
    // A token that was refused has an error of its own.
    let is_refused = written.value.token.is_some() && !check.problems.is_empty();
    if is_local || needs_certificate || token.is_some() || is_refused {
        return;
    }
    let message = "this address is open to other machines without a token";
    let problem = Problem::new(written.value.listen.place(), message);
    check.refuse(problem.note(
        "allowed here: a loopback address, a `token`, or `tls` with `client_ca` and required certificates",
    ));
}
