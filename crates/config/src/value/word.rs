//! Values that are words: names, and choices among a few.

use std::path::PathBuf;

use http::HeaderName;
use tidegate_store::{Mode, OnFailure};
use tidegate_tower::Per;
use tidegate_tower::api_keys::UnknownKey;
use tidegate_tower::jwt::{InvalidToken, Signature};

use tidegate_upstream::Balance;

use crate::secret::Secret;
use tidegate_net::path::EncodedSlashes;
use tidegate_telemetry::log::LogFormat;

use super::{Fault, PrefixLength, Value};

/// A choice: each word with what it stands for.
macro_rules! choice {
    ($type:ty, $name:literal, $what:literal, $words:expr) => {
        impl Value for $type {
            const NAME: &'static str = $name;
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = "one of a few words";

            fn read(text: &str) -> Result<Self, Fault> {
                let found = $words.into_iter().find(|(word, _)| *word == text);
                found.map(|(_, value)| value).ok_or(Fault::Form)
            }

            fn words() -> impl Iterator<Item = &'static str> {
                $words.into_iter().map(|(word, _)| word)
            }
        }
    };
}

impl Value for Per {
    const NAME: &'static str = "Per";
    const WHAT: &'static str = "something that a limit can count per";
    const ALLOWED: &'static str = "client, ip, ip/48, api_key, user_id, route, method, host, header:NAME, cookie:NAME, path:NAME";

    fn read(text: &str) -> Result<Self, Fault> {
        if let Some((_, plain)) = Self::PLAIN.into_iter().find(|(word, _)| *word == text) {
            return Ok(plain);
        }
        if let Some(bits) = text.strip_prefix("ip/") {
            return PrefixLength::read(bits).map(|PrefixLength(bits)| Self::Network(bits));
        }
        match text.split_once(':').ok_or(Fault::Form)? {
            ("header", name) => Ok(Self::Header(HeaderName::read(name)?)),
            ("cookie", name) => cookie_name(name).map(|name| Self::Cookie(name.into())),
            ("path", name) => LimitName::read(name).map(|LimitName(name)| Self::Path(name.into())),
            _ => Err(Fault::Form),
        }
    }
}

/// A cookie's name is a token, as a header's is, in its own case.
fn cookie_name(name: &str) -> Result<&str, Fault> {
    HeaderName::read(name).map(|_| name)
}

choice!(
    Balance,
    "Balance",
    "a way to choose a server",
    [
        ("round_robin", Self::RoundRobin),
        ("least_requests", Self::LeastRequests),
    ]
);

choice!(
    UnknownKey,
    "UnknownKey",
    "a treatment of unknown keys",
    [
        ("fall_through", Self::FallThrough),
        ("reject", Self::Reject),
        ("accept", Self::Accept),
    ]
);

/// How a trusted proxy tells where a request came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AddressSource {
    /// In a header of the request.
    #[default]
    XForwardedFor,
    /// In a header of the request.
    Forwarded,
    /// Before the first request of a connection.
    ProxyProtocol,
}

choice!(
    AddressSource,
    "AddressSource",
    "a way in which a proxy reports an address",
    [
        ("x_forwarded_for", Self::XForwardedFor),
        ("forwarded", Self::Forwarded),
        ("proxy_protocol", Self::ProxyProtocol),
    ]
);

/// Whether a client has to show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ClientCert {
    #[default]
    Required,
    Optional,
}

choice!(
    ClientCert,
    "ClientCert",
    "a rule for client certificates",
    [("required", Self::Required), ("optional", Self::Optional)]
);

choice!(
    InvalidToken,
    "InvalidToken",
    "what can be done with invalid tokens",
    [
        ("fall_through", Self::FallThrough),
        ("reject", Self::Reject),
    ]
);

choice!(Signature, "Signature", "a signature algorithm", Self::ALL);

/// What becomes of a refused request, where one word says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionWord {
    Reject,
    Drop,
    /// Nothing: the limit only counts.
    Observe,
}

impl Value for ActionWord {
    const NAME: &'static str = "Action";
    const WHAT: &'static str = "an action";
    const ALLOWED: &'static str = "reject, drop, observe, or `delay: { max: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "reject" => Ok(Self::Reject),
            "drop" => Ok(Self::Drop),
            "observe" => Ok(Self::Observe),
            "delay" => Err(Fault::Because("`delay` needs a longest wait")),
            _ => Err(Fault::Form),
        }
    }

    fn schema() -> serde_json::Map<String, serde_json::Value> {
        let words = serde_json::json!(["reject", "drop", "observe"]);
        serde_json::Map::from_iter([("enum".to_owned(), words)])
    }
}

choice!(
    OnFailure,
    "OnFailure",
    "a rule for a Redis failure",
    [
        ("local", Self::Local),
        ("open", Self::Open),
        ("closed", Self::Closed),
    ]
);

choice!(
    Mode,
    "Mode",
    "a mode",
    Self::ALL.map(|mode| (mode.word(), mode))
);

