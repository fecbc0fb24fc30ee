//! Makes callers from names such as `api_key:acme`.

use std::net::IpAddr;

use super::{Caller, Client, ClientSource, Clients, Credentials};
use crate::Claims;
use crate::address;
use crate::api_keys::UnknownKey;
use crate::jwt::Tokens;
use crate::plan::ClientPlan;

/// The reason why a name identifies no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownClient {
    /// The name does not have the form of a client's name.
    #[error(
        "a client is written api_key:NAME, user_id:ID, client_cert:NAME, ip:ADDRESS or an address"
    )]
    Form,
    /// The text after `ip:` is not an address.
    #[error("what follows ip: is not an IPv4 or IPv6 address")]
    Address,
    /// No listed API key has this name.
    #[error("no listed API key is called so; keys that are not listed cannot be looked up by name")]
    ApiKey,
    /// No client source of the configuration names users.
    #[error("no user has a budget here: nothing under `clients` names users")]
    UserId,
    /// No client source of the configuration reads certificates.
    #[error("no certificate has a budget here: nothing under `clients` reads certificates")]
    Certificate,
}

impl Caller {
    /// Returns the caller that a client's name identifies. The caller lacks data that only a request has: for example, the caller for
    /// `api_key:acme` has no address. `Rule::budget_of` of tidegate-tower accepts callers that lack such data.
    ///
    /// # Errors
    ///
    /// No client can have the name.
    pub fn named(clients: &Clients, name: &str) -> Result<Self, UnknownClient> {
        let mut caller = Self::called(clients, name)?;
        clients.members.join(&mut caller);
        Ok(caller)
    }

    /// Works like [`named`](Self::named), but does not apply the plans of members.
    fn called(clients: &Clients, name: &str) -> Result<Self, UnknownClient> {
        let at = |address| Self::at(address::network(address, 128), clients.ipv6_prefix);
        if let Ok(address) = name.parse() {
            return Ok(at(address));
        }
        let (kind, value) = name.split_once(':').ok_or(UnknownClient::Form)?;
        if value.is_empty() {
            return Err(UnknownClient::Form);
        }
        match kind {
            "api_key" => {
                let listed = clients.api_keys().find_map(|keys| keys.called(value));
                let listed = listed.ok_or(UnknownClient::ApiKey)?;
                Ok(Self {
                    plan: listed.plan,
                    ..Self::showing(Client::ApiKey(listed.name))
                })
            }
            "user_id" if clients.has_user_ids() || clients.has_tokens() => {
                Ok(Self::showing(Client::UserId(value.into())))
            }
            "user_id" => Err(UnknownClient::UserId),
            "client_cert" if clients.read_certificates() => {
                Ok(Self::showing(Client::Certificate(value.into())))
            }
            "client_cert" => Err(UnknownClient::Certificate),
            "ip" => value.parse().map(at).map_err(|_| UnknownClient::Address),
            _ => Err(UnknownClient::Form),
        }
    }

    /// Returns the caller of a logged request: the client with this `name`, at the address `origin`. `plan` is the plan in the log. Only a
    /// user of tokens gets this plan, because the user's token may have named it.
    ///
    /// # Errors
    ///
    /// No client can have the name.
    pub fn logged(
        clients: &Clients,
        name: &str,
        origin: IpAddr,
        plan: Option<ClientPlan>,
    ) -> Result<Self, UnknownClient> {
        let at = Self::at(address::network(origin, 128), clients.ipv6_prefix);
        let mut caller = match unlisted_key(name) {
            Some(client) if clients.sources.iter().any(accepts_unlisted) => Self {
                unknown_key: true,
                ..Self::showing(client)
            },
            _ => Self::called(clients, name)?,
        };
        if let Client::Ip(_) = caller.client {
            caller = at;
        } else {
            (caller.ip, caller.origin) = (at.ip, at.origin);
        }
        let mut of_user = None;
        if let Client::UserId(_) = caller.client
            && clients.has_tokens()
        {
            caller.has_token = !clients.has_user_ids();
            // A plan named by a token takes precedence over a plan that lists the client under `members`. If tokens name no plans, the
            // log's plan comes from a former membership. So a present membership takes precedence over the log's plan.
            if clients.tokens().any(Tokens::tell_plans) {
                caller.plan = plan.clone();
            }
            of_user = plan;
        }
        clients.members.join(&mut caller);
        caller.plan = caller.plan.or(of_user);
        Ok(caller)
    }

