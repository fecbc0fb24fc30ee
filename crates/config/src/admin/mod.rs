//! The admin port (`admin`).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::yaml::{Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_identity::api_keys;
use tidegate_net::host::HostPattern;

use crate::check::Check;
use crate::listeners::{LOCALHOST, TakenAddress, is_any, overlap, take};
use crate::secret::{Secret, filled_in, short};
use crate::shape::SingleOr;
use crate::value::client::KeyHash;
use crate::value::word::{choice, is_of_names, name};
use crate::value::{Fault, Scalar, Value};

/// An admin port that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admin {
    /// The address of the admin port. Default: 127.0.0.1:9901.
    pub(crate) address: Option<Scalar<SocketAddr>>,
    /// The token that requests send as `Authorization: Bearer`. The token may read and write. Default: none; a port on a loopback address
    /// needs no token.
    pub(crate) token: Option<Scalar<TokenText>>,
    /// A list of tokens in place of `token`, each with a name and a role. Default: none.
    pub(crate) tokens: Option<Vec<Spanned<WrittenToken>>>,
    /// Allowed names in `Host`, such as gateway or *.example.com, in addition to addresses and localhost. Default: none.
    pub(crate) hosts: Option<Vec<Scalar<HostPattern>>>,
}

/// A token of the admin port that has a name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenToken {
    /// The owner's name, for audit lines.
    pub(crate) name: Scalar<TokenName>,
    /// The token's hash, never the token.
    pub(crate) hash: Scalar<KeyHash>,
    /// The rights of the token: read, or write. Write includes read. Default: read.
    pub(crate) role: Option<Scalar<Role>>,
}

name!(
    /// The name of a token of the admin port. No message shows it, because it may be the token itself by mistake.
    pub(crate) TokenName,
    "a token's name",
    "letters, digits, `.`, `_` and `-`; 128 at most",
    is_of_names,
    const SHOWN: bool = false;
);

/// The role of a token of the admin port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// May read.
    #[default]
    Read,
    /// May read, and change the state of the gateway.
    Write,
}

choice!(
    Role,
    "Role",
    "a role",
    [("read", Self::Read), ("write", Self::Write)]
);

/// A token of the admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    /// The name of the token's holder.
    pub name: Arc<str>,
    /// The SHA-256 hash of the token.
    pub sha256: [u8; 32],
    /// The role of the token.
    pub role: Role,
}

/// The token of the admin port. `None` if the text is empty.
pub(crate) struct TokenText(pub(crate) Option<Secret>);

impl Value for TokenText {
    const NAME: &'static str = "Token";
    const WHAT: &'static str = "a token";
    const ALLOWED: &'static str =
        "letters, digits and signs that a header can carry, without spaces; empty is none";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        filled_in(text)?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::Form);
        }
        Ok(Self((!text.is_empty()).then(|| Secret::new(text))))
    }
}

/// The admin port.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// The address of the port.
    pub address: SocketAddr,
    /// The token that commands of `tidegate` send to the port. `None` if the configuration has no token in clear text.
    pub token: Option<Secret>,
    /// The accepted tokens. Requests for all paths except `/healthz`, `/readyz` and `/metrics` must send an accepted token. If the list is
    /// empty, the port accepts such requests without a token, but only at a loopback address.
    pub tokens: Vec<AdminToken>,
    /// The host names that requests may use, in addition to addresses and `localhost`.
    pub hosts: Vec<HostPattern>,
}

const ADMIN: SocketAddr = SocketAddr::new(LOCALHOST, 9901);

pub(crate) fn admin(
    check: &mut Check<'_>,
    written: Option<&SingleOr<SocketAddr, Admin>>,
    taken: &mut Vec<TakenAddress>,
) -> Option<AdminSettings> {
    let (address, block) = match written {
        None => (None, None),
        Some(SingleOr::Single(address)) => (Some(address), None),
        Some(SingleOr::Block(block)) => (block.value.address.as_ref(), Some(&block.value)),
    };
    let written_token = block.and_then(|admin| admin.token.as_ref());
    let token = check.read_some(written_token).and_then(|token| token.0);
    let written = block.and_then(|admin| admin.tokens.as_deref());
    let mut tokens = tokens(check, written.unwrap_or_default());
    if let Some(token) = &token {
        let place = written_token.and_then(|scalar| scalar.place);
        short(check, "token", token, place);
        if !tokens.is_empty() {
            let problem = Problem::new(place, "there are both `token` and `tokens`").without_line();
            check.refuse(problem.note(
                "give it an entry under `tokens`, such as `{ name: admin, hash: \"sha256:…\", role: write }`; `tidegate keys hash NAME` prints the hash",
            ));
        }
        tokens.push(AdminToken {
            name: "admin".into(),
            sha256: api_keys::hash(token.expose().as_bytes()),
            role: Role::Write,
        });
    }
    let written_hosts = block.iter().flat_map(|admin| admin.hosts.iter().flatten());
    let hosts = written_hosts.filter_map(|host| check.read(host)).collect();
    let address = match address {
        Some(scalar) => take(check, taken, scalar)?,
        None => {
            free_of_listeners(check, taken);
            ADMIN
        }
    };
    Some(AdminSettings {
        address,
        token,
        tokens,
        hosts,
    })
}

/// Refuses a listener at the default address of the admin port. The caller has found that `admin` is missing.
fn free_of_listeners(check: &mut Check<'_>, taken: &[TakenAddress]) {
    let listener = taken.iter().find(|(address, _)| overlap(*address, ADMIN));
    if let Some((_, place)) = listener {
        let problem = Problem::new(*place, "this address is that of the admin port");
        check.refuse(problem.note(format!(
            "the admin port is {ADMIN} by default; `admin` gives it another address"
        )));
    }
}

/// Reads a list of tokens. Refuses two tokens with the same name or the same hash.
fn tokens(check: &mut Check<'_>, written: &[Spanned<WrittenToken>]) -> Vec<AdminToken> {
    let (mut names, mut hashes) = (HashSet::new(), HashSet::new());
    let mut tokens = Vec::new();
    for WrittenToken { name, hash, role } in written.iter().map(|token| &token.value) {
        let role = check.read_some(role.as_ref()).unwrap_or_default();
        let (name_place, hash_place) = (name.place, hash.place);
        let (Some(TokenName(name)), Some(KeyHash(sha256))) = (check.read(name), check.read(hash))
        else {
            continue;
        };
        if !names.insert(name.clone()) {
            let problem = Problem::new(name_place, "two tokens have the same name");
            check.refuse(problem.note("audit lines say who did what by the name of the token"));
        }
        if !hashes.insert(sha256) {
            let problem = Problem::new(hash_place, "the same token has two names");
            check.refuse(problem.note("make a token for each name: `tidegate keys new NAME`"));
        }
        tokens.push(AdminToken {
            name: name.into(),
            sha256,
            role,
        });
    }
    tokens
}

pub(crate) fn open_admin(
    check: &mut Check<'_>,
    written: Option<&SingleOr<SocketAddr, Admin>>,
    admin: Option<&AdminSettings>,
) {
    let is_open = admin.is_some_and(|admin| admin.tokens.is_empty() && is_any(admin.address));
    if is_open {
        let message = "the admin port is open on all addresses, without a token";
        let place = written.and_then(SingleOr::place);
        check.warn(Problem::new(place, message).note(
            "who asks by its IP address can read metrics and health, and under another name only if `hosts` lists it; clients and \
             the configuration are served with a token only. Set `token` or `tokens`, or listen on 127.0.0.1",
        ));
    }
}

#[cfg(test)]
mod tests;
