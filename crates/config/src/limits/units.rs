//! Numbers of units: counts, and numbers in JSON with their weights.

use crate::yaml::Problem;
use tidegate_tower::{JsonPath, Weight, WeightedPath};

use crate::check::Check;
use crate::shape::{Named, SingleOr};
use crate::value::Scalar;
use crate::value::number::Count;

/// The most paths of one sum.
const MAX_NUMBERS: usize = 8;

/// A path to a number in JSON, or several paths with their weights.
pub(crate) type WrittenNumbers = SingleOr<JsonPath, Named<Scalar<Weight>, JsonPath>>;

/// Reads paths to numbers, with their weights. Refuses an empty map, and more paths than [`MAX_NUMBERS`].
pub(super) fn numbers(
    check: &mut Check<'_>,
    written: &WrittenNumbers,
) -> Option<Box<[WeightedPath]>> {
    let paths = match written {
        SingleOr::Single(path) => return Some([check.read(path)?.into()].into()),
        SingleOr::Block(block) => block,
    };
    let Named(entries) = &paths.value;
    if entries.is_empty() || entries.len() > MAX_NUMBERS {
        let message = format!("1 to {MAX_NUMBERS} paths are allowed here");
        check.refuse(Problem::new(paths.place, message));
    }
    let numbers: Vec<_> = entries
        .iter()
        .map(|(path, weight)| (check.read(path), check.read(weight)))
        .collect();
    let numbers = numbers.into_iter().map(|(path, weight)| {
        let (path, weight) = (path?, weight?);
        Some(WeightedPath { path, weight })
    });
    numbers.collect()
}

/// Reads a count. Refuses 0.
pub(super) fn at_least_1(check: &mut Check<'_>, scalar: &Scalar<Count>, what: &str) -> Option<u64> {
    let Count(number) = check.read(scalar)?;
    if number == 0 {
        let message = format!("`{what}` must be at least 1");
        check.refuse(Problem::new(scalar.place, message));
        return None;
    }
    Some(number)
}
