//! Computes the key of a budget in a store: a keyed hash of the parts that the limit is counted per.

pub(crate) mod cookie;
mod recent;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use http::header::HOST;
use http::uri::Authority;
use http::{Method, Request};
use tidegate_net::host::host_of;
use tidegate_store::{Key, Origin, PerCharge};

use self::cookie::cookie_value;
use crate::query::{is_split, names};
use crate::{Descriptor, NamePattern, Per, Policy, QueryValue, RequestContext, Rule};
use tidegate_identity::{Caller, Client, cut_address, header_value};

/// Hashes clients and other parts of keys with a secret (HMAC-SHA256, cut to 128 bits).
///
/// Each part is hashed with its kind and its length. So the user ID `1.2.3.4` and the address 1.2.3.4 have different hashes, and different
/// lists of parts never hash the same bytes. The secret is necessary: without it, anyone who sees a hash could find the client's name by
/// guessing names.
#[derive(Clone, Debug)]
pub struct Hasher(Arc<ArcSwap<Secret>>);

#[derive(Debug)]
struct Secret {
    /// The number of this secret, unique in this process.
    number: u64,
    key: hmac::Key,
}

impl Hasher {
    /// Makes a hasher with this secret. Gateways that share a store need the same secret.
    pub fn new(secret: &str) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(Secret::new(secret))))
    }

    /// Replaces the secret in all clones.
    pub fn replace(&self, secret: &str) {
        self.0.store(Arc::new(Secret::new(secret)));
    }

    /// Returns a fingerprint of the secret, in hexadecimal digits. The fingerprint does not reveal the secret.
    pub fn fingerprint(&self) -> String {
        let hash = self.0.load().digest(|parts| parts.add("fingerprint", b""));
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the first half of a client's keys. This half is the same for all limits that are counted per client.
    pub fn tag(&self, client: &Client) -> [u8; 16] {
        self.0.load().client(client)
    }

    /// Returns the key under which each rule of `policy` counts this request, in order.
    pub fn keys<B>(
        &self,
        policy: &Policy,
        caller: &Caller,
        request: &Request<B>,
    ) -> PerCharge<Key> {
        // `push` is cheaper than `collect`.
        let mut keys = PerCharge::new();
        for rule in policy.rules.iter() {
            keys.push(self.key_behind(keys.last(), rule, policy, caller, request));
        }
        keys
    }

    /// Returns the key under which `rule` counts this request. `front` is the key of the rule in front of `rule`.
    pub(crate) fn key_behind<B>(
        &self,
        front: Option<&Key>,
        rule: &Rule,
        policy: &Policy,
        caller: &Caller,
        request: &Request<B>,
    ) -> Key {
        match (front, &rule.front) {
            (Some(front), Some(_)) => self.share_key(front, rule, policy, caller, request),
            _ => self.key(rule, policy, caller, request),
        }
    }

    /// Returns the key of a member's share. It begins like the key of the shared limit, so that both are in one slot of a Redis Cluster.
    fn share_key<B>(
        &self,
        shared: &Key,
        rule: &Rule,
        policy: &Policy,
        caller: &Caller,
        request: &Request<B>,
    ) -> Key {
        let secret = self.0.load();
        let tag = shared.tag;
        if let [per] = &*rule.per
            && shared.rest == [0; 16]
            && per.is_callers()
            && !matches!(per, Per::Descriptor(_))
        {
            // The hash of a client is cached.
            let rest = secret.own(caller, per);
            return Key { tag, rest };
        }
        let rest = secret.digest(|parts| {
            parts.add("share", &shared.rest);
            for per in rule.per.iter() {
                parts.add_part(per, policy, caller, request);
            }
        });
        Key { tag, rest }
    }

    /// Returns the caller's address if the key under `rule` has an unverified part that the sender of the request chose. `None` if each
    /// part is verified or has few possible values.
    pub(crate) fn origin(rule: &Rule, caller: &Caller) -> Option<Origin> {
        let is_chosen = rule.per.iter().any(|per| match per {
            Per::Client => matches!(caller.client, Client::UnlistedKey(_)),
            Per::ApiKey => matches!(caller.api_key, Some(Client::UnlistedKey(_))),
            per => per.is_chosen(),
        });
        is_chosen.then(|| Origin::of(caller.address()))
    }

    /// Returns the key under which `rule` counts this request.
    pub fn key<B>(
        &self,
        rule: &Rule,
        policy: &Policy,
        caller: &Caller,
        request: &Request<B>,
    ) -> Key {
        if let Some(shared) = &rule.front {
            let shared = self.key(shared, policy, caller, request);
            return self.share_key(&shared, rule, policy, caller, request);
        }
        let secret = self.0.load();
        let own = rule.per.iter().position(|per| per.is_callers());
        let tag = match own {
            Some(index) => match &rule.per[index] {
                Per::Descriptor(name) => {
                    secret.digest(|parts| parts.add_descriptor(caller, request, name))
                }
                per => secret.own(caller, per),
            },
            None => secret.digest(|parts| parts.add("limit", rule.limit.name().as_bytes())),
        };
        let others = || rule.per.iter().enumerate().filter(|(i, _)| Some(*i) != own);
        let rest = if others().next().is_none() {
            [0; 16]
        } else {
            secret.digest(|parts| {
                for (_, per) in others() {
                    parts.add_part(per, policy, caller, request);
                }
            })
        };
        Key { tag, rest }
    }
}

