//! `tidegate explain`: prints the route, client, limits and keys of a request, without sending or charging it.

mod caller;
mod effects;
mod overriding;
mod passed;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http::header::HOST;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use tidegate_identity::{ClientPlan, ClientSource, Credentials, ListEntry};
use tidegate_net::tls::ClientCertificate;
use tidegate_store::{Charge, Limit};
use tidegate_tower::{
    AssessedRule, Assessment, Cost, Hasher, Missing, Overrides, Peer, Per, RequestContext, Reserve,
    Rule, assess,
};

use super::Failure;
use crate::remote::port::TokenSource;
use crate::request::health::is_check;
use crate::request::routes::Routes;
use crate::request::target::Target;
use caller::{claims, named_by, not_by};
use effects::does;
pub(super) use overriding::Overriding;
use passed::passed_over;
use tidegate_config::{Settings, StoreSettings};

/// The request to explain.
#[derive(Debug, Args)]
pub(super) struct Question {
    /// The method of the request, such as GET.
    method: Method,
    /// The URL of the request: http://host/path, or a path.
    #[arg(value_parser = url)]
    url: Uri,
    /// A header of the request, as "Name: value". Repeat the option for more headers.
    #[arg(short = 'H', long = "header", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The address that the request comes from.
    #[arg(long, default_value = "127.0.0.1")]
    peer: IpAddr,
    /// The certificate that the client shows, in PEM. It is not verified here.
    #[arg(long, value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// The admin port of a gateway, such as http://10.0.0.5:9901, whose overrides are applied. Without it, only the configuration is
    /// applied.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    #[command(flatten)]
    token: TokenSource,
}

/// Prints the route, client, limits and keys of the request.
pub(super) fn run(config: &Path, question: &Question) -> Result<(), Failure> {
    let (mut settings, _) = super::load(config)?;
    let certificate = match &question.client_cert {
        None => None,
        Some(file) => Some(ClientCertificate::read(file).map_err(Failure::usage)?),
    };
    let mut overriding = match &question.admin {
        None => Overriding::default(),
        Some(url) => Overriding::ask(&question.token.ports(std::slice::from_ref(url), config)?)?,
    };
    overriding.set_numbers(&mut settings);
    super::print(&explain(&settings, question, certificate, &overriding));
    Ok(())
}

