//! `jwt`: the checks of signed tokens, and the sources of the keys that verify them.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use crate::yaml::{Place, Problem, Spanned};
use http::header::AUTHORIZATION;
use http::uri::Scheme;
use http::{HeaderName, Uri};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;
use tidegate_identity::{ClientPlans, ClientSource};
use tidegate_identity::{
    jwt::InvalidToken, jwt::Signature, jwt::TokenKeys, jwt::TokenRules, jwt::Tokens,
};
use tidegate_net::tls::Authorities;
use tokio::sync::Notify;

use crate::check::Check;
use crate::pem::{authorities, unusable};
use crate::value::client::ClaimName;
use crate::value::net::http_url;
use crate::value::word::FilePath;
use crate::value::{Fault, Scalar, Value};

/// Signed tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jwt {
    /// The header with the token; in Authorization, the token follows `Bearer`. Default: Authorization.
    pub(crate) header: Option<Scalar<HeaderName>>,
    /// The accepted signatures: HS256, RS256, RS384, RS512, PS256, ES256, ES384, EdDSA.
    pub(crate) algorithms: Spanned<Vec<Scalar<Signature>>>,
    /// A file with the key: a secret for HS256, else a public key in PEM. Set either `key_file` or `jwks_url`.
    pub(crate) key_file: Option<Scalar<FilePath>>,
    /// The URL at which the issuer publishes its keys, as a JWK set. Set either `jwks_url` or `key_file`.
    pub(crate) jwks_url: Option<Scalar<JwksUrl>>,
    /// A file with the authorities of the certificate at `jwks_url`, in PEM. Default: the system's.
    pub(crate) jwks_ca: Option<Scalar<FilePath>>,
    /// The time between two fetches of the key set, 1s to 1d. Default: 5m.
    pub(crate) jwks_refresh: Option<Scalar<JwksRefresh>>,
    /// The issuer (`iss`) that a token must have. Default: any.
    pub(crate) issuer: Option<Scalar<Words>>,
    /// The audience (`aud`) that a token must have. Default: any.
    pub(crate) audience: Option<Scalar<Words>>,
    /// The largest allowed difference between the clocks of issuer and gateway. Default: 60s.
    pub(crate) leeway: Option<Scalar<Duration>>,
    /// The claim that holds the user ID. In each claim name, `a.b` is the member `b` of the object `a`. Default: sub.
    pub(crate) claim: Option<Scalar<Words>>,
    /// The claim that holds the name of the user's plan. Default: none; tokens name no plan.
    pub(crate) plan_claim: Option<Scalar<Words>>,
    /// The claims that `per` of a limit may name, as `claim:NAME`. Default: none.
    pub(crate) claims: Option<Vec<Scalar<ClaimName>>>,
    /// The treatment of invalid tokens: fall_through or reject. Default: fall_through.
    pub(crate) invalid: Option<Scalar<InvalidToken>>,
}

/// Text that is compared exactly: an issuer, an audience, a claim's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) String);

impl Value for Words {
    const NAME: &'static str = "Words";
    const WHAT: &'static str = "a text";
    const ALLOWED: &'static str = "any text that is not empty";

    fn read(text: &str) -> Result<Self, Fault> {
        let words = (!text.is_empty()).then(|| Self(text.to_owned()));
        words.ok_or(Fault::Form)
    }
}

/// The URL of a JWK set. No message shows it, because its query may hold a secret.
pub(crate) struct JwksUrl(pub(crate) Uri);

impl Value for JwksUrl {
    const NAME: &'static str = "JwksUrl";
    const WHAT: &'static str = "the URL of a key set";
    const ALLOWED: &'static str = "https://host[:port]/path, or the same with http://";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        if !text.contains("://") {
            return Err(Fault::Because(
                "the URL of a key set begins with https:// or http://",
            ));
        }
        if text.ends_with("/.well-known/openid-configuration") {
            return Err(Fault::Because(
                "this is the URL of an OpenID configuration: its `jwks_uri` has the URL of the key set",
            ));
        }
        http_url(text, "the URL of a key set holds no user and password").map(Self)
    }
}

/// The time between fetches of a key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JwksRefresh(pub(crate) Duration);

impl JwksRefresh {
    const BOUNDS: RangeInclusive<Duration> =
        Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);
}

impl Value for JwksRefresh {
    const NAME: &'static str = "JwksRefresh";
    const WHAT: &'static str = "a refresh interval";
    const ALLOWED: &'static str = "a duration from 1s to 1d, such as 30s or 5m";

    fn read(text: &str) -> Result<Self, Fault> {
        let every = Duration::read(text)?;
        let is_allowed = Self::BOUNDS.contains(&every);
        is_allowed.then_some(Self(every)).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        Duration::schema()
    }
}

/// A key set to fetch, and the table for its keys.
#[derive(Clone)]
pub struct JwksSettings {
    /// The URL of the key set, with the scheme `http` or `https`.
    pub url: Uri,
    /// The authorities that are trusted for the certificate of the set's server. `None` means the authorities of this system.
    pub authorities: Option<Authorities>,
    /// The time between two fetches of the key set.
    pub refresh: Duration,
    /// The signatures that keys of the key set may verify.
    pub signatures: Vec<Signature>,
    /// The table for the fetched keys.
    pub keys: TokenKeys,
    /// Notified when a token names a key that is missing in the key set.
    pub missed: Arc<Notify>,
}