impl Secret {
    fn new(secret: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        }
    }

    /// Returns the hash of a part that identifies the caller.
    fn own(&self, caller: &Caller, per: &Per) -> [u8; 16] {
        match per {
            Per::Claim(name) => self.digest(|parts| parts.add_claim(caller, name)),
            _ => self.client(&counted(caller, per)),
        }
    }

    fn client(&self, client: &Client) -> [u8; 16] {
        recent::hash(self.number, client, || {
            self.digest(|parts| parts.add_client(client))
        })
    }

    fn digest(&self, add: impl FnOnce(&mut Parts)) -> [u8; 16] {
        let mut parts = Parts(hmac::Context::with_key(&self.key));
        add(&mut parts);
        let mut hash = [0; 16];
        hash.copy_from_slice(&parts.0.sign().as_ref()[..16]);
        hash
    }
}

struct Parts(hmac::Context);

impl Parts {
    fn add(&mut self, kind: &'static str, value: &[u8]) {
        for part in [kind.as_bytes(), value] {
            self.0.update(&(part.len() as u64).to_be_bytes());
            self.0.update(part);
        }
    }

    /// Adds the value of a part of the request.
    fn add_part<B>(&mut self, per: &Per, policy: &Policy, caller: &Caller, request: &Request<B>) {
        match per {
            Per::Client
            | Per::Ip
            | Per::Network(_)
            | Per::ApiKey
            | Per::UserId
            | Per::ClientCert => self.add_client(&counted(caller, per)),
            Per::Claim(name) => self.add_claim(caller, name),
            Per::Route => self.add("route", policy.route.as_bytes()),
            Per::Method => self.add("method", method(request.method()).as_bytes()),
            Per::Host => self.add("host", host(request).as_bytes()),
            Per::Header(name) => {
                let value = header_value(request.headers(), name);
                self.add_named(caller, "header", name.as_str(), value);
            }
            Per::Cookie(name) => {
                let value = cookie_value(request, name);
                self.add_named(caller, "cookie", name, value.as_deref());
            }
            Per::Path(name) => {
                let value = RequestContext::of(request).path_value(name);
                self.add_named(caller, "path", name, value.map(str::as_bytes));
            }
            Per::Query(name) => {
                let value = query_value(request, name);
                self.add_named(caller, "query", name, value.as_deref());
            }
            Per::Descriptor(name) => self.add_descriptor(caller, request, name),
            Per::Json(budgets) => {
                let text = RequestContext::of(request).texts.get(&budgets.path);
                let pattern = budgets.pattern(text).map(NamePattern::as_str);
                self.add("json", budgets.path.to_string().as_bytes());
                // No pattern is empty.
                self.add("value", pattern.unwrap_or_default().as_bytes());
            }
        }
    }

