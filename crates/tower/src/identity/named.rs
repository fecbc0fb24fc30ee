//! Callers by name: whom `api_key:acme` stands for.

use std::net::{IpAddr, Ipv4Addr};

use super::{Caller, Client, ClientSource, Clients, Credentials};
use crate::address;
use crate::api_keys::UnknownKey;
use crate::claims::Claims;
use crate::plan::ClientPlan;

/// Why a name stands for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownClient {
    /// It is not written as clients are.
    #[error("a client is written api_key:NAME, user_id:ID, client_cert:NAME or ip:ADDRESS")]
    Form,
    /// What follows `ip:` is no address.
    #[error("what follows ip: is not an IPv4 or IPv6 address")]
    Address,
    /// No listed API key is called so.
    #[error("no listed API key is called so; keys that are not listed cannot be looked up by name")]
    ApiKey,
    /// No source of clients names users.
    #[error("no user has a budget here: nothing under `clients` names users")]
    UserId,
    /// No source of clients reads certificates.
    #[error("no certificate has a budget here: nothing under `clients` reads certificates")]
    Certificate,
}

impl Caller {
    /// The caller that a client's name stands for, as requests of theirs would be named. What the name does not tell, such
    /// as the address of `api_key:acme`, is not known: see [`Rule::budget_of`].
    ///
    /// # Errors
    ///
    /// The name is not one that a client can have.
    pub fn named(clients: &Clients, name: &str) -> Result<Self, UnknownClient> {
        let (kind, value) = name.split_once(':').ok_or(UnknownClient::Form)?;
        if value.is_empty() {
            return Err(UnknownClient::Form);
        }
        let mut sources = clients.sources.iter();
        let mut caller = match kind {
            "api_key" => {
                let listed = sources.find_map(|source| match source {
                    ClientSource::ApiKey { keys, .. } => keys.called(value),
                    _ => None,
                });
                let listed = listed.ok_or(UnknownClient::ApiKey)?;
                let client = Client::ApiKey(listed.name);
                Self {
                    api_key: Some(client.clone()),
                    plan: listed.plan,
                    ..Self::only(client)
                }
            }
            "user_id" => {
                let names_users = |source: &ClientSource| {
                    matches!(source, ClientSource::UserId { .. } | ClientSource::Token(_))
                };
                if !sources.any(names_users) {
                    return Err(UnknownClient::UserId);
                }
                let client = Client::UserId(value.into());
                Self {
                    user_id: Some(client.clone()),
                    ..Self::only(client)
                }
            }
            "client_cert" => {
                if !clients.read_certificates() {
                    return Err(UnknownClient::Certificate);
                }
                let client = Client::Certificate(value.into());
                Self {
                    client_cert: Some(client.clone()),
                    ..Self::only(client)
                }
            }
            "ip" => {
                let address = value.parse().map_err(|_| UnknownClient::Address)?;
                Self::at(address::network(address, 128), clients.ipv6_prefix)
            }
            _ => return Err(UnknownClient::Form),
        };
        clients.members.join(&mut caller);
        Ok(caller)
    }

    /// The caller that a log names, as [`named`](Self::named), who called from this address. The log may also tell the plan; it counts
    /// for a user who has none by the configuration, as tokens name plans.
    ///
    /// # Errors
    ///
    /// The name is not one that a client can have.
    pub fn logged(
        clients: &Clients,
        name: &str,
        origin: IpAddr,
        plan: Option<ClientPlan>,
    ) -> Result<Self, UnknownClient> {
        let at = Self::at(address::network(origin, 128), clients.ipv6_prefix);
        let has = |is: fn(&ClientSource) -> bool| clients.sources.iter().any(is);
        let mut caller = match unlisted_key(name) {
            Some(client) if has(accepts_unlisted) => Self {
                api_key: Some(client.clone()),
                unknown_key: true,
                ..Self::only(client)
            },
            _ => Self::named(clients, name)?,
        };
        if let Client::Ip(_) = caller.client {
            caller = at;
        } else {
            (caller.ip, caller.origin) = (at.ip, at.origin);
        }
        if let Client::UserId(_) = caller.client
            && has(|source| matches!(source, ClientSource::Token(_)))
        {
            caller.has_token = !has(|source| matches!(source, ClientSource::UserId { .. }));
            caller.plan = caller.plan.or(plan);
        }
        clients.members.join(&mut caller);
        Ok(caller)
    }

    /// Refuses the credentials of this caller, as a log says that they were.
    #[must_use]
    pub fn with_refused(mut self, credentials: Credentials) -> Self {
        self.refuse(credentials);
        self
    }

    /// Somebody who is this client and, as far as is known, nothing else.
    fn only(client: Client) -> Self {
        Self {
            ip: client.clone(),
            origin: Ipv4Addr::UNSPECIFIED.into(),
            has_token: false,
            client,
            named_by: None,
            plan: None,
            unknown_plan: None,
            api_key: None,
            user_id: None,
            client_cert: None,
            claims: Claims::default(),
            unknown_key: false,
            refused: None,
        }
    }
}

/// The client that an unlisted API key is called by. The rest of its hash is not known; what is known tells such clients apart.
fn unlisted_key(name: &str) -> Option<Client> {
    let digits = name.strip_prefix("api_key:unlisted-")?;
    let start = u64::from_str_radix(digits, 16).ok()?;
    let mut hash = [0; 16];
    hash[..8].copy_from_slice(&start.to_be_bytes());
    Some(Client::UnlistedKey(hash))
}

const fn accepts_unlisted(source: &ClientSource) -> bool {
    matches!(
        source,
        ClientSource::ApiKey {
            unknown: UnknownKey::Accept,
            ..
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AddressFrom, TrustedProxies};

    #[test]
    fn a_logged_client_has_its_name_and_its_address() {
        let clients = Clients {
            sources: vec![
                ClientSource::UserId {
                    header: http::HeaderName::from_static("x-user-id"),
                },
                ClientSource::Ip,
            ],
            trusted: TrustedProxies::default(),
            address_from: AddressFrom::default(),
            ipv6_prefix: 64,
            forward_client: None,
            members: Default::default(),
        };
        let origin = "2001:db8:1:2:3::4".parse().unwrap();
        let caller = Caller::logged(&clients, "user_id:42", origin, None).unwrap();
        assert_eq!(caller.client.to_string(), "user_id:42");
        assert_eq!(caller.user_id, Some(caller.client.clone()));
        assert_eq!(caller.ip.to_string(), "ip:2001:db8:1:2::");
        assert_eq!(caller.origin, origin);
        let caller = Caller::logged(&clients, "ip:2001:db8:1:2::", origin, None).unwrap();
        assert_eq!(caller.client, caller.ip);
        assert_eq!(caller.origin, origin);
        for (name, error) in [
            ("api_key:acme", UnknownClient::ApiKey),
            ("api_key:unlisted-00112233aabbccdd", UnknownClient::ApiKey),
            ("client_cert:a", UnknownClient::Certificate),
        ] {
            let found = Caller::logged(&clients, name, origin, None);
            assert_eq!(found.map(|caller| caller.client), Err(error), "{name}");
        }
    }
}