/// Returns the text to print.
pub(super) fn explain(
    settings: &Settings,
    question: &Question,
    certificate: Option<ClientCertificate>,
    overriding: &Overriding,
) -> String {
    let mut request = question.request();
    if is_check(
        settings.health.as_deref(),
        &question.method,
        request.uri().path(),
    ) {
        return "answer:   200, or 503 if not ready, by the gateway itself, for `health` has this path; nothing is charged\n"
            .to_owned();
    }
    let peer = Peer::named((question.peer, 0).into());
    let mut context = RequestContext::new(peer);
    context.certificate = certificate.map(Arc::new);
    let routes = Routes::new(&settings.routes, |route| route);
    let target = Target::of(&request);
    let route_match = target
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|target| routes.of(&request, target));
    let is_preflight = route_match.as_ref().is_ok_and(|it| it.is_preflight);
    let taken = route_match.as_ref().map_or(usize::MAX, |it| it.at);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = match &route_match {
        Ok(route_match) => route_match.route.explain(&mut text),
        Err(problem) => writeln!(text, "route:    none; answered {}", problem.status),
    };
    if let Ok(target) = &target
        && !is_preflight
    {
        for at in routes.here(target).take_while(|at| *at < taken) {
            let _ = passed_over(&mut text, routes.at(at), target, &question.method);
        }
    }
    if is_preflight {
        let _ = writeln!(
            text,
            "answer:   204 by the gateway itself, for it is a CORS preflight"
        );
    }
    let policy = route_match
        .as_ref()
        .map_or(&settings.unmatched, |it| &it.route.policy);
    context.is_preflight = is_preflight;
    if let Ok(route_match) = route_match {
        context.path_values = route_match.values;
    }
    request.extensions_mut().insert(context);
    let secret = settings.secret.as_ref();
    let hasher = Hasher::new(secret.map_or("", |secret| secret.expose()));
    let overrides = Overrides {
        table: overriding.table(),
        plans: settings.plans.clone(),
        numbers: settings.numbers.clone(),
    };
    let (caller, assessment) = assess(policy, &settings.clients, &hasher, &overrides, &request);
    let undecided = settings.clients.sources.iter().any(|source| {
        matches!(source, ClientSource::Token(tokens) if tokens.is_undecided(request.headers()))
    });
    if undecided {
        let reason = "the key set of its token is fetched by running gateways only";
        let _ = writeln!(text, "client:   not known here: {reason}");
        denied(&mut text, &assessment);
        return text;
    }
    let _ = writeln!(
        text,
        "client:   {}, {}",
        caller.client,
        named_by(settings, &caller)
    );
    not_by(&mut text, settings, &request);
    // An entry of the configuration's `deny` applies before any override.
    let denied_by = assessment.denied_by();
    if denied_by.is_none_or(ListEntry::is_override) {
        overriding.explain(&mut text, &overrides, &caller);
    }
    if let Some(plan) = caller.plan.as_ref().filter(|plan| !plan.name().is_empty()) {
        let _ = writeln!(text, "plan:     {plan}");
    } else if let Some(unknown) = &caller.unknown_plan {
        let _ = writeln!(
            text,
            "plan:     none, for `{unknown}` is not defined: the limits' own quotas"
        );
    }
    if denied(&mut text, &assessment) {
        return text;
    }
    claims(&mut text, &policy.rules, &caller);
    if let Some(credentials) = caller.refused {
        let why = match credentials {
            Credentials::ApiKey | Credentials::Token => {
                format!("401, for this {credentials} is refused")
            }
            Credentials::Ambiguous => format!("400, for this {credentials} is refused"),
            Credentials::Missing(required) => format!("401, for `require: {required}` is not met"),
        };
        let _ = writeln!(
            text,
            "answer:   {why}; only what is under `always` is charged"
        );
    }
    let is_made = secret.is_none() && matches!(settings.store, StoreSettings::Redis(_));
    if policy.rules.is_empty() {
        let _ = writeln!(text, "limits:   none");
    }
    let prefix = match &settings.store {
        StoreSettings::Memory => "tidegate",
        StoreSettings::Redis(options) => &options.key_prefix,
    };
    let is_refused = caller.refused.is_some();
    for assessed in assessment.rules(policy, is_refused, caller.plan.as_ref()) {
        let AssessedRule {
            rule,
            index,
            limit,
            key,
            cost,
            is_exempt,
            origin,
        } = assessed;
        if is_exempt {
            let access = policy.access.as_ref();
            let entry = access.and_then(|access| access.exempts(&caller, index));
            let by = entry.map(|ListEntry { text, place }| format!(": {text} ({place})"));
            let by = by.or_else(|| Some(format!(": override for {}", overrides.of(&caller)?.0)));
            let _ = writeln!(
                text,
                "limit:    {}, not charged, for the client is exempt{}",
                rule.limit.name(),
                by.unwrap_or_default()
            );
            continue;
        }
        let Some(limit) = limit else {
            let name = rule.limit.name();
            let by = match caller.plan.as_ref().is_some_and(|plan| plan.sets(name)) {
                true => "by the override",
                false => "under this plan",
            };
            let _ = writeln!(text, "limit:    {name}, unlimited {by}");
            continue;
        };
        let charge = Charge {
            limit,
            key,
            cost,
            origin,
        };
        let _ = writeln!(
            text,
            "limit:    {}, a {} of {}, per {}{}{}\n  quota:  {}\n  key:    {}",
            limit.name(),
            limit.quota().algorithm(),
            limit.quota().capacity(),
            per_list(rule),
            costs(rule, cost, limit.quota().capacity()),
            does(rule),
            quota(rule, limit, caller.plan.as_ref()),
            if is_made {
                "not known here: it is hashed with the secret that the gateways made in Redis"
                    .to_owned()
            } else {
                charge.redis_key(prefix)
            },
        );
        if Arc::ptr_eq(limit, &rule.limit) {
            overriding.explain_limit(&mut text, limit.name());
        }
    }
    text
}

