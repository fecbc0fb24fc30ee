//! Callers by name: whom `api_key:acme` stands for.

use std::net::Ipv4Addr;

use super::{Caller, Client, ClientSource, Clients};
use crate::address;
use crate::claims::Claims;

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
