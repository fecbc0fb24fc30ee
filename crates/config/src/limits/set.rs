//! Numbers that overrides set for limits at run time. The numbers have the form of a plan's quota, without the name of the algorithm.

use std::sync::Arc;

use crate::yaml::{Problem, Source};
use tidegate_store::Limit;
use tidegate_tower::{NumberReader, Rule};

use crate::check::Check;
use crate::limits::Rules;
use crate::limits::plans::{WrittenQuota, plan_quota};
use crate::limits::share::divides;
use crate::value::Scalar;

/// Returns the reader of numbers for the limits of a configuration.
pub(crate) fn numbers(rules: Rules) -> NumberReader {
    NumberReader::new(move |name, text| match rules.get(name) {
        Some(Some(rule)) => {
            let read = read(rule, text).map_err(|problems| {
                let problems: Vec<_> = problems.iter().map(Problem::in_one_line).collect();
                problems.join("; ")
            });
            let divided = read.and_then(|limit| {
                limit.iter().try_for_each(|it| divides(rule, *it.quota()))?;
                Ok(limit)
            });
            divided.map_err(|problems| format!("the numbers for `{name}`: {problems}"))
        }
        _ => {
            let mut names: Vec<_> = rules.keys().collect();
            names.sort();
            let problem = Problem::new(None, format!("there is no limit `{name}`"));
            Err(problem.choices(name, names).in_one_line())
        }
    })
}

fn read(rule: &Rule, text: &str) -> Result<Option<Arc<Limit>>, Vec<Problem>> {
    let quota = rule.limit.quota();
    let algorithm = match quota.calendar() {
        Some(_) => "fixed_window",
        None => quota.algorithm(),
    };
    let name = rule.limit.name();
    let text = match text.trim() {
        "unlimited" => "unlimited".to_owned(),
        // The numbers stand on their own line. Otherwise a comment in them would hide the closing brackets.
        numbers => format!("{{{algorithm}: {{\n{numbers}\n}}}}"),
    };
    let source = Source::new(name, &text);
    let written: WrittenQuota =
        crate::yaml::read(&source, |_, _| None).map_err(|problem| vec![problem])?;
    // The numbers of an override cannot use variables, so no variable has a value here.
    let mut check = Check::new(&source, &|_| None);
    let limit_name = Scalar::new(name.to_owned(), None);
    let quota = plan_quota(&mut check, "an override", &limit_name, &written, rule, None);
    quota
        .filter(|_| check.problems.is_empty())
        // Also numbers that are equal to the limit's own have a budget of their own, because the limit's own may change at run time.
        .map(|quota| quota.map(|quota| Arc::new(rule.limit.with_quota(quota).of_override())))
        .ok_or(check.problems)
}
