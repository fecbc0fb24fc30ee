//! `tidegate check`: would it start, and what looks wrong.

use std::fmt::Write as _;
use std::path::Path;

use super::Failure;

/// Prints what was found; fails with status 2 if the configuration would not start.
pub(super) fn run(config: &Path) -> Result<(), Failure> {
    let (plan, warnings) = super::load(config)?;
    let mut report = String::new();
    for warning in &warnings {
        // Writing to a String cannot fail.
        let _ = writeln!(report, "{warning}\n");
    }
    let _ = writeln!(
        report,
        "{}: would start, with {} and {}; {}",
        config.display(),
        counted(plan.routes.len(), "route"),
        counted(plan.limits.len(), "limit"),
        counted(warnings.len(), "warning"),
    );
    super::print(&report);
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
