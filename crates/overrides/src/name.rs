//! The names of overrides. Each name stands for a client, a network or a limit.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tidegate_identity::{Caller, Clients, ListedClient, UnknownClient, folded};

/// The longest name, in bytes, with its prefix.
pub const MAX_NAME: usize = 256;

/// The client, the network or the limit that an override applies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A client or a network.
    Client(ListedClient),
    /// The limit with this name, for all clients that have no numbers of their own.
    Limit(Arc<str>),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(client) => write!(f, "{client}"),
            Self::Limit(name) => write!(f, "limit:{name}"),
        }
    }
}

/// The reason why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The text does not have the form of a client, a network or a limit.
    #[error(
        "an override is for api_key:NAME, user_id:ID, client_cert:NAME, ip:ADDRESS, an address, a network such as 10.0.0.0/8, or limit:NAME"
    )]
    Form,
    /// The text is longer than [`MAX_NAME`].
    #[error("the name is longer than 256 bytes")]
    Long,
    /// The text has a control character.
    #[error("the name has a control character, such as a line break")]
    Control,
    /// The address has bits set beyond the prefix length of the network. Holds the network's first address.
    #[error("the network has bits behind its length; its first address is {0}")]
    HostBits(IpAddr),
}

/// The prefix in the name of a client whose API key is not listed. The start of the key's hash follows.
const UNLISTED: &str = "unlisted-";

/// Whether the client has an API key that is not listed.
pub(crate) fn is_unlisted(client: &ListedClient) -> bool {
    matches!(client, ListedClient::ApiKey(name) if name.starts_with(UNLISTED))
}

/// Returns why probably no client has this name, according to `clients`. The name is still accepted, because an API key may be listed
/// later, and names may have two spellings.
pub(crate) fn doubt(subject: &Subject, clients: &Clients) -> Option<String> {
    let Subject::Client(client) = subject else {
        return None;
    };
    if is_unlisted(client) || matches!(client, ListedClient::Network(_)) {
        return None;
    }
    let Err(error) = Caller::named(clients, &client.to_string()) else {
        return misspelt(client, clients);
    };
    Some(match error {
        UnknownClient::ApiKey => "no API key of this name is listed now".to_owned(),
        UnknownClient::UserId => "nothing under `clients` names users".to_owned(),
        UnknownClient::Certificate => "nothing under `clients` reads certificates".to_owned(),
        other => other.to_string(),
    })
}

/// Returns why no request can have this name, although the configuration reads clients of this kind.
fn misspelt(client: &ListedClient, clients: &Clients) -> Option<String> {
    match client {
        ListedClient::Certificate(name) => match clients.certificate_name(name) {
            Some(read) if *read == **name => None,
            Some(read) => Some(format!("certificates have this name as client_cert:{read}")),
            None => Some("no certificate can have this name".to_owned()),
        },
        ListedClient::UserId(id) if !clients.can_name_user(id) => {
            Some("no user ID of a header has blanks at its ends".to_owned())
        }
        _ => None,
    }
}

