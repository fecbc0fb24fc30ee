//! Members of plans: clients that have a plan because the configuration lists them or their network.

use std::sync::Arc;

use super::Caller;
use crate::ClientPlan;
use crate::client_table::{ClientTable, ListedClient};

/// The members of all plans. A clone is cheap.
#[derive(Clone, Debug, Default)]
pub struct PlanMembers(Option<Arc<ClientTable<ClientPlan>>>);

impl PlanMembers {
    /// Whether any plan has networks as members.
    pub fn has_networks(&self) -> bool {
        let members = self.0.as_ref();
        members.is_some_and(|members| members.has_networks())
    }

    /// Makes a table of these members, each with its plan. If a member is listed twice, its first plan counts.
    pub fn new(listed: impl IntoIterator<Item = (ListedClient, ClientPlan)>) -> Self {
        let mut members = ClientTable::default();
        for (member, plan) in listed {
            members.insert(member, plan);
        }
        Self((!members.is_empty()).then(|| Arc::new(members)))
    }

    /// Gives a caller the plan that lists the client's name as a member. If no plan lists the name, gives the plan of the network with the
    /// longest prefix that contains the caller's address. If the caller's key or token names a plan, this plan takes precedence, even if
    /// the configuration does not define it. A caller with refused credentials gets no plan.
    pub(super) fn join(&self, caller: &mut Caller) {
        let Some(members) = &self.0 else {
            return;
        };
        if caller.plan.is_some() || caller.unknown_plan.is_some() || caller.refused.is_some() {
            return;
        }
        let by_network = || Some(members.at(caller.origin?)?.1);
        let plan = caller.client.value_in(members).or_else(by_network);
        caller.plan = plan.cloned();
    }
}
