//! Members of plans: clients that have a plan because the configuration lists them, or the network they call from.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Caller, Client};
use crate::ClientPlan;
use crate::client_list::ListedClient;
use crate::networks::NetworkTable;

/// The members of all plans. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PlanMembers(Option<Arc<Members>>);

#[derive(Debug, Default)]
struct Members {
    networks: NetworkTable<ClientPlan>,
    api_keys: HashMap<Arc<str>, ClientPlan>,
    user_ids: HashMap<Arc<str>, ClientPlan>,
    certificates: HashMap<Arc<str>, ClientPlan>,
}

impl PlanMembers {
    /// Whether addresses are members.
    pub fn has_networks(&self) -> bool {
        let members = self.0.as_ref();
        members.is_some_and(|members| !members.networks.is_empty())
    }

    /// These members, each of one plan. If a member is listed twice, the first plan counts.
    pub fn new(listed: impl IntoIterator<Item = (ListedClient, ClientPlan)>) -> Self {
        let (mut members, mut is_empty) = (Members::default(), true);
        for (member, plan) in listed {
            is_empty = false;
            match member {
                ListedClient::Network(network) => {
                    members.networks.insert(network, plan);
                }
                ListedClient::ApiKey(name) => {
                    members.api_keys.entry(name).or_insert(plan);
                }
                ListedClient::UserId(id) => {
                    members.user_ids.entry(id).or_insert(plan);
                }
                ListedClient::Certificate(name) => {
                    members.certificates.entry(name).or_insert(plan);
                }
            }
        }
        Self((!is_empty).then(|| Arc::new(members)))
    }

    /// Gives a caller the plan of which it is a member: by the client's name, else by the longest network. A plan that a key or a token
    /// names counts before, also if that is not defined.
    pub(super) fn join(&self, caller: &mut Caller) {
        let Some(members) = &self.0 else {
            return;
        };
        if caller.plan.is_some() || caller.unknown_plan.is_some() || caller.refused.is_some() {
            return;
        }
        let by_name = match &caller.client {
            Client::ApiKey(name) => members.api_keys.get(&**name),
            Client::UserId(id) => members.user_ids.get(&**id),
            Client::Certificate(name) => members.certificates.get(&**name),
            Client::UnlistedKey(_) | Client::Ip(_) => None,
        };
        let by_network = || Some(members.networks.find(caller.origin)?.1);
        caller.plan = by_name.or_else(by_network).cloned();
    }
}