/// Reads the name of an override. `ip:ADDRESS` is a client. An IPv6 client is the network of `ipv6_prefix` bits, because limits count IPv6
/// clients by this prefix.
///
/// # Errors
///
/// The text is not a valid name.
pub fn read_name(text: &str, ipv6_prefix: u8) -> Result<Subject, InvalidName> {
    if text.len() > MAX_NAME {
        return Err(InvalidName::Long);
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidName::Control);
    }
    let client = match text.split_once(':') {
        Some(("api_key" | "user_id" | "client_cert" | "limit", "")) => {
            return Err(InvalidName::Form);
        }
        Some(("limit", name)) => return Ok(Subject::Limit(name.into())),
        Some(("api_key", name)) => ListedClient::ApiKey(name.into()),
        Some(("user_id", id)) => ListedClient::UserId(id.into()),
        Some(("client_cert", name)) => ListedClient::Certificate(name.into()),
        Some(("ip", address)) => {
            let address: IpAddr = address.parse().map_err(|_| InvalidName::Form)?;
            let address = folded(address.into()).addr();
            let bits = if address.is_ipv4() { 32 } else { ipv6_prefix };
            let network = IpNet::new(address, bits).map_err(|_| InvalidName::Form)?;
            ListedClient::Network(network.trunc())
        }
        _ => {
            let network = match text.parse::<IpAddr>() {
                Ok(address) => address.into(),
                Err(_) => text.parse::<IpNet>().map_err(|_| InvalidName::Form)?,
            };
            if network.addr() != network.network() {
                return Err(InvalidName::HostBits(network.network()));
            }
            ListedClient::Network(folded(network))
        }
    };
    Ok(Subject::Client(client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_writing() {
        for (text, name) in [
            ("api_key:acme", "api_key:acme"),
            ("api_key:a/b c:ü", "api_key:a/b c:ü"),
            ("user_id:42", "user_id:42"),
            ("limit:per-minute", "limit:per-minute"),
            ("limit:10.0.0.0/08", "limit:10.0.0.0/08"),
            ("client_cert:api.example.com", "client_cert:api.example.com"),
            ("user_id: 42 ", "user_id: 42 "),
            ("ip:203.0.113.7", "203.0.113.7"),
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7/32", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("ip:::ffff:203.0.113.7", "203.0.113.7"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("64:ff9b::c000:201", "192.0.2.1"),
            ("ip:64:ff9b::c000:201", "192.0.2.1"),
            ("64:ff9b::/96", "0.0.0.0/0"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/08", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8:0::7", "2001:db8::7"),
            ("ip:2001:db8::7", "2001:db8::/64"),
            ("2001:db8::/32", "2001:db8::/32"),
        ] {
            let subject = read_name(text, 64).unwrap();
            assert_eq!(subject.to_string(), name, "{text}");
            assert_eq!(read_name(name, 64).unwrap(), subject, "{text}");
        }
    }

    #[test]
    fn what_names_nobody_is_refused() {
        let long = format!("user_id:{}", "x".repeat(MAX_NAME));
        let [first, mapped, v6] =
            ["10.0.0.0", "::ffff:10.0.0.0", "2001:db8::"].map(|it| it.parse().unwrap());
        for (text, error) in [
            ("", InvalidName::Form),
            ("acme", InvalidName::Form),
            ("=", InvalidName::Form),
            ("api_key:", InvalidName::Form),
            ("user_id:", InvalidName::Form),
            ("limit:", InvalidName::Form),
            ("Limit:burst", InvalidName::Form),
            ("client_cert:", InvalidName::Form),
            ("ip:", InvalidName::Form),
            ("ip:10.0.0.0/8", InvalidName::Form),
            ("fe80::1%eth0", InvalidName::Form),
            ("10.0.0.0/33", InvalidName::Form),
            ("10.0.0.1 ", InvalidName::Form),
            ("Api_Key:acme", InvalidName::Form),
            ("api_key%3Aacme", InvalidName::Form),
            ("IP:10.0.0.1", InvalidName::Form),
            (" ip:10.0.0.1", InvalidName::Form),
            ("ip: 10.0.0.1", InvalidName::Form),
            ("010.0.0.1", InvalidName::Form),
            ("10.1", InvalidName::Form),
            ("0x0a000001", InvalidName::Form),
            ("10.0.0.0/", InvalidName::Form),
            ("10.0.0.0/+8", InvalidName::Form),
            ("10.0.0.0/255.0.0.0", InvalidName::Form),
            ("[2001:db8::7]", InvalidName::Form),
            ("\u{ff11}\u{ff10}.0.0.1", InvalidName::Form),
            ("10.1.2.3/8", InvalidName::HostBits(first)),
            ("::ffff:10.1.2.3/104", InvalidName::HostBits(mapped)),
            ("2001:db8::7/32", InvalidName::HostBits(v6)),
            ("api_key:a\nb", InvalidName::Control),
            ("user_id:\u{9b}31m", InvalidName::Control),
            (&long, InvalidName::Long),
        ] {
            assert_eq!(read_name(text, 64), Err(error), "{text:?}");
        }
        let longest = format!("user_id:{}", "x".repeat(MAX_NAME - "user_id:".len()));
        assert!(read_name(&longest, 64).is_ok());
    }
}
