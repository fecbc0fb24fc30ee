//! From what a limit is counted per to the keyed hash that a store sees.

use arrayvec::ArrayVec;
use aws_lc_rs::hmac;
use http::header::HOST;
use http::{Method, Request};
use tidegate_store::{MAX_CHARGES, Subject};

use crate::{Caller, Client, Per, Policy, Rule};

/// Hashes clients and other parts of keys with a secret (HMAC-SHA256, cut to 128 bits).
///
/// Every part goes in with its kind and its length, so that a user called `1.2.3.4` is not that address, and no
/// two lists of parts look alike. Without a secret the hash hides names from casual eyes only.
#[derive(Clone, Debug)]
pub struct Hasher(hmac::Key);

impl Hasher {
    /// A hasher with this secret; gateways that share a store need the same one.
    pub fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// Whom each rule of `policy` counts this request for, in order.
    pub fn subjects<B>(
        &self,
        policy: &Policy,
        caller: &Caller,
        request: &Request<B>,
    ) -> ArrayVec<Subject, MAX_CHARGES> {
        let mut tag = None;
        let rules = policy.rules.iter();
        rules
            .map(|rule| self.subject(rule, policy, caller, request, &mut tag))
            .collect()
    }

    /// Whom `rule` counts this request for. `tag` keeps the last caller's hash, as most rules of a request share it.
    fn subject<B>(
        &self,
        rule: &Rule,
        policy: &Policy,
        caller: &Caller,
        request: &Request<B>,
        tag: &mut Option<(Client, [u8; 16])>,
    ) -> Subject {
        let own = rule.per.iter().position(|per| per.is_callers());
        let tag = match own {
            Some(index) => {
                let client = caller.named_by(rule.per[index]);
                match tag {
                    Some((known, hash)) if known == client => *hash,
                    _ => tag.insert((client.clone(), self.client(client))).1,
                }
            }
            None => self.digest(|parts| parts.add("limit", rule.limit.name().as_bytes())),
        };
        let others = || rule.per.iter().enumerate().filter(|(i, _)| Some(*i) != own);
        let rest = if others().next().is_none() {
            [0; 16]
        } else {
            self.digest(|parts| {
                for (_, per) in others() {
                    match per {
                        Per::Client | Per::Ip | Per::ApiKey | Per::UserId => {
                            parts.add_client(caller.named_by(*per));
                        }
                        Per::Route => parts.add("route", policy.route.as_bytes()),
                        Per::Method => parts.add("method", method(request).as_str().as_bytes()),
                        Per::Host => parts.add("host", &host(request)),
                    }
                }
            })
        };
        Subject { tag, rest }
    }

    fn client(&self, client: &Client) -> [u8; 16] {
        self.digest(|parts| parts.add_client(client))
    }

    fn digest(&self, add: impl FnOnce(&mut Parts)) -> [u8; 16] {
        let mut parts = Parts(hmac::Context::with_key(&self.0));
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

    fn add_client(&mut self, client: &Client) {
        match client {
            Client::ApiKey(name) => self.add("api_key", name.as_bytes()),
            Client::UserId(id) => self.add("user_id", id.as_bytes()),
            Client::Ip(std::net::IpAddr::V4(address)) => self.add("ip", &address.octets()),
            Client::Ip(std::net::IpAddr::V6(address)) => self.add("ip", &address.octets()),
        }
    }
}

impl Caller {
    /// The client that a `per` value means; what is missing counts under the address.
    fn named_by(&self, per: Per) -> &Client {
        let named = match per {
            Per::Client => Some(&self.client),
            Per::ApiKey => self.api_key.as_ref(),
            Per::UserId => self.user_id.as_ref(),
            Per::Ip | Per::Route | Per::Method | Per::Host => None,
        };
        named.unwrap_or(&self.ip)
    }
}

/// The method to count under: a `HEAD` is a `GET` without its body.
fn method<B>(request: &Request<B>) -> &Method {
    if request.method() == Method::HEAD {
        &Method::GET
    } else {
        request.method()
    }
}

/// The host that was asked for, in lower case, without port and trailing dot.
fn host<B>(request: &Request<B>) -> Vec<u8> {
    let header = || {
        request
            .headers()
            .get(HOST)
            .map_or(&b""[..], |host| host.as_bytes())
    };
    let authority = request.uri().authority();
    let host = authority.map_or_else(header, |authority| authority.as_str().as_bytes());
    let port = host.iter().rposition(|byte| *byte == b':');
    // In `[::1]` the last colon is no port's.
    let port = port.filter(|colon| !host[*colon..].contains(&b']'));
    let host = &host[..port.unwrap_or(host.len())];
    host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
