//! What a route does with a request, in lines.

use std::fmt::{Result, Write as _};

use http::{HeaderName, Method};

use tidegate_config::routes::{
    CorsPlan, HeaderEdits, HttpsPort, Origins, RouteEdits, RoutePlan, UpstreamHost,
};
use tidegate_upstream::UpstreamPlan;

/// Describes a route.
pub(super) fn describe(text: &mut String, route: &RoutePlan, is_preflight: bool) -> Result {
    let case = match route.path.ignores_case() {
        true => ", in letters of either case",
        false => "",
    };
    writeln!(text, "route:    {}{case}", route.name)?;
    upstream(text, &route.upstream)?;
    if !route.upgrades.is_empty() {
        let upgrades = route.upgrades.join(", ");
        writeln!(text, "upgrade:  to {upgrades} is allowed")?;
    }
    if let Some(retries) = &route.retries {
        let (attempts, budget) = (retries.attempts, retries.budget);
        writeln!(
            text,
            "retries:  up to {attempts}, of GET, HEAD and OPTIONS, within {budget}% of the requests"
        )?;
    }
    edits(text, &route.edits)?;
    if let Some(plan) = &route.cors {
        cors(text, plan)?;
    }
    if is_preflight {
        writeln!(
            text,
            "answer:   204 by the gateway itself, for it is a CORS preflight"
        )?;
    }
    Ok(())
}

fn cors(text: &mut String, plan: &CorsPlan) -> Result {
    let origins = match &plan.origins {
        Origins::Any => "any origin".to_owned(),
        Origins::Listed(listed) => {
            let listed: Vec<_> = listed.iter().map(ToString::to_string).collect();
            listed.join(", ")
        }
    };
    let methods: Vec<_> = plan.methods.iter().map(Method::as_str).collect();
    let with = if plan.credentials {
        ", with credentials"
    } else {
        ""
    };
    writeln!(
        text,
        "cors:     pages of {origins} may send {}{with}",
        methods.join(", ")
    )
}

fn upstream(text: &mut String, upstream: &UpstreamPlan) -> Result {
    let servers = upstream.servers.iter().map(|server| match server.weight {
        1 => server.to_string(),
        weight => format!("{server} (weight {weight})"),
    });
    let servers: Vec<_> = servers.collect();
    writeln!(text, "upstream: {}", servers.join(", "))
}

fn edits(text: &mut String, edits: &RouteEdits) -> Result {
    match edits.redirect {
        Some(HttpsPort(443)) => writeln!(text, "redirect: to https, without TLS")?,
        Some(HttpsPort(port)) => writeln!(text, "redirect: to https at port {port}, without TLS")?,
        None => {}
    }
    match edits.stripped {
        0 => {}
        1 => writeln!(text, "path:     without its first segment")?,
        count => writeln!(text, "path:     without its first {count} segments")?,
    }
    match &edits.upstream_host {
        UpstreamHost::Keep => {}
        UpstreamHost::Upstream => writeln!(text, "host:     the server's own")?,
        UpstreamHost::Fixed(host) => {
            let host = String::from_utf8_lossy(host.as_bytes());
            writeln!(text, "host:     {host}")?;
        }
    }
    headers(text, "request: ", &edits.request_headers)?;
    headers(text, "response:", &edits.response_headers)
}

/// The names alone: values may be secrets.
fn headers(text: &mut String, label: &str, edits: &HeaderEdits) -> Result {
    let set = edits.set.iter().map(|(name, _)| name);
    let changes = [
        ("sets", set.collect()),
        ("removes", edits.remove.iter().collect()),
    ];
    for (what, names) in changes {
        let names: Vec<&HeaderName> = names;
        if !names.is_empty() {
            let names: Vec<_> = names.into_iter().map(HeaderName::as_str).collect();
            writeln!(text, "{label} {what} {}", names.join(", "))?;
        }
    }
    Ok(())
}
