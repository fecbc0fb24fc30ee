//! A request from the fuzzer's input.

use std::net::IpAddr;

use http::header::{COOKIE, FORWARDED, HOST};
use http::{HeaderName, HeaderValue, Method, Request};
use tidegate_identity::api_keys::UnknownKey;
use tidegate_identity::{AddressFrom, Caller};
use tidegate_net::host::host_of;
use tidegate_store::Key;
use tidegate_tower::{Hasher, Per, RequestContext};

use super::{
    API_KEY, LISTED, PREFIX_BITS, PROXY, STRANGER, TENANT, USER_ID, X_FORWARDED_FOR, clients, peer,
    policy,
};

/// A part of a key before hashing: its kind, and its value.
pub(crate) type Part = (&'static str, Vec<u8>);

/// A request from the fuzzer's input, and the values that its keys depend on.
pub(crate) struct Asked<'a> {
    pub(crate) request: Request<()>,
    pub(crate) listed: Option<&'a str>,
    pub(crate) route: &'a str,
    pub(crate) host: Vec<u8>,
    pub(crate) path_value: Option<&'a str>,
    pub(crate) address: IpAddr,
    /// All values of the input, which a client could choose.
    pub(crate) values: Vec<&'a [u8]>,
}

impl<'a> Asked<'a> {
    /// Reads a request's lines. Returns `None` for a request that the gateway would refuse before any limit counts it.
    pub(crate) fn read(lines: &[&'a [u8]]) -> Option<Self> {
        let mut asked = Self {
            request: Request::new(()),
            listed: None,
            route: "",
            host: Vec::new(),
            path_value: None,
            address: STRANGER.parse().ok()?,
            values: Vec::new(),
        };
        let mut host = "example.com";
        for line in lines {
            let [letter, b' ', value @ ..] = line else {
                continue;
            };
            let text = std::str::from_utf8(value).ok();
            asked.values.push(value);
            match letter {
                // The address of the client, through a trusted proxy.
                b'i' => asked.address = text?.parse().ok()?,
                // The name of the listed key. A request with this line also sends the listed key.
                b'a' => {
                    asked.listed = Some(text?);
                    asked.send(API_KEY, LISTED);
                }
                // The value of any other API key.
                b'u' => asked.send(API_KEY, value),
                b'c' => asked.send(USER_ID, value),
                b'h' => asked.send(TENANT, value),
                b'k' => asked.send(COOKIE, &[&b"session="[..], value].concat()),
                // A whole line of cookies.
                b'K' => asked.send(COOKIE, value),
                b'm' => *asked.request.method_mut() = Method::from_bytes(value).ok()?,
                b'r' => asked.route = text?,
                b'o' => host = text?,
                b'p' => asked.path_value = Some(text?),
                _ => {}
            }
        }
        asked.host = host_of(host)?.as_bytes().to_vec();
        asked.send(HOST, host.as_bytes());
        let values = asked.path_value.map(|value| ("id".into(), value.into()));
        RequestContext::of_mut(&mut asked.request).path_values = values.into_iter().collect();
        Some(asked)
    }

    pub(crate) fn send(&mut self, name: HeaderName, value: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            self.request.headers_mut().append(name, value);
        }
    }

    /// Returns the headers with which a proxy forwards the client's address.
    pub(crate) fn told(&self) -> [(HeaderName, HeaderValue); 2] {
        let address = self.address;
        let element = match address {
            IpAddr::V4(address) => format!("for={address}"),
            IpAddr::V6(address) => format!("for=\"[{address}]\""),
        };
        let value = |text: String| HeaderValue::try_from(text).expect("plain text");
        [
            (X_FORWARDED_FOR, value(address.to_string())),
            (FORWARDED, value(element)),
        ]
    }

    /// Returns the caller that the gateway sees through a trusted proxy. The result must be the same with both headers of the proxy.
    pub(crate) fn caller(&self, unknown: UnknownKey) -> Caller {
        let [one, other] = self.told().map(|(name, value)| {
            let from = match name == FORWARDED {
                true => AddressFrom::Forwarded,
                false => AddressFrom::XForwardedFor,
            };
            let mut headers = self.request.headers().clone();
            headers.insert(name, value);
            clients(self.listed, unknown, from).identify(peer(PROXY), &headers)
        });
        // `Caller` has no `PartialEq`, because only this comparison would use it. So the debug texts are compared.
        assert_eq!(
            format!("{one:?}"),
            format!("{other:?}"),
            "both say the same"
        );
        one
    }

    /// Returns the keys of three limits for the request: a limit per `pers`, a limit per client, and a limit for all requests.
    pub(crate) fn keys(&self, pers: &[Per], secret: &str) -> [Key; 3] {
        let policy = policy(self.route, pers);
        let keys =
            Hasher::new(secret).keys(&policy, &self.caller(UnknownKey::Accept), &self.request);
        <[Key; 3]>::try_from(keys.as_slice()).expect("a key for each rule")
    }

    /// Returns the parts of the request's key, according to the documentation.
    pub(crate) fn parts(&self, pers: &[Per]) -> Vec<Part> {
        pers.iter().map(|per| self.part(per)).collect()
    }

