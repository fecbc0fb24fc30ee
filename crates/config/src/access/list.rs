//! Lists of networks and clients: the values of `exempt`, `deny`, `allow` and `members`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::yaml::{Place, Problem};
use tidegate_identity::{ClientList, ClientSource, Clients, ListedClient};

use crate::check::Check;
use crate::clients::Callers;
use crate::clients::keys::is_plain_word;
use crate::clients::proxies::{LARGE, is_nobodys, no_address};
use crate::value::Scalar;
use crate::value::client::ListedText;

/// The purpose of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Exempt,
    Deny,
    Allow,
    Members,
}

/// The clients that the client sources of the configuration can name.
#[derive(Debug)]
pub(crate) struct KnownClients {
    /// The names of listed API keys. `None` if no source reads keys.
    keys: Option<HashSet<Arc<str>>>,
    /// Whether a key file may list more keys later.
    has_key_file: bool,
    /// Whether a source reads tokens.
    pub(crate) has_tokens: bool,
    users: Users,
    clients: Clients,
}

/// The peers from which a header with a user ID is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    /// No peer, because no source reads user IDs.
    Nobody,
    /// No peer, because no proxy is trusted.
    NoProxy,
    /// Trusted proxies.
    Proxies,
    /// All peers, because every address is trusted.
    Everyone,
}

impl KnownClients {
    /// Returns the clients that the sources in `callers` can name. `has_proxies` is set if any proxy is trusted.
    pub(crate) fn of(callers: &Callers, has_proxies: bool) -> Self {
        let clients = &callers.clients;
        let Clients {
            sources, trusted, ..
        } = clients;
        let mut names = Self {
            keys: None,
            has_key_file: !callers.reread.key_files.is_empty(),
            has_tokens: false,
            users: Users::Nobody,
            clients: clients.clone(),
        };
        for source in sources {
            match source {
                ClientSource::ApiKey { keys, .. } => {
                    names.keys.get_or_insert_default().extend(keys.names());
                }
                ClientSource::UserId { .. } if trusted.trust_everyone() => {
                    names.users = Users::Everyone;
                }
                ClientSource::UserId { .. } if has_proxies => names.users = Users::Proxies,
                ClientSource::UserId { .. } => names.users = Users::NoProxy,
                ClientSource::Token(_) => names.has_tokens = true,
                ClientSource::Certificate(_) | ClientSource::Ip => {}
            }
        }
        names
    }

    /// Whether an API key is listed, or a key file may list one.
    pub(crate) fn has_keys(&self) -> bool {
        self.has_key_file || self.keys.as_ref().is_some_and(|keys| !keys.is_empty())
    }

    /// Whether a source reads certificates.
    pub(crate) fn has_certificates(&self) -> bool {
        self.clients.read_certificates()
    }

    /// Whether there are entries, and all of them are networks of trusted proxies.
    fn are_proxies(&self, entries: &[(ListedClient, Option<Place>)]) -> bool {
        let trusted = &self.clients.trusted;
        let is_proxy = |(client, _): &(ListedClient, _)| match client {
            ListedClient::Network(network) => {
                trusted.contains(network.network()) && trusted.contains(network.broadcast())
            }
            _ => false,
        };
        !trusted.trust_everyone() && !entries.is_empty() && entries.iter().all(is_proxy)
    }

    /// Whether a source can name users.
    pub(crate) fn has_users(&self) -> bool {
        self.has_tokens || matches!(self.users, Users::Proxies | Users::Everyone)
    }
}

/// Reads a list of networks and clients.
pub(crate) fn client_list(
    check: &mut Check<'_>,
    written: Option<&[Scalar<ListedText>]>,
    sources: &KnownClients,
    purpose: Purpose,
) -> ClientList {
    let entries = entries(check, written.unwrap_or_default(), sources, purpose);
    if purpose == Purpose::Allow && sources.are_proxies(&entries) {
        let place = entries.first().and_then(|(_, place)| *place);
        let problem = Problem::new(place, "`allow` lists only networks of `trusted_proxies`");
        check.warn(problem.note(
            "clients behind a trusted proxy have addresses of their own, and get 403: list these, or trust the proxies alone",
        ));
    }
    let entries = entries.into_iter();
    ClientList::new(entries.map(|(client, place)| (client, check.source.at(place).into())))
}

