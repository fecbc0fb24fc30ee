//! `tidegate check`: finds errors that prevent a start, and likely mistakes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use clap::Args;
use http::StatusCode;

use super::{Failure, connect};
use crate::admin::RunningConfig;
use crate::remote::overrides;
use crate::remote::port::{self, AdminPort, Call};
use crate::runtime::limit_keys::{self, LimitKeys};
use tidegate_config::{Settings, StoreSettings};
use tidegate_net::descriptors;
use tidegate_overrides::api::Shown;
use tidegate_status::document::Status;

/// The checks beside the file.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Asks the running gateway at the admin port of this file what a reload would change, and whether the gateway would refuse it.
    #[arg(long)]
    running: bool,
    /// Makes Redis decide on keys that no client uses, and connects to the servers of upstreams and key sets. Fails if one does not answer.
    #[arg(long)]
    connect: bool,
}

/// Prints the findings. Fails with status 2 if the configuration cannot start a gateway.
pub(super) fn run(config: &Path, options: &Options) -> Result<(), Failure> {
    let (mut settings, warnings) = super::load(config)?;
    let mut warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    warnings.extend(too_many_connections(&settings));
    let (mut running, mut changes) = (None, Vec::new());
    if options.running {
        let port = AdminPort::of(&settings.admin)?;
        let config: RunningConfig = port::ask(&port, Call::get("/config"))?;
        changes = changes_of_reload(&settings, &config, &port)?;
        warnings.extend(changes.iter().cloned());
        warnings.extend(untrusted_proxies(&settings, &port)?);
        running = Some(config);
    }
    let mut report = String::new();
    for warning in &warnings {
        // Writing to a String cannot fail.
        let _ = writeln!(report, "{warning}\n");
    }
    let limits = settings.limits.iter();
    let limits = limits.filter(|limit| !limit.quota().is_share());
    let _ = writeln!(
        report,
        "{}: would start, with {} and {}; {}",
        config.display(),
        counted(settings.routes.len(), "route"),
        counted(limits.count(), "limit"),
        counted(warnings.len(), "warning"),
    );
    if let Some(running) = &running {
        let _ = writeln!(report, "running: {}", running.description());
        if changes.is_empty() {
            let _ = writeln!(
                report,
                "the gateway at {} would take it by a reload, and keep every limit and override",
                settings.admin.address
            );
        }
    }
    if let Some(hint) = hint_for_root(config, is_root()) {
        let _ = writeln!(report, "{hint}");
    }
    if options.connect {
        let tried = connect::try_all(&mut settings)?;
        for one in &tried {
            let _ = writeln!(report, "{one}");
        }
        super::print(&report);
        let failed = tried.iter().filter(|one| !one.is_reached()).count();
        return match failed {
            0 => Ok(()),
            _ => Err(Failure::failed(format!(
                "{failed} of {} connections failed",
                tried.len()
            ))),
        };
    }
    if matches!(settings.store, StoreSettings::Redis(_)) {
        let _ = writeln!(
            report,
            "Redis was not tried: `tidegate check --connect` does"
        );
    }
    super::print(&report);
    Ok(())
}

/// Returns a hint if root checks the configuration of a service, because root can read files that the service's user cannot read.
fn hint_for_root(config: &Path, is_root: bool) -> Option<&'static str> {
    let is_installed = is_root && config.starts_with("/etc");
    is_installed.then_some("all files were read as root: `sudo -u USER tidegate check` reads them as the user of the service")
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Returns a warning if the process has too few file descriptors for `max_connections`.
fn too_many_connections(settings: &Settings) -> Option<String> {
    let misfit = descriptors::shares_at_start().misfit(settings.max_connections)?;
    Some(format!("warning: {misfit}"))
}

/// Returns the effects of a reload on the running gateway: limits whose clients get the full quota again, overrides that lose their effect,
/// and reasons to refuse the reload.
fn changes_of_reload(
    settings: &Settings,
    running: &RunningConfig,
    port: &AdminPort,
) -> Result<Vec<String>, Failure> {
    let mut warnings: Vec<_> = running
        .refuses(settings)
        .iter()
        .map(|key| format!("warning: a reload cannot change {key}, and it differs from what runs: the reload is refused; restart tidegate to change it"))
        .collect();
    for change in limit_keys::changes(&running.limits, &LimitKeys::of(settings)) {
        warnings.push(format!("warning: a reload starts {change}"));
    }
    let overrides = overrides::if_any(port)?;
    warnings.extend(lost_plans(settings, &overrides));
    warnings.extend(lost_numbers(settings, &overrides));
    Ok(warnings)
}

/// Returns warnings about peers that the running gateway has reported. Such a peer either sends headers of proxies, although `settings`
/// does not trust it, or is trusted and sends no header with the client's address.
fn untrusted_proxies(settings: &Settings, port: &AdminPort) -> Result<Vec<String>, Failure> {
    let call = Call::get("/status.json?series=none");
    let status: Status = match port::ask(port, call) {
        // A gateway of an older version does not serve `/status.json`.
        Err(failure) if failure.answer == Some(StatusCode::NOT_FOUND) => return Ok(Vec::new()),
        answer => answer?,
    };
    let mut warnings = Vec::new();
    for proxy in status.untrusted_proxies {
        let address = proxy.address.parse();
        let is_trusted = address.is_ok_and(|it| settings.clients.trusted.contains(it));
        if is_trusted == (proxy.header == "missing") {
            warnings.push(format!("warning: {}", crate::remote::plain(&proxy.text)));
        }
    }
    Ok(warnings)
}

/// Returns a warning for each plan that overrides name but `settings` does not define.
fn lost_plans(settings: &Settings, overrides: &[Shown]) -> Vec<String> {
    let mut lost = BTreeMap::<&str, usize>::new();
    let named = overrides.iter().filter_map(|it| it.plan.as_deref());
    for name in named.filter(|name| settings.plans.called(name).is_none()) {
        *lost.entry(name).or_default() += 1;
    }
    let warning = |(name, count)| {
        let count = counted(count, "override");
        format!(
            "warning: {count} with the plan `{name}`, which is not defined here: after a reload such an override changes nothing"
        )
    };
    lost.into_iter().map(warning).collect()
}

/// Returns a warning for each limit for which overrides have numbers that cannot be used under `settings`.
fn lost_numbers(settings: &Settings, overrides: &[Shown]) -> Vec<String> {
    let mut lost = BTreeMap::<&str, (usize, String)>::new();
    for (limit, text) in overrides
        .iter()
        .filter_map(|it| it.limits.as_ref())
        .flatten()
    {
        if let Err(why) = settings.numbers.read(limit, text) {
            lost.entry(limit).or_insert((0, why)).0 += 1;
        }
    }
    let warning = |(limit, (count, why))| {
        let count = counted(count, "override");
        let text = format!(
            "warning: {count} with numbers for the limit `{limit}`, which have no effect after a reload: {why}"
        );
        crate::remote::plain(&text)
    };
    lost.into_iter().map(warning).collect()
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_reminded_of_the_user_of_an_installed_service() {
        let hint = |path, is_root| hint_for_root(Path::new(path), is_root).is_some();
        assert!(hint("/etc/tidegate/gateway.yaml", true));
        assert!(!hint("/etc/tidegate/gateway.yaml", false));
        assert!(!hint("gateway.yaml", true));
    }
}
