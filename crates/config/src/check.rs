//! From the file as written to the plan: every rule that a configuration must keep.
//!
//! All problems are collected, not only the first; a part with a problem is left out, and since a plan is made only if there is
//! none, nothing incomplete ever leaves.

mod access_log;
mod answers;
mod clients;
mod exposure;
mod fixed;
mod limits;
mod listen;
mod redis_tls;
mod routes;
mod server;
mod tls;
mod tracing;

use aws_lc_rs::digest::{SHA256, digest};
use http::StatusCode;
use tidegate_tower::{Answers, Policy};

use super::file::File;
use super::plan::{Fixed, Plan};
use super::reading::Check;
use tidegate_yaml::{ConfigError, Source, Warning};

pub(super) use clients::keys;

/// Makes the plan, or says why there is none; a reload does not change what was fixed `before`.
pub(super) fn check(
    file: &File,
    source: &Source<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    before: Option<&Fixed>,
) -> Result<(Plan, Vec<Warning>), ConfigError> {
    let mut check = Check::new(source, env);
    let plan = plan(&mut check, file);
    if let (Some(plan), Some(before)) = (&plan, before) {
        fixed::unchanged(&mut check, file, &plan.fixed, before);
    }
    match plan {
        Some(plan) if check.problems.is_empty() => Ok((plan, source.warn(check.warnings))),
        _ => Err(source.refuse(check.problems)),
    }
}

/// The parts of a plan, in the order in which they need each other.
fn plan(check: &mut Check<'_>, file: &File) -> Option<Plan> {
    let (listen, admin) = listen::addresses(check, file);
    let plans = limits::plans::plan_names(check, file);
    let callers = clients::clients(check, file, &plans);
    let (store, shared) = server::store(check, file);
    let secret = server::secret(check, file, store.as_ref());
    let (limits, mut rules) = limits::limits(check, file, shared);
    limits::plans::plans(check, file, &plans, &mut rules);
    exposure::exposure(check, file, &listen, admin.as_ref(), &rules);
    server::uncounted_gateways(check, file, &limits);
    let always = routes::always(check, file, &rules);
    let answers = Answers::default();
    let answers = answers::answers(check, file.headers.as_ref(), file.reject.as_ref(), &answers);
    let unmatched = Policy {
        route: "none".into(),
        always: always.len(),
        rules: always.into(),
        answers,
    };
    let no_route = file.unmatched.as_ref();
    let no_route = no_route.map(|answer| answers::refusal(check, answer, StatusCode::NOT_FOUND));
    let timeouts = server::timeouts(check, file);
    let routes = routes::routes(check, file, &rules, &unmatched, &callers.clients, timeouts);
    limits::unused_limits(check, file);
    limits::plans::unused_plans(check, file);
    let (admin, store, log) = (admin?, store?, access_log::log(check, file));
    let fixed = Fixed {
        store: fixed::fixed_store(check, file, &store),
        secret: secret.clone(),
        admin: admin.address,
        log: log.clone(),
    };
    Some(Plan {
        version: version(check.source.text()),
        fixed,
        listen,
        admin,
        clients: callers.clients,
        proxy_protocol: callers.proxy_protocol,
        key_files: callers.reread.key_files,
        jwks: callers.reread.jwks,
        store,
        secret,
        unmatched,
        no_route,
        limits,
        routes,
        timeouts,
        max_connections: server::max_connections(check, file),
        max_connections_per_ip: server::max_connections_per_ip(check, file),
        max_memory: server::max_memory(check, file),
        log,
        tracing: tracing::tracing(check, file),
    })
}

/// The same for the same text, in 16 hexadecimal digits.
fn version(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let start = digest.as_ref().first_chunk();
    format!(
        "{:016x}",
        start.map_or(0, |start| u64::from_be_bytes(*start))
    )
}
