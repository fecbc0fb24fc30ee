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
        "{}: would start, with {} routes and {} limits; {} warnings",
        config.display(),
        plan.routes.len(),
        plan.limits.len(),
        warnings.len(),
    );
    super::print(&report);
    Ok(())
}
