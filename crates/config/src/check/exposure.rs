//! What is reachable from other machines: warns where a proxy in front is probable but not trusted, and of an open admin port.

use std::net::SocketAddr;

use tidegate_tower::Per;

use super::limits::Rules;
use crate::file::{File, SingleOr};
use crate::plan::{AdminPlan, ListenerPlan};
use crate::reading::Check;
use tidegate_yaml::{Place, Problem};

pub(crate) fn exposure(
    check: &mut Check<'_>,
    file: &File,
    listen: &[ListenerPlan],
    admin: Option<&AdminPlan>,
    rules: &Rules,
) {
    untrusted_proxy(check, file, listen, rules);
    open_admin(check, file, admin);
}

/// An ingress or a load balancer speaks plain HTTP to a gateway on all addresses. `trusted_proxies: []` says that there
/// is none.
fn untrusted_proxy(check: &mut Check<'_>, file: &File, listen: &[ListenerPlan], rules: &Rules) {
    let is_plain = |listener: &ListenerPlan| listener.tls.is_none() && is_any(listener.address);
    let counts_addresses = rules.values().flatten().any(|rule| {
        let is_address = |per: &Per| matches!(per, Per::Client | Per::Ip | Per::Network(_));
        rule.per.iter().any(is_address)
    });
    if file.trusted_proxies.is_none() && counts_addresses && listen.iter().any(is_plain) {
        let problem = Problem::new(place_of_listen(file), "`trusted_proxies` is not set");
        check.warn(problem.note(
            "behind a load balancer or an ingress, all clients would count as one address: list its networks under \
             `trusted_proxies`. If clients connect directly, write `trusted_proxies: []`",
        ));
    }
}

fn open_admin(check: &mut Check<'_>, file: &File, admin: Option<&AdminPlan>) {
    let is_open = admin.is_some_and(|admin| admin.token.is_none() && is_any(admin.address));
    if is_open {
        let place = match &file.admin {
            Some(SingleOr::Single(scalar)) => scalar.place,
            Some(SingleOr::Block(block)) => block.place,
            None => None,
        };
        let problem = Problem::new(
            place,
            "the admin port is open on all addresses, without a token",
        );
        check.warn(problem.note(
            "who reaches it can read metrics and health; clients and the configuration are served with a token only. Set \
             `token`, or listen on 127.0.0.1",
        ));
    }
}

fn is_any(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_unspecified()
}

fn place_of_listen(file: &File) -> Option<Place> {
    match file.listen.as_ref()? {
        SingleOr::Single(scalar) => scalar.place,
        SingleOr::Block(block) => block.place,
    }
}