/// Writes the entry that denies the request, if there is one. Returns whether the request is denied.
fn denied(text: &mut String, assessment: &Assessment) -> bool {
    let Some(entry) = assessment.denied_by() else {
        return false;
    };
    let ListEntry { text: name, place } = entry;
    let why = if entry.is_override() {
        format!("an override blocks {name}")
    } else if entry.is_allow_list() {
        format!("the client is not in `allow` ({place})")
    } else {
        format!("`deny` lists {name} ({place})")
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "answer:   403, for {why}; nothing is charged");
    true
}

/// Formats the numbers of a limit. If they come from a plan or an override, adds this source.
fn quota(rule: &Rule, limit: &Limit, plan: Option<&ClientPlan>) -> String {
    let mut text = limit.quota().written();
    if let Some(block) = limit.block() {
        let span = humantime::format_duration(Duration::from_micros(block.span));
        let _ = write!(text, ", block {span}");
    }
    match plan.filter(|_| !std::ptr::eq(limit, &*rule.limit)) {
        Some(plan) if plan.sets(limit.name()) => text.push_str("; of the override"),
        Some(plan) => {
            let _ = write!(text, "; of the plan {plan}");
        }
        None => {}
    }
    text
}

/// Formats the cost of a request. The usual cost of 1 is left out.
fn costs(rule: &Rule, cost: u64, capacity: u64) -> String {
    if let Some(place) = rule.cost.told_in() {
        let missing = match &rule.cost {
            Cost::Body {
                missing: Missing::All,
                ..
            } => format!("; {capacity} if a successful answer does not say it"),
            _ => String::new(),
        };
        let reserve = rule.cost.reserve().and_then(Reserve::described);
        let reserve = reserve.unwrap_or_else(|| cost.to_string());
        return format!("; reserves {reserve} until {place} says what it costs{missing}");
    }
    match cost {
        // A limit that only observes refuses no request, even if the cost exceeds its capacity.
        cost if cost > capacity && rule.limit.is_observed() => {
            "; not charged, for it never fits".to_owned()
        }
        1 => String::new(),
        cost if cost > capacity => format!("; costs {cost}, which never fits: answered 400"),
        cost => format!("; costs {cost}"),
    }
}

fn per_list(rule: &Rule) -> String {
    let mut names: Vec<String> = rule.per.iter().map(Per::to_string).collect();
    if rule.is_per_plan() {
        names.push("plan".to_owned());
    }
    match names.as_slice() {
        [] => "nothing: one budget for all".to_owned(),
        names => names.join(" and "),
    }
}

impl Question {
    /// Returns the request in the form that a client sends: the first line has the path, and a `Host` header has the URL's host, unless the
    /// headers already contain `Host`.
    fn request(&self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        if let Some(path) = self.url.path_and_query() {
            *request.uri_mut() = Uri::from(path.clone());
        }
        let headers = request.headers_mut();
        headers.extend(self.headers.iter().cloned());
        let host = self
            .url
            .authority()
            .map_or("localhost", |authority| authority.as_str());
        if let Ok(host) = HeaderValue::from_str(host) {
            headers.entry(HOST).or_insert(host);
        }
        request
    }
}

fn url(text: &str) -> Result<Uri, String> {
    match text.parse::<Uri>() {
        Ok(url) if url.path().starts_with('/') => Ok(url),
        _ => Err("a URL is http://host/path, or a path alone".to_owned()),
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a header looks like \"Name: value\"")?;
    let name = name.trim().parse().map_err(|_| "that is no header name")?;
    let value = value
        .trim()
        .parse()
        .map_err(|_| "that is no header value")?;
    Ok((name, value))
}