    /// Returns the caller of a question by another program, which has verified all names itself: the client with this `name`, the `others`
    /// of its names, its address and its claims. If the program names neither a client nor an address, logs show the address of the program,
    /// `asker`. Access lists do not apply to `asker`.
    ///
    /// # Errors
    ///
    /// A client source of the configuration cannot name such a client.
    pub fn introduced<'n>(
        clients: &Clients,
        name: Option<&str>,
        others: impl IntoIterator<Item = &'n str>,
        address: Option<IpAddr>,
        claims: Claims,
        asker: IpAddr,
    ) -> Result<Self, UnknownClient> {
        let at =
            address.map(|address| Self::at(address::network(address, 128), clients.ipv6_prefix));
        let others: Vec<&str> = others.into_iter().collect();
        // Without `name`, the first source with a name among `others` names the client.
        let name = name.or_else(|| {
            let mut kinds = clients.sources.iter().filter_map(ClientSource::kind);
            kinds.find_map(|kind| others.iter().copied().find(|name| name.starts_with(kind)))
        });
        let mut caller = match (name, at) {
            (Some(name), at) => {
                let mut caller = Self::called(clients, name)?;
                if let (false, Some(at)) = (matches!(caller.client, Client::Ip(_)), at) {
                    (caller.ip, caller.origin) = (at.ip, at.origin);
                }
                caller
            }
            (None, Some(at)) => at,
            (None, None) => {
                let asker = Client::Ip(asker);
                Self::only(asker.clone(), asker, None)
            }
        };
        for name in others {
            let other = Self::called(clients, name)?;
            let names = [other.api_key, other.user_id, other.client_cert];
            let own = [
                &mut caller.api_key,
                &mut caller.user_id,
                &mut caller.client_cert,
            ];
            for (own, name) in own.into_iter().zip(names) {
                *own = name.or(own.take());
            }
        }
        caller.claims = claims;
        // The program has verified the user, as a token would.
        caller.has_token |= caller.user_id.is_some() && clients.has_tokens();
        clients.members.join(&mut caller);
        Ok(caller)
    }

    /// Returns this caller with its credentials refused, for a logged request whose credentials were refused.
    #[must_use]
    pub fn with_refused(mut self, credentials: Credentials) -> Self {
        self.refuse(credentials);
        self
    }

    /// Makes a caller that has shown the name of this client, and no other name or address.
    fn showing(client: Client) -> Self {
        let mut caller = Self::only(client.clone(), client.clone(), None);
        let name = match client {
            Client::UserId(_) => &mut caller.user_id,
            Client::Certificate(_) => &mut caller.client_cert,
            _ => &mut caller.api_key,
        };
        *name = Some(client);
        caller
    }
}

impl ClientSource {
    /// Returns the beginning of the names of the source's clients. `None` for addresses.
    const fn kind(&self) -> Option<&'static str> {
        match self {
            Self::ApiKey { .. } => Some("api_key:"),
            Self::UserId { .. } | Self::Token(_) => Some("user_id:"),
            Self::Certificate(_) => Some("client_cert:"),
            Self::Ip => None,
        }
    }
}

