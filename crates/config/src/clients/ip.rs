//! `ip`: addresses, and how a trusted proxy reports them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;
use tidegate_yaml::{Place, Problem};

use crate::check::Check;
use crate::value::number::{digits, whole};
use crate::value::word::choice;
use crate::value::{Fault, Scalar, Value};

/// Addresses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ip {
    /// How many bits of an IPv6 address are one client. Default: 64.
    pub(crate) ipv6_prefix: Option<Scalar<PrefixLength>>,
    /// How a trusted proxy tells it: x_forwarded_for, forwarded or proxy_protocol. Default: x_forwarded_for.
    pub(crate) from: Option<Scalar<AddressSource>>,
}

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

/// How many bits of an IPv6 address are one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixLength(pub(crate) u8);

impl Value for PrefixLength {
    const NAME: &'static str = "PrefixLength";
    const WHAT: &'static str = "a prefix length";
    const ALLOWED: &'static str = "a whole number of bits from 1 to 128";

    fn read(text: &str) -> Result<Self, Fault> {
        let number = digits(text).and_then(|number| u8::try_from(number).ok());
        let number = number.filter(|number| (1..=128).contains(number));
        number.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        whole(1, Some(128))
    }
}

/// Warns that nobody reports addresses.
pub(crate) fn nobody_tells(check: &mut Check<'_>, place: Option<Place>) {
    check.warn(
        Problem::new(place, "`from` has no effect here").note(
            "only a proxy under `trusted_proxies` reports an address, and none is listed: the address of the connection counts",
        ),
    );
}