    pub(crate) fn part(&self, per: &Per) -> Part {
        let part = match per {
            Per::Client => Some(self.client()),
            Per::Ip => None,
            Per::Network(bits) => Some(("ip", self.network(*bits))),
            Per::ApiKey => self.api_key(),
            Per::UserId => self.user(),
            // The clients of this target have no tokens and no certificates.
            Per::Claim(_) | Per::ClientCert => None,
            Per::Route => Some(("route", self.route.into())),
            Per::Method => {
                let method = self.request.method().as_str();
                // Unknown methods share a value, because clients can invent any number of methods.
                let method = match method {
                    "HEAD" => "GET",
                    "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => method,
                    _ => "",
                };
                Some(("method", method.into()))
            }
            Per::Host => Some(("host", self.host.clone())),
            Per::Header(name) => self.only(name).map(|value| ("header", value.to_vec())),
            Per::Cookie(_) => self.cookie().map(|value| ("cookie", value)),
            Per::Path(_) => self.path_value.map(|value| ("path", value.into())),
            // The requests of this target have no query and no descriptor.
            Per::Query(_) | Per::Descriptor(_) => None,
            // Without a body, all requests count under the budget for other names.
            Per::Json(_) => Some(("json", Vec::new())),
        };
        part.unwrap_or_else(|| ("ip", self.network(PREFIX_BITS)))
    }

    pub(crate) fn client(&self) -> Part {
        let named = self.api_key().or_else(|| self.user());
        named.unwrap_or_else(|| ("ip", self.network(PREFIX_BITS)))
    }

    /// Whether a header that names a caller comes more than once. If so, no header names the caller.
    pub(crate) fn is_ambiguous(&self) -> bool {
        [API_KEY, USER_ID].iter().any(|name| self.is_twice(name))
    }

    pub(crate) fn is_twice(&self, name: &HeaderName) -> bool {
        self.request.headers().get_all(name).iter().count() > 1
    }

    pub(crate) fn api_key(&self) -> Option<Part> {
        self.shown_key().filter(|_| !self.is_ambiguous())
    }

    pub(crate) fn shown_key(&self) -> Option<Part> {
        let key = self.only(&API_KEY)?;
        let listed = self.listed.filter(|_| key == LISTED);
        Some(match listed {
            Some(name) => ("api_key", name.into()),
            None => ("unlisted", key.to_vec()),
        })
    }

    pub(crate) fn user(&self) -> Option<Part> {
        let id = self.only(&USER_ID).filter(|_| !self.is_ambiguous())?;
        std::str::from_utf8(id)
            .ok()
            .map(|id| ("user_id", id.into()))
    }

    /// Returns all bytes of an IPv4 address, even if the input has it as an IPv4-mapped or NAT64 address. For another IPv6 address, returns
    /// its first `bits` bits, followed by zeros.
    pub(crate) fn network(&self, bits: u8) -> Vec<u8> {
        let address = match self.address {
            IpAddr::V4(address) => return address.octets().to_vec(),
            IpAddr::V6(address) => address,
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                address.octets()[12..].to_vec()
            }
            // All sixteen bytes are returned, so that no IPv6 network equals an IPv4 address.
            _ => {
                let mut octets = address.octets();
                octets[usize::from(bits / 8)..].fill(0);
                octets.to_vec()
            }
        }
    }

    /// Returns the value of a header that comes once and is not empty.
    pub(crate) fn only(&self, name: &HeaderName) -> Option<&[u8]> {
        let values: Vec<_> = self.request.headers().get_all(name).iter().collect();
        let [value] = values[..] else {
            return None;
        };
        Some(value.as_bytes().trim_ascii()).filter(|value| !value.is_empty())
    }

    /// Returns the value of the cookie `session`, if all servers would read the same value.
    pub(crate) fn cookie(&self) -> Option<Vec<u8>> {
        let (mut named, mut values) = (0, Vec::new());
        for line in self.request.headers().get_all(COOKIE) {
            let line = line.as_bytes();
            for at in (0..line.len()).filter(|at| line[*at] == b'=') {
                let before = line[..at].trim_ascii_end().to_ascii_lowercase();
                let begins = |before: &[u8]| before.last().is_none_or(|it| b" \t;,\"".contains(it));
                named += usize::from(before.strip_suffix(b"session").is_some_and(begins));
            }
            for pair in line.split(|byte| *byte == b';') {
                let mut halves = pair.splitn(2, |byte| *byte == b'=');
                let name = halves.next().unwrap_or_default().trim_ascii();
                if let (b"session", Some(value)) = (name, halves.next()) {
                    values.push(plain(value.trim_ascii())?);
                }
            }
        }
        let is_alone = named == values.len();
        values.dedup();
        let value = values.pop().filter(|value| !value.is_empty());
        value.filter(|_| is_alone && values.is_empty())
    }
}

/// Returns a cookie's value without quotes and escapes. Returns `None` if some servers would read only a part of the value.
fn plain(value: &[u8]) -> Option<Vec<u8>> {
    let is_quoted = value.len() >= 2 && value.starts_with(b"\"") && value.ends_with(b"\"");
    let mut rest = if is_quoted {
        &value[1..value.len() - 1]
    } else {
        value
    };
    if rest.iter().any(|byte| b" \t,\"".contains(byte)) {
        return None;
    }
    let mut text = Vec::new();
    while let [first, after @ ..] = rest {
        let octal = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let (byte, taken) = match (is_quoted && *first == b'\\', octal, after.first()) {
            (true, Some(byte), _) => (byte, 3),
            (true, None, Some(escaped)) => (*escaped, 1),
            _ => (*first, 0),
        };
        text.push(byte);
        rest = &after[taken..];
    }
    let mut decoded = Vec::new();
    let mut rest = text.as_slice();
    while let [first, after @ ..] = rest {
        let hex = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let hex = hex.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let hex = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, taken) = match (first, hex) {
            (b'%', Some(byte)) => (byte, 2),
            (b'+', _) => (b' ', 0),
            _ => (*first, 0),
        };
        decoded.push(byte);
        rest = &after[taken..];
    }
    Some(decoded)
}