choice!(
    EncodedSlashes,
    "EncodedSlashes",
    "a treatment of encoded slashes",
    [("reject", Self::Reject), ("keep", Self::Keep)]
);

choice!(
    LogFormat,
    "LogFormat",
    "a log format",
    [("text", Self::Text), ("json", Self::Json)]
);

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level(pub(crate) &'static str);

choice!(
    Level,
    "Level",
    "a log level",
    ["error", "warn", "info", "debug", "trace", "off"].map(|word| (word, Level(word)))
);

/// A store without settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreWord {
    Memory,
}

impl Value for StoreWord {
    const NAME: &'static str = "StoreWord";
    const WHAT: &'static str = "a store";
    const ALLOWED: &'static str = "memory, or `redis: { url: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "memory")
            .then_some(Self::Memory)
            .ok_or(Fault::Form)
    }
}

/// A plan without a quota for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unlimited;

impl Value for Unlimited {
    const NAME: &'static str = "Unlimited";
    const WHAT: &'static str = "a plan's quota";
    const ALLOWED: &'static str = "unlimited, or the limit's algorithm with other numbers";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "unlimited").then_some(Self).ok_or(Fault::Form)
    }
}

/// Declares a kind of name: any text that a function lets through.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $allowed:literal, $is_good:expr) => {
        name!($(#[$doc])* $type, $what, $allowed, $is_good, shown: true);
    };
    ($(#[$doc:meta])* $type:ident, $what:literal, $allowed:literal, $is_good:expr, shown: $shown:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $type(pub(crate) String);

        impl Value for $type {
            const NAME: &'static str = stringify!($type);
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = $allowed;
            const SHOWN: bool = $shown;

            fn read(text: &str) -> Result<Self, Fault> {
                let is_good: fn(char) -> bool = $is_good;
                let fits = (1..=LONGEST_NAME).contains(&text.chars().count());
                let good = fits && text.chars().all(is_good);
                good.then(|| Self(text.to_owned())).ok_or(Fault::Form)
            }
        }
    };
}

const LONGEST_NAME: usize = 128;

name!(
    /// The name of a limit, a plan or an upstream. A limit's becomes a part of its keys in Redis.
    LimitName,
    "a name",
    "letters, digits, `.`, `_` and `-`; 128 at most",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
);

name!(
    /// The plan of an API key. Not shown: it may be the key, by mistake.
    PlanName,
    "a plan's name",
    "letters, digits, `.`, `_` and `-`; 128 at most",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'),
    shown: false
);

name!(
    /// The name of an API key, which is what its client is called. Not shown: it may be the key, by mistake.
    KeyName,
    "a key's name",
    "1 to 128 characters, without blanks",
    |c| !c.is_whitespace() && !c.is_control(),
    shown: false
);

name!(
    /// The name of a route.
    RouteName,
    "a route's name",
    "1 to 128 characters, without control characters",
    |c| !c.is_control()
);

name!(
    /// What all keys in Redis start with; braces would choose a slot.
    KeyPrefix,
    "a key prefix",
    "letters, digits, `.`, `_`, `-` and `:`; 128 at most",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':')
);

/// A file, found from the configuration's own folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl Value for FilePath {
    const NAME: &'static str = "FilePath";
    const WHAT: &'static str = "a file";
    const ALLOWED: &'static str = "a path, from the configuration's folder or from /";

    fn read(text: &str) -> Result<Self, Fault> {
        // Its content may be a private key, so it is not quoted.
        if text.contains("-----BEGIN") || text.contains(char::is_control) {
            return Err(Fault::Because(
                "this is the content of a file; write the path of the file",
            ));
        }
        let path = (!text.is_empty()).then(|| Self(text.into()));
        path.ok_or(Fault::Form)
    }
}

/// Text that is compared as it is: an issuer, an audience, a claim's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) String);

impl Value for Words {
    const NAME: &'static str = "Words";
    const WHAT: &'static str = "a text";
    const ALLOWED: &'static str = "any text that is not empty";

    fn read(text: &str) -> Result<Self, Fault> {
        let words = (!text.is_empty()).then(|| Self(text.to_owned()));
        words.ok_or(Fault::Form)
    }
}

/// The secret; empty: none.
pub(crate) struct SecretText(pub(crate) Option<Secret>);

impl Value for SecretText {
    const NAME: &'static str = "Secret";
    const WHAT: &'static str = "a secret";
    const ALLOWED: &'static str = "any text; empty is none";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        Ok(Self((!text.is_empty()).then(|| Secret::new(text))))
    }
}

/// The token of the admin port; empty: none.
pub(crate) struct TokenText(pub(crate) Option<Secret>);

impl Value for TokenText {
    const NAME: &'static str = "Token";
    const WHAT: &'static str = "a token";
    const ALLOWED: &'static str =
        "letters, digits and signs that a header can carry, without spaces; empty is none";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::Form);
        }
        Ok(Self((!text.is_empty()).then(|| Secret::new(text))))
    }
}