/// Returns the client with this `name` if the name is for an unlisted API key. The name contains only the first eight bytes of the key's
/// hash. The other eight bytes of the returned hash are 0.
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
    use crate::jwt::{InvalidToken, Signature, TokenKeys, TokenRules, Tokens};
    use crate::{ClientPlans, ListedClient, PlanMembers};

    /// Makes clients with a token source. `plan_claim` is the claim with the user's plan.
    fn of_tokens(plan_claim: Option<&str>) -> Clients {
        let rules = TokenRules {
            header: http::header::AUTHORIZATION,
            signatures: vec![Signature::Hs256],
            issuer: None,
            audience: None,
            leeway: 60,
            claim: "sub".to_owned(),
            plan_claim: plan_claim.map(str::to_owned),
            claims: Default::default(),
            plans: ClientPlans::default(),
            invalid: InvalidToken::Reject,
        };
        let keys = TokenKeys::from_file(&rules.signatures, b"secret").unwrap();
        let tokens = ClientSource::Token(Tokens::new(rules, keys).into());
        Clients {
            sources: vec![tokens, ClientSource::Ip],
            ..Clients::default()
        }
    }

    #[test]
    fn a_logged_client_has_its_name_and_its_address() {
        let clients = Clients {
            sources: vec![
                ClientSource::UserId {
                    header: http::HeaderName::from_static("x-user-id"),
                },
                ClientSource::Ip,
            ],
            ..Clients::default()
        };
        let origin = "2001:db8:1:2:3::4".parse().unwrap();
        let caller = Caller::logged(&clients, "user_id:42", origin, None).unwrap();
        assert_eq!(caller.client.to_string(), "user_id:42");
        assert_eq!(caller.user_id, Some(caller.client.clone()));
        assert_eq!(caller.ip.to_string(), "ip:2001:db8:1:2::");
        assert_eq!(caller.origin, Some(origin));
        let caller = Caller::logged(&clients, "ip:2001:db8:1:2::", origin, None).unwrap();
        assert_eq!(caller.client, caller.ip);
        assert_eq!(caller.origin, Some(origin));
        for (name, error) in [
            ("api_key:acme", UnknownClient::ApiKey),
            ("api_key:unlisted-00112233aabbccdd", UnknownClient::ApiKey),
            ("client_cert:a", UnknownClient::Certificate),
        ] {
            let caller = Caller::logged(&clients, name, origin, None);
            assert_eq!(caller.map(|caller| caller.client), Err(error), "{name}");
        }
    }

    /// A caller that was made from a name has no address, so no network contains the caller, not even 0.0.0.0/8.
    #[test]
    fn who_is_known_by_name_alone_is_in_no_network() {
        let plans = ClientPlans::new(["office"]);
        let office = ListedClient::Network("0.0.0.0/8".parse().unwrap());
        let mut clients = of_tokens(None);
        clients.members = PlanMembers::new([(office, plans.called("office").unwrap())]);
        let plan = |name| Caller::named(&clients, name).unwrap().plan;
        assert_eq!(plan("user_id:42"), None);
        assert_eq!(plan("ip:0.0.0.7"), plans.called("office"));
    }

    /// If tokens name plans, the plan in a log takes precedence over a membership, like the plan in the token itself.
    #[test]
    fn the_plan_of_a_log_counts_as_that_of_a_token() {
        let plans = ClientPlans::new(["of_token", "of_member"]);
        let user = || ListedClient::UserId("42".into());
        let [of_token, of_member] = ["of_token", "of_member"].map(|name| plans.called(name));
        for (claim, logged, expected) in [
            (Some("plan"), &of_token, &of_token),
            (Some("plan"), &None, &of_member),
            // Tokens name no plan, so the plan of the log comes from a former membership.
            (None, &of_token, &of_member),
        ] {
            let mut clients = of_tokens(claim);
            clients.members = PlanMembers::new([(user(), of_member.clone().unwrap())]);
            let origin = "192.0.2.1".parse().unwrap();
            let caller = Caller::logged(&clients, "user_id:42", origin, logged.clone()).unwrap();
            assert_eq!(caller.plan, *expected, "{claim:?} {logged:?}");
        }
    }
}
