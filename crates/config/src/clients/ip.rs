//! `ip`: the addresses of clients, and the way in which a trusted proxy reports them.

use crate::yaml::{Place, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::check::Check;
use crate::value::Scalar;
use crate::value::net::PrefixLength;
use crate::value::word::choice;

/// The default of `ipv6_prefix`, in bits. A /64 is usually the network of one home or one machine.
pub(crate) const IPV6_PREFIX: u8 = 64;

/// The addresses of clients.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ip {
    /// The bits of an IPv6 address that identify a client, 1 to 128. Default: 64.
    pub(crate) ipv6_prefix: Option<Scalar<PrefixLength>>,
    /// The form in which trusted proxies send the address: x_forwarded_for, forwarded or proxy_protocol. Default: x_forwarded_for.
    pub(crate) from: Option<Scalar<AddressSource>>,
}

/// The way in which a trusted proxy reports the address of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AddressSource {
    /// In the header `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// In the header `Forwarded`.
    Forwarded,
    /// In a PROXY protocol header at the start of a connection.
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

/// Warns that `from` has no effect without trusted proxies.
pub(crate) fn nobody_tells(check: &mut Check<'_>, place: Option<Place>) {
    check.warn(
        Problem::new(place, "`from` has no effect here").note(
            "only a proxy under `trusted_proxies` reports an address, and none is listed: the address of the connection counts",
        ),
    );
}

/// The shortest IPv6 prefix that may belong to one customer, in bits. A provider usually has a /32 or a wider network, and gives each
/// customer a /48 to /64.
const CUSTOMER: u8 = 40;

/// Warns of IPv6 networks that many customers share.
pub(crate) fn shared_network(check: &mut Check<'_>, shown: &str, bits: u8, place: Option<Place>) {
    if bits < CUSTOMER {
        let message = format!("`{shown}` counts IPv6 by networks of {bits} bits");
        check.warn(Problem::new(place, message).note(
            "all customers of a provider share such a network; IPv4 is counted by address. Usual are /48 to /64",
        ));
    }
}
