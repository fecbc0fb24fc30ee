//! Who the caller is taken for, and why.

use std::collections::HashSet;
use std::fmt::Write as _;

use http::Request;
use tidegate_config::Plan;
use tidegate_identity::{Caller, ClientSource, Credentials};
use tidegate_tower::{Per, RequestContext, Rule};

/// Which source named the client, and by what.
pub(super) fn named_by(plan: &Plan, caller: &Caller) -> String {
    let source = caller
        .named_by
        .and_then(|index| plan.clients.sources.get(index));
    match source {
        Some(ClientSource::ApiKey { header, .. }) => {
            format!("named by api_key: the header {header}")
        }
        Some(ClientSource::UserId { header }) => {
            format!("named by user_id: the header {header} of a trusted proxy")
        }
        Some(ClientSource::Token(tokens)) => {
            format!("named by jwt: the header {}", tokens.header())
        }
        Some(ClientSource::Certificate(name)) => {
            format!(
                "named by client_cert: the {} of the certificate",
                name.word()
            )
        }
        Some(ClientSource::Ip) => "named by ip".to_owned(),
        None => match caller.refused {
            Some(Credentials::Missing(_)) => "because credentials are missing".to_owned(),
            Some(credentials) => format!("because this {credentials} is refused"),
            None => "because no source named a client".to_owned(),
        },
    }
}

/// Why sources named nobody that found something to read.
pub(super) fn not_by(text: &mut String, plan: &Plan, request: &Request<()>) {
    let context = RequestContext::of(request);
    let certificate = context.certificate.as_deref();
    let findings = plan
        .clients
        .findings(context.peer, request.headers(), certificate);
    for (index, finding) in findings {
        let source = match plan.clients.sources.get(index) {
            Some(ClientSource::ApiKey { header, .. }) => format!("api_key: the header {header}"),
            Some(ClientSource::UserId { header }) => format!("user_id: the header {header}"),
            Some(ClientSource::Token(tokens)) => format!("jwt: the header {}", tokens.header()),
            Some(ClientSource::Certificate(name)) => {
                format!("client_cert: the {} of the certificate", name.word())
            }
            Some(ClientSource::Ip) | None => continue,
        };
        let _ = writeln!(text, "not by:   {source}; {finding}");
    }
}

/// The claims that limits are counted per here, as the caller's token has them.
pub(super) fn claims(text: &mut String, rules: &[Rule], caller: &Caller) {
    let mut told = HashSet::new();
    for per in rules.iter().flat_map(|rule| rule.per.iter()) {
        let Per::Claim(name) = per else {
            continue;
        };
        if !told.insert(name) {
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
