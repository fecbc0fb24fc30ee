//! Checks that each route has a limit whose key contains no value that a caller can invent.

use crate::yaml::{Place, Problem};
use tidegate_identity::api_keys::UnknownKey;
use tidegate_identity::{ClientSource, Clients};
use tidegate_net::host::HostPattern;
use tidegate_tower::{Per, Rule};

use crate::check::Check;
use crate::routes::RouteSettings;

pub(crate) fn guards(
    check: &mut Check<'_>,
    routes: &[(RouteSettings, Option<Place>)],
    clients: &Clients,
) {
    let accepts_any_key = clients.sources.iter().any(|source| {
        matches!(
            source,
            ClientSource::ApiKey {
                unknown: UnknownKey::Accept,
                ..
            }
        )
    });
    for (route, place) in routes {
        let rules = &route.policy.rules;
        if accepts_any_key && !rules.iter().any(by_address) {
            let message = format!("the route `{}` is not limited by address", route.name);
            check.refuse(Problem::new(*place, message).note(
                "with `unknown: accept` every invented key is a new client: list a limit with `per: [ip]` here, or under `always`",
            ));
        }
        unguarded(check, route, *place);
        nameless(check, route, *place);
    }
}

/// Warns of a route if every limit that bounds its callers has a `per` with a value that callers can invent.
fn unguarded(check: &mut Check<'_>, route: &RouteSettings, place: Option<Place>) {
    let made_up = |rule: &Rule| rule.per.iter().find(|per| is_made_up(per, route)).cloned();
    let is_guard =
        |rule: &Rule| rule.front.is_none() && rule.bounds_callers() && made_up(rule).is_none();
    let rules = &route.policy.rules;
    let Some(per) = rules.iter().find_map(made_up) else {
        return;
    };
    if !rules.iter().any(is_guard) {
        let message = format!(
            "all that limits the route `{}` per caller is counted per {per}, which is not verified",
            route.name
        );
        check.warn(Problem::new(place, message).note(
            "every invented value gets a fresh budget: list a limit with `per: [ip]` or `per: [client]` beside it",
        ));
    }
}

/// Warns of names in `per: [path:NAME]` that the route's path does not have.
fn nameless(check: &mut Check<'_>, route: &RouteSettings, place: Option<Place>) {
    let rules = route.policy.rules.iter();
    for per in rules.flat_map(|rule| rule.per.iter()) {
        if let Per::Path(name) = per
            && !route.shape.path.names(name)
        {
            let route = &route.name;
            let message = format!("there is no {{{name}}} in the path of the route `{route}`");
            check.warn(Problem::new(place, message).note("the limit counts by address here"));
        }
    }
}

/// Whether the rule bounds requests per address. The rule's `per` may contain only addresses and the route, because any other value would
/// give one address several budgets.
fn by_address(rule: &Rule) -> bool {
    // A share bounds no address while half of its limit is left.
    rule.front.is_none()
        && !rule.limit.is_observed()
        && !rule.per.is_empty()
        && rule
            .per
            .iter()
            .all(|per| matches!(per, Per::Ip | Per::Network(_) | Per::Route))
}

/// Whether a caller of this route can send a new value of this part with every request.
fn is_made_up(per: &Per, route: &RouteSettings) -> bool {
    match per {
        Per::Header(_) | Per::Cookie(_) | Per::Path(_) | Per::Query(_) | Per::Descriptor(_) => true,
        Per::Host => route
            .shape
            .host
            .as_ref()
            .is_none_or(|host| matches!(host, HostPattern::Below(_))),
        _ => false,
    }
}
