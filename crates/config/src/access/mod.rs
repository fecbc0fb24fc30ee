//! Access lists: `deny`, `deny_file`, `allow`, `exempt`, `require`.

pub(crate) mod list;
pub(crate) mod networks;

use std::sync::Arc;

use crate::yaml::{Problem, Spanned};
use tidegate_identity::{Access, AccessLists, AllowList, Required};
use tidegate_tower::{Policy, Rule};

use crate::access::list::{KnownClients, Purpose, client_list};
use crate::access::networks::DenyFile;
use crate::check::Check;
use crate::value::Scalar;
use crate::value::client::ListedText;
use crate::value::word::choice;

/// The credentials that a request must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequireWord {
    Nothing,
    Credentials(Required),
}

choice!(
    RequireWord,
    "Require",
    "something that a request can be required to show",
    [
        ("none", Self::Nothing),
        ("api_key", Self::Credentials(Required::ApiKey)),
        ("jwt", Self::Credentials(Required::Token)),
        ("verified", Self::Credentials(Required::Verified)),
    ]
);

/// The access keys of the file or of a route, as they are written.
#[derive(Clone, Copy)]
pub(crate) struct WrittenAccess<'f> {
    pub(crate) exempt: Option<&'f [Scalar<ListedText>]>,
    pub(crate) deny: Option<&'f [Scalar<ListedText>]>,
    pub(crate) allow: Option<&'f Spanned<Vec<Scalar<ListedText>>>>,
    pub(crate) require: Option<&'f Scalar<RequireWord>>,
}

/// The access lists of the configuration, and its file of denied networks.
pub(crate) struct FileAccess {
    pub(crate) lists: AccessLists,
    pub(crate) deny_file: Option<DenyFile>,
}

/// Reads the access lists of the file or of a route. If `written` lacks `require`, uses `of_file`, the `require` of the file.
pub(crate) fn access_lists(
    check: &mut Check<'_>,
    written: WrittenAccess<'_>,
    sources: &KnownClients,
    of_file: Option<Required>,
) -> AccessLists {
    AccessLists {
        exempt: client_list(check, written.exempt, sources, Purpose::Exempt),
        deny: client_list(check, written.deny, sources, Purpose::Deny),
        allow: written.allow.map(|list| allow_list(check, list, sources)),
        require: match written.require {
            Some(scalar) => require(check, scalar, sources),
            None => of_file,
        },
    }
}

/// Reads `allow`, the list of the only clients that are let through. Refuses an empty list.
fn allow_list(
    check: &mut Check<'_>,
    written: &Spanned<Vec<Scalar<ListedText>>>,
    sources: &KnownClients,
) -> AllowList {
    if written.value.is_empty() {
        let problem = Problem::new(written.place, "this list is empty");
        check.refuse(problem.note("every client would get 403; without `allow` none does"));
    }
    let list = client_list(check, Some(&written.value), sources, Purpose::Allow);
    AllowList::new(list, check.source.at(written.place))
}

/// Combines the lists of the file, of a route and of the route's rules, for [`Policy::access`].
pub(crate) fn policy_access(
    file: &FileAccess,
    route: &AccessLists,
    rules: &[Rule],
    always: usize,
) -> Option<Arc<Access>> {
    let limits: Vec<_> = rules.iter().map(|rule| &rule.lists).collect();
    let denied = file.deny_file.as_ref().map(|file| &file.networks);
    Access::new(&file.lists, denied, route, &limits, always)
}

/// Warns of `exempt` on a route without limits of its own, because it exempts clients from these limits only.
pub(crate) fn exempt_from_nothing(
    check: &mut Check<'_>,
    written: WrittenAccess<'_>,
    policy: &Policy,
) {
    let first = written.exempt.and_then(<[_]>::first);
    if let Some(scalar) = first.filter(|_| policy.rules.len() == policy.always) {
        let problem = Problem::new(scalar.place, "`exempt` has no effect on this route");
        check.warn(problem.note(
            "it frees from the limits that the route lists, and there is none; what is under `always` stays charged",
        ));
    }
}

fn require(
    check: &mut Check<'_>,
    scalar: &Scalar<RequireWord>,
    sources: &KnownClients,
) -> Option<Required> {
    let RequireWord::Credentials(required) = check.read(scalar)? else {
        return None;
    };
    let (can_be_met, missing) = match required {
        Required::ApiKey => (sources.has_keys(), "no client source knows an API key"),
        Required::Token => (sources.has_tokens, "no client source reads tokens"),
        Required::Verified => (
            sources.has_keys() || sources.has_users() || sources.has_certificates(),
            "no client source verifies clients",
        ),
    };
    if !can_be_met {
        let problem = Problem::new(scalar.place, "no request can meet this");
        check.refuse(problem.note(format!("{missing}; add one under `clients`")));
    }
    Some(required)
}
