//! Limits that are counted per client and address. Each pair of a client and an address has a budget, but many people expect one budget per
//! client or address.

use crate::yaml::Problem;
use tidegate_tower::{Per, Rule};

use super::{Rules, WrittenLimit};
use crate::check::Check;
use crate::shape::Named;
use crate::value::{Scalar, Value as _};

/// Warns of a limit per client and address, unless another limit is counted per client alone. Without such a limit, a client with more
/// addresses gets more budgets.
pub(super) fn pairs(check: &mut Check<'_>, written: Option<&Named<WrittenLimit>>, rules: &Rules) {
    let is_alone = |rule: &Rule| matches!(&*rule.per, [per] if is_identity(per));
    if rules.values().flatten().any(is_alone) {
        return;
    }
    let limits = written.into_iter().flat_map(|limits| &limits.0);
    for scalars in limits.filter_map(|(_, limit)| limit.per.as_ref()) {
        let find = |is: fn(&Per) -> bool| {
            let mut scalars = scalars.iter();
            scalars.find(|scalar| Per::read(&scalar.raw).is_ok_and(|per| is(&per)))
        };
        let address = find(|per| matches!(per, Per::Ip | Per::Network(_)));
        if let Some((Scalar { raw, place, .. }, address)) = find(is_identity).zip(address) {
            let message = format!("each pair of `{raw}` and `{}` has a budget", address.raw);
            let note = format!(
                "a client with ten addresses has ten budgets: write `per: [{raw}]`, which counts those without it by address, or add such a limit"
            );
            check.warn(Problem::new(*place, message).note(note));
        }
    }
}

const fn is_identity(per: &Per) -> bool {
    matches!(
        per,
        Per::Client | Per::ApiKey | Per::UserId | Per::ClientCert
    )
}