// Not derived, because the URL's query may contain a secret.
impl fmt::Debug for JwksSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwksSettings")
            .field("host", &self.url.host())
            .field("refresh", &self.refresh)
            .finish_non_exhaustive()
    }
}

/// The default of `leeway`.
const LEEWAY: Duration = Duration::from_secs(60);

/// The default time between fetches of a key set.
const REFRESH: Duration = Duration::from_secs(5 * 60);

/// The shortest secret that HS256 allows (RFC 7518, 3.2), in bytes.
const SECRET: usize = 32;

/// The claim that names the subject of a token (RFC 7519, 4.1.2).
const SUBJECT: &str = "sub";

/// Reads `claims`, the claims that `per` of a limit may name. Refuses a claim that is listed twice.
pub(crate) fn claims(check: &mut Check<'_>, jwt: &Jwt) -> Arc<[Arc<str>]> {
    let mut claims: Vec<Arc<str>> = Vec::new();
    for scalar in jwt.claims.iter().flatten() {
        let Some(ClaimName(name)) = check.read(scalar) else {
            continue;
        };
        if claims.iter().any(|claim| **claim == *name) {
            let message = format!("the claim `{}` is here twice", scalar.raw);
            check.refuse(Problem::new(scalar.place, message));
        }
        claims.push(name.into());
    }
    claims.into()
}

pub(crate) fn token_source(
    check: &mut Check<'_>,
    jwt: &Jwt,
    place: Option<Place>,
    plans: &ClientPlans,
    claims: Arc<[Arc<str>]>,
    jwks: &mut Vec<JwksSettings>,
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
        claims,
        plans: plans.clone(),
        invalid: check.read_some(jwt.invalid.as_ref()).unwrap_or_default(),
    };
    Some(ClientSource::Token(Arc::new(Tokens::new(rules, keys))))
}

/// Reads the only key of a file.
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
            check.refuse(unusable(file, &path, &crate::unreadable(&error)));
            return None;
        }
    };
    let Ok(keys) = TokenKeys::from_file(signatures, &content) else {
        let problem = unusable(file, &path, "holds no key for these algorithms");
        check.refuse(problem.note("HS256 needs a secret, the others a public key in PEM"));
        return None;
    };
    if signatures == [Signature::Hs256] && content.trim_ascii_end().len() < SECRET {
        let problem = Problem::new(file.place, "this secret is short enough to be guessed");
        check.warn(problem.note(format!(
            "who guesses it can forge every token; use at least {SECRET} random bytes"
        )));
    }
    Some(keys)
}

/// Refuses a list that does not name exactly one algorithm. With several algorithms, an attacker could use a key for the wrong kind of
/// signature, and forge tokens.
fn one_kind_of_key(check: &mut Check<'_>, signatures: &[Signature], place: Option<Place>) {
    if let [first, rest @ ..] = signatures
        && rest.iter().all(|other| other == first)
    {
        return;
    }
    let message = "a `jwt` source with a `key_file` has exactly one algorithm";
    let note = format!("allowed here: one of {}", names(|_| true));
    check.refuse(Problem::new(place, message).note(note));
}

/// Returns the names of the signatures for which `are_meant` is true, separated by commas.
fn names(are_meant: impl Fn(Signature) -> bool) -> String {
    let all = Signature::ALL.into_iter();
    let names: Vec<_> = all
        .filter_map(|(name, one)| are_meant(one).then_some(name))
        .collect();
    names.join(", ")
}

/// Reads the settings of a key set. Does not fetch the set, because the gateway fetches it after the start.
fn key_set(
    check: &mut Check<'_>,
    jwt: &Jwt,
    url: &Scalar<JwksUrl>,
    signatures: &[Signature],
) -> Option<JwksSettings> {
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
    Some(JwksSettings {
        url,
        authorities,
        refresh: refresh.map_or(REFRESH, |JwksRefresh(every)| every),
        signatures: signatures.to_vec(),
        // `notify_waiters` wakes the task that fetches the key set, but only while this task waits. So tokens that arrive during a fetch do
        // not cause another fetch.
        keys: TokenKeys::awaited(move || ask.notify_waiters()),
        missed,
    })
}

/// Refuses HS256, which signs tokens with a shared secret. A key set is public, so all its readers could sign tokens.
fn public_keys(check: &mut Check<'_>, jwt: &Jwt, signatures: &[Signature]) {
    if signatures.contains(&Signature::Hs256) || jwt.algorithms.value.is_empty() {
        let message =
            "the keys at a `jwks_url` are public, and verify signatures of public keys only";
        let public = names(|signature| !signature.is_by_secret());
        let problem = Problem::new(jwt.algorithms.place, message);
        check.refuse(problem.note(format!("allowed here: any of {public}")));
    }
}

/// Warns of a key set at a plain HTTP URL, because an attacker could change the set on the way. A server on this machine needs no TLS.
fn plain_http(check: &mut Check<'_>, jwt: &Jwt, url: &Uri, place: Option<Place>) {
    if let Some(scalar) = &jwt.jwks_ca {
        let problem = Problem::new(scalar.place, "this has no effect with http://");
        check.warn(problem.note("only a server at https:// is verified"));
    }
    if !url.host().is_some_and(is_loopback) {
        let note = "an attacker on the way can add keys and forge every token: write https://";
        check.warn(Problem::new(place, "this key set comes over plain http").note(note));
    }
}

/// Whether the host of a URL is always this machine.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Result<IpAddr, _> = address.parse();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}
