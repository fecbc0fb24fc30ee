//! Finds the limits that the descriptors of a call are charged to.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use http::Request;
use tidegate_doors::{Call, CallDescriptor, CallError, Target};
use tidegate_identity::{Caller, Claims};
use tidegate_store::{Limit, MAX_CHARGES};
use tidegate_tower::{Descriptor, QuestionPart};

use super::{Asking, DescriptorCharge, Doors};

/// The key of a descriptor's entry with the address of the client.
const REMOTE_ADDRESS: &str = "remote_address";

/// The charges of a call.
pub(super) struct Charges<'d> {
    /// The limits of each descriptor. `None` if the descriptor has no configured limits, or if the limits of another
    /// descriptor replace them.
    pub(super) targets: Vec<Option<&'d Target>>,
    /// The charges of descriptors that have a cost.
    pub(super) charged: Vec<DescriptorCharge>,
    /// The charges that descriptors only ask about.
    pub(super) looked_at: Vec<DescriptorCharge>,
    /// The caller, for access lists and logs.
    pub(super) caller: Caller,
    /// The indices of descriptors whose units are held until a later call gives some of them back.
    pub(super) holding: Vec<usize>,
    /// The indices of descriptors that give units back.
    pub(super) refunding: Vec<usize>,
    /// The units that the call gives back, by the limit's name.
    pub(super) given_back: HashMap<&'d str, u64>,
}

impl<'d> Charges<'d> {
    /// Finds the charges of a call.
    pub(super) fn of(
        doors: &'d Doors,
        asking: &Asking<'_>,
        call: &Call,
    ) -> Result<Self, CallError> {
        let targets = targets(doors, call);
        let rules = &doors.limits.policy().rules;
        let caller = |address: Option<IpAddr>| {
            let (claims, asker) = (Claims::default(), asking.peer.ip());
            let clients = &asking.stack.clients;
            let caller = Caller::introduced(clients, None, [], address, claims, asker);
            caller.map_err(|_| CallError::Unavailable("the caller has no address"))
        };
        let mut named: Option<Caller> = None;
        let (mut charged, mut looked_at) = (Vec::new(), Vec::new());
        let (mut holding, mut refunding) = (Vec::new(), Vec::new());
        let mut given_back = HashMap::new();
        for (index, (descriptor, target)) in call.descriptors.iter().zip(&targets).enumerate() {
            let Some(target) = target.filter(|target| !target.rules.is_empty()) else {
                continue;
            };
            if descriptor.is_refund {
                let held = target.rules.iter().map(|rule| &rules[*rule]);
                for rule in held.filter(|rule| rule.can_hold()) {
                    let units = given_back.entry(rule.limit.name()).or_insert(u64::MAX);
                    // Holds have the name of their limit alone, so the smallest refund of the limit counts.
                    *units = descriptor.hits.min(*units);
                }
                refunding.push(index);
                continue;
            }
            if is_closed(descriptor) {
                continue;
            }
            let own = caller(remote_address(descriptor))?;
            let mut request = Request::new(());
            let entries = Descriptor(descriptor.entries.clone());
            request.extensions_mut().insert(entries);
            let request = Arc::new(request);
            for rule in &target.rules {
                let limit = &rules[*rule].limit;
                let holds = descriptor.hits > 0 && rules[*rule].can_hold();
                if holds && holding.last() != Some(&index) {
                    holding.push(index);
                }
                // A limit of the caller is charged beside the configured limit, so it can only lower the number.
                let lower = lowered(descriptor, limit);
                for limit in std::iter::once(None).chain(lower.map(Some)) {
                    let part = QuestionPart {
                        rule: *rule,
                        caller: Some(own.clone()),
                        request: request.clone(),
                        cost: Some(descriptor.hits.max(1)),
                        limit,
                    };
                    match descriptor.hits {
                        0 => looked_at.push((index, part)),
                        _ => charged.push((index, part)),
                    }
                }
            }
            // Access lists apply to the client's address, which any descriptor may have.
            if named.as_ref().is_none_or(|named| named.origin.is_none()) {
                named = Some(own);
            }
        }
        if charged.len() + looked_at.len() > MAX_CHARGES {
            let text =
                format!("the descriptors of a call are charged to at most {MAX_CHARGES} limits");
            return Err(CallError::Invalid(text));
        }
        Ok(Self {
            targets,
            charged,
            looked_at,
            caller: match named {
                Some(caller) => caller,
                None => caller(None)?,
            },
            holding,
            refunding,
            given_back,
        })
    }
}

/// Returns the limits of each descriptor. Leaves out limits that other descriptors replace.
fn targets<'d>(doors: &'d Doors, call: &Call) -> Vec<Option<&'d Target>> {
    let domain = doors.domains.of(&call.domain);
    let unmatched = doors.unmatched.get(&*call.domain);
    let unmatched = unmatched.unwrap_or(&doors.unknown_domain);
    let targets = call.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter();
        let entries: Vec<_> = entries.map(|(key, value)| (&**key, &**value)).collect();
        let target = domain.and_then(|domain| domain.target(&entries));
        if target.is_none() {
            unmatched.inc();
        }
        target
    });
    let mut targets: Vec<Option<&Target>> = targets.collect();
    let replacing = targets.iter().flatten();
    let replaced = replacing.flat_map(|target| target.replaces.iter().map(|name| &**name));
    let replaced: HashSet<&str> = replaced.collect();
    for target in &mut targets {
        let name = target.and_then(|target| target.name.as_deref());
        if name.is_some_and(|name| replaced.contains(name)) {
            *target = None;
        }
    }
    targets
}

/// Whether a descriptor sets itself a limit of 0, which refuses without a charge.
pub(super) fn is_closed(descriptor: &CallDescriptor) -> bool {
    matches!(descriptor.lower, Some((0, _))) && !descriptor.is_refund
}

/// Returns the limit that a descriptor sets for itself, if its number is smaller and its time is not shorter.
fn lowered(descriptor: &CallDescriptor, limit: &Limit) -> Option<Arc<Limit>> {
    let (units, seconds) = descriptor.lower?;
    let quota = limit.quota();
    let is_lower = units < quota.capacity() && seconds.saturating_mul(1_000_000) >= quota.period();
    let quota = quota.with_capacity(units).ok().filter(|_| is_lower)?;
    Some(Arc::new(limit.with_quota(quota).of_caller()))
}

/// Returns the address in the entry `remote_address` of a descriptor.
fn remote_address(descriptor: &CallDescriptor) -> Option<IpAddr> {
    let mut entries = descriptor.entries.iter();
    let (_, value) = entries.find(|(key, _)| **key == *REMOTE_ADDRESS)?;
    value.parse().ok()
}
