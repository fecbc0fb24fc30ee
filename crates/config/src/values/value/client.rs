//! Values of client sources.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Map;
use tidegate_identity::{CertificateName, ListedClient};

use crate::values::value::net::Network;
use crate::values::value::number::pattern;
use crate::values::value::word::{choice, is_of_names, name};
use crate::values::value::{Fault, Value};

name!(
    /// The name of a claim in a token.
    pub(crate) ClaimName,
    "the name of a claim",
    "1 to 128 characters without blanks, such as tenant; a dot leads into an object: org.id",
    |c| !c.is_whitespace() && !c.is_control()
);

name!(
    /// The name of an API key and its client. No message shows it, because it may be the key itself by mistake.
    pub(crate) KeyName,
    "a key's name",
    "1 to 128 characters, without blanks",
    |c| !c.is_whitespace() && !c.is_control(),
    const SHOWN: bool = false;
);

name!(
    /// The plan of an API key. No message shows it, because it may be the key itself by mistake.
    pub(crate) PlanName,
    "a plan's name",
    "letters, digits, `.`, `_` and `-`; 128 at most",
    is_of_names,
    const SHOWN: bool = false;
);

/// The hash of an API key. No message shows the text, because it may be the key itself by mistake.
#[derive(Debug)]
pub(crate) struct KeyHash(pub [u8; 32]);

/// The SHA-256 of an empty text and of an empty line. A script writes such a hash if it hashes a variable without a value.
const EMPTY: [&str; 2] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b",
];

impl Value for KeyHash {
    const NAME: &'static str = "KeyHash";
    const WHAT: &'static str = "the hash of a key";
    const ALLOWED: &'static str = "sha256: and 64 hexadecimal digits";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let digits = text.strip_prefix("sha256:").ok_or(Fault::Form)?;
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Fault::Form);
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| Fault::Form)?;
        }
        if EMPTY.contains(&digits.to_ascii_lowercase().as_str()) {
            return Err(Fault::Because(
                "this is the hash of an empty text: `tidegate keys hash NAME` prints the hash of a key",
            ));
        }
        Ok(Self(hash))
    }
}

/// A time, as a duration since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date(pub(crate) Duration);

impl Value for Date {
    const NAME: &'static str = "Date";
    const WHAT: &'static str = "a date";
    const ALLOWED: &'static str = "a day or a time in UTC: 2027-01-31 or 2027-01-31T12:00:00Z";

    fn read(text: &str) -> Result<Self, Fault> {
        let midnight = || humantime::parse_rfc3339(&format!("{text}T00:00:00Z"));
        let time = humantime::parse_rfc3339(text).or_else(|_| midnight());
        let since = time
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?$")
    }
}

impl Date {
    /// Whether this time has passed.
    pub(crate) fn is_over(self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.is_ok_and(|now| now >= self.0)
    }
}

choice!(
    CertificateName,
    "CertificateName",
    "a name in a certificate",
    Self::ALL
);

/// An entry of a list of networks and clients. No message shows it, because it may be an API key by mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedText(pub(crate) ListedClient);

impl Value for ListedText {
    const NAME: &'static str = "ListedClient";
    const WHAT: &'static str = "a network, an address or a client";
    const ALLOWED: &'static str = "a network such as 10.0.0.0/8 or fd00::/8, an address, api_key:NAME, user_id:ID or client_cert:NAME";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let named = |name: &str| match name.is_empty() || name.contains(char::is_control) {
            true => Err(Fault::Form),
            false => Ok(name.into()),
        };
        let client = match text.split_once(':') {
            Some(("api_key", name)) => ListedClient::ApiKey(KeyName::read(name)?.0.into()),
            Some(("user_id", id)) => ListedClient::UserId(named(id)?),
            Some(("client_cert", name)) => ListedClient::Certificate(named(name)?),
            Some(("ip", _)) => {
                return Err(Fault::Because("an address stands here without `ip:`"));
            }
            _ => match Network::read(text) {
                Ok(Network(network)) => ListedClient::Network(network),
                Err(Fault::Quoting(_)) => {
                    let reason = "this may mean a network or one address: write one of them";
                    return Err(Fault::Because(reason));
                }
                Err(other) => return Err(other),
            },
        };
        Ok(Self(client))
    }
}
