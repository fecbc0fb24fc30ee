//! Explains which part of a request names its client.

use std::collections::HashSet;
use std::fmt::Write as _;

use http::Request;
use tidegate_config::Settings;
use tidegate_identity::{Caller, ClientSource, Credentials};
use tidegate_tower::{Per, RequestContext, Rule};

/// Describes the source that named the client, or the reason why no source did.
pub(super) fn named_by(settings: &Settings, caller: &Caller) -> String {
    let source = caller
        .named_by
        .and_then(|index| settings.clients.sources.get(index));
    match (source, caller.refused) {
        (Some(source @ ClientSource::UserId { .. }), _) => {
            format!("named by {} of a trusted proxy", description(source))
        }
        (Some(source), _) => format!("named by {}", description(source)),
        (None, Some(Credentials::Missing(_))) => "because credentials are missing".to_owned(),
        (None, Some(credentials)) => format!("because this {credentials} is refused"),
        (None, None) => "because no source named a client".to_owned(),
    }
}

/// Describes a source and the part of a request that it reads.
fn description(source: &ClientSource) -> String {
    match source {
        ClientSource::ApiKey { header, .. } => format!("api_key: the header {header}"),
        ClientSource::UserId { header } => format!("user_id: the header {header}"),
        ClientSource::Token(tokens) => format!("jwt: the header {}", tokens.header()),
        ClientSource::Certificate(name) => {
            format!("client_cert: the {} of the certificate", name.word())
        }
        ClientSource::Ip => "ip".to_owned(),
    }
}

/// Writes the reasons why sources found a value but named no client.
pub(super) fn not_by(text: &mut String, settings: &Settings, request: &Request<()>) {
    let context = RequestContext::of(request);
    let certificate = context.certificate.as_deref();
    let findings = settings
        .clients
        .findings(context.peer, request.headers(), certificate);
    for (index, finding) in findings {
        let source = settings.clients.sources.get(index);
        if let Some(source) = source.filter(|source| !matches!(source, ClientSource::Ip)) {
            let _ = writeln!(text, "not by:   {}; {finding}", description(source));
        }
    }
}

/// Writes the claims of the caller's token by which these rules split their budgets (`per`).
pub(super) fn claims(text: &mut String, rules: &[Rule], caller: &Caller) {
    let mut names = HashSet::new();
    for per in rules.iter().flat_map(|rule| rule.per.iter()) {
        let Per::Claim(name) = per else {
            continue;
        };
        if !names.insert(name) {
            continue;
        }
        let _ = match caller.claims.value(name) {
            Some(value) => writeln!(text, "claim:    {name} is {value}"),
            None => writeln!(
                text,
                "claim:    no valid token has {name}: its limits count by address"
            ),
        };
    }
}
