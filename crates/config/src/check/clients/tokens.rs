//! Signed tokens: what they must be, and where the keys come from that they are verified with.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::AUTHORIZATION;
use http::uri::Scheme;
use tidegate_tower::jwt::{Signature, TokenKeys, TokenRules, Tokens};
use tidegate_tower::{ClientPlans, ClientSource};
use tokio::sync::Notify;

use crate::check::tls::unusable;
use crate::check::tls::{authorities, unreadable};
use crate::file::Jwt;
use crate::plan::JwksPlan;
use crate::reading::Check;
use crate::value::{FilePath, JwksRefresh, JwksUrl, Scalar, Words};
use tidegate_yaml::{Place, Problem};

/// How far clocks may differ if nothing is said.
const LEEWAY: Duration = Duration::from_secs(60);
/// How often a key set is fetched if nothing is said.
const REFRESH: Duration = Duration::from_secs(5 * 60);
/// The shortest secret that HS256 allows (RFC 7518, 3.2), in bytes.
const SECRET: usize = 32;
/// The claim that names the subject of a token (RFC 7519, 4.1.2).
const SUBJECT: &str = "sub";

pub(crate) fn token_source(
    check: &mut Check<'_>,
    jwt: &Jwt,
    place: Option<Place>,
    plans: &ClientPlans,
    jwks: &mut Vec<JwksPlan>,
) -> Option<ClientSource> {
    let header = match &jwt.header {
        Some(scalar) => check.read(scalar),
        None => Some(AUTHORIZATION),
    };
    let algorithms = jwt.algorithms.value.iter();
    let signatures: Vec<Signature> = algorithms.filter_map(|scalar| check.read(scalar)).collect();
    let keys = match (&jwt.key_file, &jwt.jwks_url) {
        (Some(file), None) => key_of_file(check, jwt, file, &signatures)?,
        (None, Some(url)) => {
            let set = key_set(check, jwt, url, &signatures)?;
            let keys = set.keys.clone();
            jwks.push(set);
            keys
        }
        _ => {
            let problem =
                Problem::new(place, "a `jwt` source needs exactly one place for its keys");
            check.refuse(problem.note("allowed here: either `key_file` or `jwks_url`"));
            return None;
        }
    };
    let words = |words: Option<Words>| words.map(|Words(text)| text);
    let claim = words(check.read_some(jwt.claim.as_ref()));
    let leeway = check.read_some(jwt.leeway.as_ref()).unwrap_or(LEEWAY);
    let rules = TokenRules {
        header: header?,
        signatures,
        issuer: words(check.read_some(jwt.issuer.as_ref())),
        audience: words(check.read_some(jwt.audience.as_ref())),
        leeway: leeway.as_secs(),
        claim: claim.unwrap_or_else(|| SUBJECT.to_owned()),
        plan_claim: words(check.read_some(jwt.plan_claim.as_ref())),
        plans: plans.clone(),
        invalid: check.read_some(jwt.invalid.as_ref()).unwrap_or_default(),
    };
    Some(ClientSource::Token(Arc::new(Tokens::new(rules, keys))))
}

/// The one key of a file.
fn key_of_file(
    check: &mut Check<'_>,
    jwt: &Jwt,
    file: &Scalar<FilePath>,
    signatures: &[Signature],
) -> Option<TokenKeys> {
    one_kind_of_key(check, signatures, jwt.algorithms.place);
    let ca = jwt.jwks_ca.as_ref().map(|scalar| scalar.place);
    let refresh = jwt.jwks_refresh.as_ref().map(|scalar| scalar.place);
    for place in ca.into_iter().chain(refresh) {
        let problem = Problem::new(place, "this has no effect with `key_file`");
        check.refuse(problem.note("it says how a set is fetched from a `jwks_url`"));
    }
    let path = check.file(file)?;
    let content = match fs::read(&path) {
        Ok(content) => content,
        Err(error) => {
            unreadable(check, file, &path, &error);
            return None;
        }
    };
    let Ok(keys) = TokenKeys::from_file(signatures, &content) else {
        let problem = unusable(file, &path, "holds no key for these algorithms");
        check.refuse(problem.note("HS256 needs a secret, the others a public key in PEM"));
        return None;
    };
    if signatures == [Signature::Hs256] && content.trim_ascii_end().len() < SECRET {
        short_secret(check, file.place);
    }
    Some(keys)
}

fn short_secret(check: &mut Check<'_>, place: Option<Place>) {
    check.warn(
        Problem::new(place, "this secret is short enough to be guessed").note(format!(
            "who guesses it can forge every token; use at least {SECRET} random bytes"
        )),
    );
}

/// A key verifies one kind of signature: one that could be taken for another's would be forged.
fn one_kind_of_key(check: &mut Check<'_>, signatures: &[Signature], place: Option<Place>) {
    if let [first, rest @ ..] = signatures
        && rest.iter().all(|other| other == first)
    {
        return;
    }
    check.refuse(
        Problem::new(
            place,
            "a `jwt` source with a `key_file` has exactly one algorithm",
        )
        .note("allowed here: one of HS256, RS256, ES256, EdDSA"),
    );
}

/// The set at a URL, which is fetched once the gateway runs.
fn key_set(
    check: &mut Check<'_>,
    jwt: &Jwt,
    url: &Scalar<JwksUrl>,
    signatures: &[Signature],
) -> Option<JwksPlan> {
    public_keys(check, jwt, signatures);
    let refresh = check.read_some(jwt.jwks_refresh.as_ref());
    let ca = jwt.jwks_ca.as_ref();
    let authorities = ca.and_then(|scalar| authorities(check, scalar));
    let place = url.place;
    let JwksUrl(url) = check.read(url)?;
    if url.scheme() == Some(&Scheme::HTTP) {
        plain_http(check, jwt, &url, place);
    }
    let missed = Arc::new(Notify::new());
    let ask = missed.clone();
    Some(JwksPlan {
        url,
        authorities,
        refresh: refresh.map_or(REFRESH, |JwksRefresh(every)| every),
        signatures: signatures.to_vec(),
        // Heard only by who waits for it: what is asked during a fetch is answered by that fetch.
        keys: TokenKeys::awaited(move || ask.notify_waiters()),
        missed,
    })
}

/// What is published is no secret, so whoever reads it could sign with it.
fn public_keys(check: &mut Check<'_>, jwt: &Jwt, signatures: &[Signature]) {
    if signatures.contains(&Signature::Hs256) || jwt.algorithms.value.is_empty() {
        let problem = Problem::new(
            jwt.algorithms.place,
            "the keys at a `jwks_url` are public, and verify signatures of public keys only",
        );
        check.refuse(problem.note("allowed here: any of RS256, ES256, EdDSA"));
    }
}

/// Warns that a set may be changed on its way, unless it never leaves this machine.
fn plain_http(check: &mut Check<'_>, jwt: &Jwt, url: &Uri, place: Option<Place>) {
    if let Some(scalar) = &jwt.jwks_ca {
        let problem = Problem::new(scalar.place, "this has no effect with http://");
        check.warn(problem.note("only a server at https:// is verified"));
    }
    if !url.host().is_some_and(is_loopback) {
        let problem = Problem::new(place, "this key set comes over plain http");
        check.warn(
            problem
                .note("an attacker on the way can add keys and forge every token: write https://"),
        );
    }
}

/// Whether a URL's host is this machine by itself.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Result<IpAddr, _> = address.parse();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}
