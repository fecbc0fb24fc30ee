//! The charges of one request, by slot, and the indices of their verdicts.

use tidegate_redis::Answer;

use super::super::call_of;
use super::{Decided, Grouping};
use crate::{Charge, Decision};

/// The charges of a request whose keys share a slot, and their indices among all.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) charges: Vec<Charge<'a>>,
    pub(super) indices: Vec<usize>,
}

impl<'a> Group<'a> {
    fn tag(&self) -> [u8; 16] {
        self.charges
            .first()
            .map_or([0; 16], |charge| charge.key.tag)
    }

    /// Copies this group's verdicts to their indices in the whole decision.
    pub(super) fn tell(&self, answer: &Answer<Decision>, decided: &mut Decided) {
        let call = call_of(answer);
        let verdicts = answer.content.verdicts.iter().zip(&answer.content.sources);
        for (at, (verdict, source)) in self.indices.iter().zip(verdicts) {
            decided.decision.verdicts[*at] = *verdict;
            decided.decision.sources[*at] = *source;
            decided.calls[*at] = Some(call);
        }
    }
}

/// Groups the charges that can be decided together.
pub(super) fn grouped<'a>(charges: &[Charge<'a>], grouping: Grouping) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (at, charge) in charges.iter().enumerate() {
        let position = groups.iter().position(|group| match grouping {
            Grouping::Whole => true,
            Grouping::BySlot => group.tag() == charge.key.tag,
            Grouping::ByKey => false,
        });
        let index = position.unwrap_or_else(|| {
            groups.push(Group {
                charges: Vec::new(),
                indices: Vec::new(),
            });
            groups.len() - 1
        });
        groups[index].charges.push(*charge);
        groups[index].indices.push(at);
    }
    groups
}