/// Reads the entries of a list. Refuses an entry that is listed twice.
pub(crate) fn entries(
    check: &mut Check<'_>,
    written: &[Scalar<ListedText>],
    sources: &KnownClients,
    purpose: Purpose,
) -> Vec<(ListedClient, Option<Place>)> {
    let mut seen = HashMap::new();
    let mut entries = Vec::new();
    for scalar in written {
        let entry = match may_be_secret(&scalar.raw) {
            true => check.read_hidden(scalar),
            false => check.read(scalar),
        };
        let client =
            entry.and_then(|ListedText(client)| spelt(check, client, scalar.place, sources));
        let Some(client) = client else {
            continue;
        };
        if let Some(first) = seen.insert(client.clone(), scalar.place) {
            twice(check, scalar.place, first);
            continue;
        }
        match &client {
            ListedClient::Network(network) if network.prefix_len() == 0 => {
                everyone(check, scalar.place, purpose);
            }
            ListedClient::Network(network) if is_nobodys(network) => {
                no_address(check, scalar.place);
            }
            ListedClient::Network(network)
                if network.prefix_len() <= LARGE && purpose == Purpose::Exempt =>
            {
                let message = "this exempts a large part of all addresses";
                let problem = Problem::new(scalar.place, message);
                check.warn(problem.note("list the networks that need no limit"));
            }
            ListedClient::Network(_) => {}
            ListedClient::ApiKey(name) => key(check, name, scalar.place, sources),
            ListedClient::UserId(_) => user(check, scalar.place, sources),
            ListedClient::Certificate(_) if sources.has_certificates() => {}
            ListedClient::Certificate(_) => check.refuse(
                Problem::new(scalar.place, "no client source names a `client_cert`")
                    .note("add `client_cert` under `clients`, or remove this entry"),
            ),
        }
        entries.push((client, scalar.place));
    }
    entries
}

/// Returns a client with its name spelt as the gateway spells it for requests, so that both names compare equal. Refuses a client that no
/// request can name.
fn spelt(
    check: &mut Check<'_>,
    client: ListedClient,
    place: Option<Place>,
    sources: &KnownClients,
) -> Option<ListedClient> {
    let allowed = match client {
        ListedClient::Certificate(name) if sources.has_certificates() => {
            if let Some(name) = sources.clients.certificate_name(&name) {
                return Some(ListedClient::Certificate(name.into()));
            }
            "a name of at most 256 bytes; if `name` of `client_cert` is san_dns, a DNS name; if it is fingerprint, 64 hexadecimal digits"
        }
        ListedClient::UserId(id) if sources.has_users() && !sources.clients.can_name_user(&id) => {
            "an ID without blanks at its ends, as they are removed from headers"
        }
        other => return Some(other),
    };
    let problem = Problem::new(place, "no client can have this name");
    check.refuse(problem.note(format!("allowed here: {allowed}")));
    None
}

/// Refuses an entry that is listed twice.
pub(crate) fn twice(check: &mut Check<'_>, place: Option<Place>, first: Option<Place>) {
    let problem = Problem::new(place, "the same entry is here twice");
    check.refuse(problem.first_at(check.source, first));
}

/// Whether an entry may be an API key in the wrong place. Every valid entry, a network or a client, contains a `.`, `:` or `/`.
fn may_be_secret(text: &str) -> bool {
    !text.contains(['.', ':', '/']) && !is_plain_word(text)
}

/// Refuses a name that no API key has. If a key file may list the name later, warns only.
fn key(check: &mut Check<'_>, name: &str, place: Option<Place>, sources: &KnownClients) {
    let Some(keys) = &sources.keys else {
        let problem = Problem::new(place, "no client source names an `api_key`");
        check.refuse(problem.note("add `api_key` under `clients`, or remove this entry"));
        return;
    };
    if keys.contains(name) {
        return;
    }
    let problem = match is_plain_word(name) {
        true => Problem::new(place, format!("there is no API key called `{name}`")),
        false => Problem::new(place, "there is no API key of this name").without_line(),
    };
    let mut names: Vec<_> = keys.iter().collect();
    names.sort();
    let problem = problem.choices(name, names);
    if sources.has_key_file {
        check.warn(problem.note("the entry has no effect until a `keys_file` lists the key"));
    } else {
        check.refuse(problem);
    }
}

/// Refuses a user ID if no source names users. Warns of a user ID that has no effect, or is not verified.
fn user(check: &mut Check<'_>, place: Option<Place>, sources: &KnownClients) {
    match sources.users {
        Users::Everyone => check.warn(
            Problem::new(place, "nobody verifies this user ID").note(
                "`trusted_proxies` trusts every address, so every client can send any user ID: list the networks of your proxies only",
            ),
        ),
        Users::Proxies => {}
        Users::Nobody | Users::NoProxy if sources.has_tokens => {}
        Users::NoProxy => check.warn(
            Problem::new(place, "this entry has no effect")
                .note("a user ID is believed from `trusted_proxies` only, and none is listed"),
        ),
        Users::Nobody => check.refuse(
            Problem::new(place, "no client source names a `user_id`")
                .note("add `user_id` or `jwt` under `clients`, or remove this entry"),
        ),
    }
}

fn everyone(check: &mut Check<'_>, place: Option<Place>, purpose: Purpose) {
    let (what, note) = match purpose {
        Purpose::Exempt => (
            "this exempts every address",
            "no client is limited: list the networks that need no limit",
        ),
        Purpose::Deny => (
            "this denies every address",
            "neither `allow` nor `exempt` admits a client that is denied",
        ),
        Purpose::Allow => (
            "this allows every address",
            "no client is left out: list the networks that are let through",
        ),
        Purpose::Members => (
            "every address is a member of this plan",
            "change the numbers of the limits themselves",
        ),
    };
    check.warn(Problem::new(place, what).note(note));
}

#[cfg(test)]
mod tests;
