//! `balance`: the choice of the server for a request.

use crate::yaml::{Problem, Spanned};
use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;
use tidegate_upstream::{Balance, HashedPart, MarkKey, Sticky};

use crate::check::Check;
use crate::secret::Secret;
use crate::shape::SingleOr;
use crate::value::number::pattern;
use crate::value::{Fault, Scalar, Value};

/// The rule of sticky sessions as written in the configuration. It sends a client to the same server each time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sticky", extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct WrittenSticky {
    /// The part of a request whose hash chooses the server: client, header:NAME or cookie:NAME.
    pub(crate) hash: Option<Scalar<Hashed>>,
    /// The name of a cookie in which the gateway stores the server of a client.
    pub(crate) cookie: Option<Scalar<CookieName>>,
}

/// The part of a request whose hash chooses the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hashed(HashedPart);

impl Value for Hashed {
    const NAME: &'static str = "HashedPart";
    const WHAT: &'static str = "a part of a request that chooses its server";
    const ALLOWED: &'static str = "client, header:NAME or cookie:NAME, such as header:X-Tenant";

    fn read(text: &str) -> Result<Self, Fault> {
        if text == "client" {
            return Ok(Self(HashedPart::Client));
        }
        if text == "ip" {
            return Err(Fault::Because(
                "a client without a name is its address: write client",
            ));
        }
        let part = match text.split_once(':').ok_or(Fault::Form)? {
            ("header", name) => HashedPart::Header(HeaderName::read(name)?),
            ("cookie", name) => HashedPart::Cookie(CookieName::read(name)?.0.into()),
            _ => return Err(Fault::Form),
        };
        Ok(Self(part))
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern("^(client|(header|cookie):.+)$")
    }
}

/// The name of a cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CookieName(String);

impl Value for CookieName {
    const NAME: &'static str = "CookieName";
    const WHAT: &'static str = "the name of a cookie";
    const ALLOWED: &'static str = "letters, digits, `-` and `_`, such as server";

    fn read(text: &str) -> Result<Self, Fault> {
        // A cookie's name allows the same characters as a header's name, but its case matters. So the text is kept unchanged.
        HeaderName::read(text).map(|_| Self(text.to_owned()))
    }
}

/// Returns the value of `balance` (round robin or least requests), and the rule of sticky sessions. If there is a rule of sticky sessions,
/// it takes precedence.
pub(crate) fn balance(
    check: &mut Check<'_>,
    written: Option<&SingleOr<Balance, WrittenSticky>>,
    secret: Option<&Secret>,
) -> (Balance, Option<Sticky>) {
    let block = match written {
        None => return (Balance::default(), None),
        Some(SingleOr::Single(word)) => return (check.read(word).unwrap_or_default(), None),
        Some(SingleOr::Block(block)) => block,
    };
    (Balance::default(), sticky(check, block, secret))
}

fn sticky(
    check: &mut Check<'_>,
    block: &Spanned<WrittenSticky>,
    secret: Option<&Secret>,
) -> Option<Sticky> {
    let hash = check.read_some(block.value.hash.as_ref());
    let cookie = check.read_some(block.value.cookie.as_ref());
    match (&block.value.hash, &block.value.cookie) {
        (Some(_), None) => hash.map(|Hashed(part)| Sticky::Hash(part)),
        (None, Some(scalar)) => {
            let Some(secret) = secret else {
                let message = "a cookie that names servers needs a `secret`";
                check.refuse(Problem::new(scalar.place, message).note(
                    "it hides the addresses of servers; set `secret` to the same random text on all gateways",
                ));
                return None;
            };
            let key = MarkKey::new(secret.expose());
            cookie.map(|CookieName(name)| Sticky::Cookie(name.into(), key))
        }
        (None, None) => {
            let problem = Problem::new(block.place, "`balance` is empty here");
            let remedy =
                "write round_robin, least_requests, `{ hash: client }` or `{ cookie: NAME }`";
            check.refuse(problem.note(remedy));
            None
        }
        (Some(_), Some(scalar)) => {
            let message = "a server is chosen by a hash or by a cookie of the gateway";
            let remedy =
                "leave one of them out; `hash: \"cookie:NAME\"` hashes a cookie of the upstream";
            check.refuse(Problem::new(scalar.place, message).note(remedy));
            None
        }
    }
}