    /// Adds a part whose kind needs a name, such as a header. Without a value, adds the caller's address instead.
    fn add_named(&mut self, caller: &Caller, kind: &'static str, name: &str, value: Option<&[u8]>) {
        let Some(value) = value else {
            return self.add_client(&caller.ip);
        };
        self.add(kind, name.as_bytes());
        self.add("value", value);
    }

    /// Adds all values under a key of the request's descriptor. Without such a key, adds the caller's address instead.
    fn add_descriptor<B>(&mut self, caller: &Caller, request: &Request<B>, name: &str) {
        let mut values = Descriptor::values(request, name).peekable();
        if values.peek().is_none() {
            return self.add_client(&caller.ip);
        }
        self.add("descriptor", name.as_bytes());
        for value in values {
            self.add("value", value.as_bytes());
        }
    }

    /// Adds a claim of the caller's token. Without the claim, adds the caller's address instead.
    fn add_claim(&mut self, caller: &Caller, name: &str) {
        let Some(value) = caller.claims.value(name) else {
            return self.add_client(&caller.ip);
        };
        self.add("claim", name.as_bytes());
        for member in value.members() {
            self.add("value", member.as_bytes());
        }
    }

    fn add_client(&mut self, client: &Client) {
        match client {
            Client::ApiKey(name) => self.add("api_key", name.as_bytes()),
            Client::UnlistedKey(hash) => self.add("unlisted_key", hash),
            Client::UserId(id) => self.add("user_id", id.as_bytes()),
            Client::Certificate(name) => self.add("client_cert", name.as_bytes()),
            Client::Ip(std::net::IpAddr::V4(address)) => self.add("ip", &address.octets()),
            Client::Ip(std::net::IpAddr::V6(address)) => self.add("ip", &address.octets()),
        }
    }
}

/// Returns the caller's name of the kind that `per` selects. A caller without such a name counts under its address.
fn counted<'a>(caller: &'a Caller, per: &Per) -> Cow<'a, Client> {
    let named = match per {
        Per::Client => Some(&caller.client),
        Per::ApiKey => caller.api_key.as_ref(),
        Per::UserId => caller.user_id.as_ref(),
        Per::ClientCert => caller.client_cert.as_ref(),
        Per::Network(bits) => return Cow::Owned(network(&caller.ip, *bits)),
        _ => None,
    };
    Cow::Borrowed(named.unwrap_or(&caller.ip))
}

fn network(ip: &Client, ipv6_prefix: u8) -> Client {
    match ip {
        Client::Ip(address) => Client::Ip(cut_address(*address, ipv6_prefix)),
        other => other.clone(),
    }
}

/// Returns the value of `name` in the query, if every kind of server finds this name there exactly once. Some servers ignore case, and some
/// split the query at `;` as well.
fn query_value<'a, B>(request: &'a Request<B>, name: &str) -> Option<Cow<'a, [u8]>> {
    let query = request.uri().query()?;
    match QueryValue::of(query, name) {
        QueryValue::One(value) => {
            let mut named = names(query).filter(|text| folds_to(text.trim_ascii(), name));
            let is_alone = named.nth(1).is_none() && !is_split(query, name);
            Some(value).filter(|value| is_alone && !value.is_empty())
        }
        QueryValue::Missing | QueryValue::Several => None,
    }
}

/// Whether some servers read `text` as `name`. Some servers ignore case. PHP replaces certain characters with `_`. This function treats all
/// characters except letters and digits as `_`.
pub fn folds_to(text: &[u8], name: &str) -> bool {
    let fold = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() => byte.to_ascii_lowercase(),
        _ => b'_',
    };
    text.iter().map(fold).eq(name.as_bytes().iter().map(fold))
}

/// Returns the method under which a request is counted. `HEAD` counts as `GET`. All rare methods count as one method, because clients can
/// invent methods to get more budgets.
fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Returns the requested host in a normalized spelling, so that different spellings of a host share one budget.
fn host<B>(request: &Request<B>) -> Cow<'_, str> {
    let header = || request.headers().get(HOST)?.to_str().ok();
    let authority = request.uri().authority().map(Authority::as_str);
    let authority = authority.or_else(header).unwrap_or_default();
    // The gateway rejects requests whose host is not valid, so no request is counted under the fallback.
    host_of(authority).unwrap_or_else(|| authority.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests;
