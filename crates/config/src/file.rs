//! The configuration as written: which keys there are, and what stands under them.
//!
//! Unknown keys are refused everywhere. Single values are kept as written ([`Scalar`]), so a [`File`] is well-formed but nothing in
//! it is checked. The comments on keys are what editors show through `tidegate schema`.

mod access_log;
mod action;
mod answers;
mod log;
mod network;
mod plans;
mod timeouts;
mod tracing;
mod upstreams;

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderName, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::Rate;
use tidegate_store::{Mode, OnFailure};
use tidegate_tower::Per;
use tidegate_tower::api_keys::UnknownKey;
use tidegate_tower::jwt::{InvalidToken, Signature};

use tidegate_net::host::HostPattern;
use tidegate_net::path::EncodedSlashes;
use tidegate_net::pattern::PathPattern;
use tidegate_yaml::Spanned;

use super::routes::cors::Cors;
use super::routes::edits::{HttpsPort, UpstreamHost, WrittenHeaderEdits};
use super::value::{
    ActionWord, AddressSource, BodyLimit, Connections, Count, Date, FilePath, Gateways,
    HeadersWord, JwksRefresh, JwksUrl, KeyHash, KeyName, KeyPrefix, LimitName, MemoryLimit,
    Network, PlanName, PrefixLength, Protocol, RedisUrl, RouteName, Scalar, SecretText, StoreWord,
    Target, TokenText, Unlimited, WindowLength, Words, Zone,
};

pub(super) use super::shape::{BlockOr, Named, SingleOr};
pub(super) use access_log::{AccessFilter, AccessLog};
pub(super) use action::{Action, Counted};
pub(super) use answers::{Headers, Reject};
pub(super) use log::Log;
pub(super) use network::{Listen, Listener, ListenerTls, UpstreamTls};
pub(super) use plans::{Cost, PlanQuota};
pub(super) use timeouts::{RouteTimeouts, Slow, Timeouts};
pub(super) use tracing::Tracing;
pub(super) use upstreams::{Eject, Health, Retries, Upstream, WeightedServer};

/// The configuration of a tidegate gateway.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "tidegate configuration")]
pub(super) struct File {
    /// Where requests come in: an address, `{ address, tls }`, or a list of these. Default: 127.0.0.1:8080.
    pub(super) listen: Option<Listen>,
    /// Where health, metrics and clients are served: an address, or `{ address, token }`. Default: 127.0.0.1:9901.
    pub(super) admin: Option<SingleOr<SocketAddr, Admin>>,
    /// Peers whose word on addresses and users is taken. Default: none.
    pub(super) trusted_proxies: Option<Vec<Scalar<Network>>>,
    /// Where limits keep their state: `memory`, or `redis: { url, … }`. Default: memory.
    pub(super) store: Option<SingleOr<StoreWord, Store>>,
    /// Keys the hashes under which clients are kept. Default: none.
    pub(super) secret: Option<Scalar<SecretText>>,
    /// Who is calling: the first source that answers names the client. Default: ip.
    pub(super) clients: Option<Vec<Spanned<Source>>>,
    /// The header that tells upstreams who is calling, such as X-Client-Id; clients cannot send it. Default: none.
    pub(super) forward_client: Option<Scalar<HeaderName>>,
    /// The limits, by name. Each is one budget per client, shared by all routes that list it.
    pub(super) limits: Option<Named<Limit>>,
    /// Named quotas that replace those of limits for a class of clients: by plan, then by limit.
    pub(super) plans: Option<Named<Named<SingleOr<Unlimited, PlanQuota>>>>,
    /// Limits that every request is charged to, matched or not.
    pub(super) always: Option<Vec<Scalar<LimitName>>>,
    /// The headers that tell of limits: x-ratelimit, none, or `{ reset, ietf }`. Default: x-ratelimit.
    pub(super) headers: Option<SingleOr<HeadersWord, Headers>>,
    /// What a refusal by a limit looks like. Default: 429 with problem details.
    pub(super) reject: Option<Reject>,
    /// The routes; the first match wins.
    pub(super) routes: Option<Spanned<Vec<Spanned<Route>>>>,
    /// What is answered where no route matches. Default: 404 with problem details.
    pub(super) unmatched: Option<Reject>,
    /// Groups of servers, by name.
    pub(super) upstreams: Option<Named<Upstream>>,
    /// How long to wait.
    pub(super) timeouts: Option<Timeouts>,
    /// How many connections may be open at once. Default: 10000.
    pub(super) max_connections: Option<Scalar<Connections>>,
    /// How many of these one address may have, or one /64 of IPv6; trusted proxies may have all. Default: all.
    pub(super) max_connections_per_ip: Option<Scalar<Connections>>,
    /// How much memory the process may take before it sheds load: none, or a size such as 512MB. Default: none.
    pub(super) max_memory: Option<Scalar<MemoryLimit>>,
    /// The largest request body. Default: none.
    pub(super) max_body: Option<Scalar<BodyLimit>>,
    /// What is logged.
    pub(super) log: Option<Log>,
    /// Which requests are traced: `{ otlp, sample, max_per_second, headers }`. Default: none.
    pub(super) tracing: Option<Spanned<Tracing>>,
}

/// An admin port that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Admin {
    /// Where it is. Default: 127.0.0.1:9901.
    pub(super) address: Option<Scalar<SocketAddr>>,
    /// What whoever asks about clients shows as `Authorization: Bearer`. Default: none, and on loopback no need.
    pub(super) token: Option<Scalar<TokenText>>,
    /// Names under which it may be asked, such as gateway or *.example.com, beside addresses and localhost. Default: none.
    pub(super) hosts: Option<Vec<Scalar<HostPattern>>>,
}

/// A store that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub(super) struct Store {
    /// In Redis, shared with other gateways.
    pub(super) redis: Option<Redis>,
}

/// How to use Redis.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Redis {
    /// Where it is.
    pub(super) url: Scalar<RedisUrl>,
    /// Whom to trust and who we are, if the URL asks for TLS. Default: the authorities of the system, and nobody.
    pub(super) tls: Option<Spanned<RedisTls>>,
    /// The longest that limits may hold a request up. Default: 25ms.
    pub(super) timeout: Option<Scalar<Duration>>,
    /// What decides when Redis does not: local, open or closed. Default: local.
    pub(super) on_failure: Option<Scalar<OnFailure>>,
    /// How gateways share a limit: exact, leased, synced or local. Default: exact.
    pub(super) mode: Option<Scalar<Mode>>,
    /// How often synced limits are exchanged, from 1ms to 1m. Default: 100ms.
    pub(super) sync_every: Option<Scalar<Duration>>,
    /// How many gateways share it, which is what each quota is divided by in an outage. Default: auto, which counts.
    pub(super) gateways: Option<Scalar<Gateways>>,
    /// What all keys start with. Default: tidegate.
    pub(super) key_prefix: Option<Scalar<KeyPrefix>>,
}

/// TLS to Redis. Names are always verified.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RedisTls {
    /// A file with the certificates of the only authorities that are trusted. Default: those of the system.
    pub(super) ca: Option<Scalar<FilePath>>,
    /// A file with the certificate that the gateway shows. Default: none.
    pub(super) cert: Option<Scalar<FilePath>>,
    /// A file with the key of that certificate.
    pub(super) key: Option<Scalar<FilePath>>,
}

/// A place to look for a client; exactly one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(super) struct Source {
    /// A listed API key in a header.
    pub(super) api_key: Option<ApiKey>,
    /// A user ID in a header, believed from `trusted_proxies` only.
    pub(super) user_id: Option<UserId>,
    /// A user ID in a signed token.
    pub(super) jwt: Option<Jwt>,
    /// The caller's address.
    pub(super) ip: Option<Ip>,
}

/// Listed API keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiKey {
    /// The header. Default: X-API-Key.
    pub(super) header: Option<Scalar<HeaderName>>,
    /// The keys that are known.
    pub(super) keys: Option<Vec<Spanned<Key>>>,
    /// A file with more of them, a list like `keys`; reread when it changes.
    pub(super) keys_file: Option<Scalar<FilePath>>,
    /// What becomes of any other: fall_through, reject or accept. Default: fall_through.
    pub(super) unknown: Option<Scalar<UnknownKey>>,
}

/// An API key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Key {
    /// What the client is called.
    pub(super) name: Scalar<KeyName>,
    /// The key's hash, never the key.
    pub(super) hash: Scalar<KeyHash>,
    /// From then on it is unknown. Default: never.
    pub(super) expires: Option<Scalar<Date>>,
    /// The plan of its client, a name from `plans`. Default: none, and the limits' own quotas.
    pub(super) plan: Option<Scalar<PlanName>>,
}

/// User IDs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UserId {
    /// The header. Default: X-User-Id.
    pub(super) header: Option<Scalar<HeaderName>>,
}

/// Signed tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Jwt {
    /// The header; in Authorization behind `Bearer`. Default: Authorization.
    pub(super) header: Option<Scalar<HeaderName>>,
    /// The signatures that are accepted: HS256, RS256, ES256, EdDSA.
    pub(super) algorithms: Spanned<Vec<Scalar<Signature>>>,
    /// The key: a secret for HS256, else a public key in PEM. Either this or `jwks_url`.
    pub(super) key_file: Option<Scalar<FilePath>>,
    /// Where the issuer publishes its keys, as a JWK set. Either this or `key_file`.
    pub(super) jwks_url: Option<Scalar<JwksUrl>>,
    /// The authorities, in PEM, of which one must vouch for that server. Default: those that this machine trusts.
    pub(super) jwks_ca: Option<Scalar<FilePath>>,
    /// How often the set is fetched. Default: 5m.
    pub(super) jwks_refresh: Option<Scalar<JwksRefresh>>,
    /// Who must have issued the token. Default: anybody with the key.
    pub(super) issuer: Option<Scalar<Words>>,
    /// For whom it must have been issued. Default: anybody.
    pub(super) audience: Option<Scalar<Words>>,
    /// How far clocks may differ. Default: 60s.
    pub(super) leeway: Option<Scalar<Duration>>,
    /// The claim that holds the user ID. Default: sub.
    pub(super) claim: Option<Scalar<Words>>,
    /// The claim that holds the name of the user's plan. Default: none, and no token gives a plan.
    pub(super) plan_claim: Option<Scalar<Words>>,
    /// What becomes of a token that is not valid: fall_through or reject. Default: fall_through.
    pub(super) invalid: Option<Scalar<InvalidToken>>,
}

/// Addresses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ip {
    /// How many bits of an IPv6 address are one client. Default: 64.
    pub(super) ipv6_prefix: Option<Scalar<PrefixLength>>,
    /// How a trusted proxy tells it: x_forwarded_for, forwarded or proxy_protocol. Default: x_forwarded_for.
    pub(super) from: Option<Scalar<AddressSource>>,
}

/// A limit: exactly one algorithm, and what it is counted per.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    /// A burst of `capacity`, filled up again at `refill`.
    pub(super) token_bucket: Option<TokenBucket>,
    /// A queue that drains at a constant rate.
    pub(super) leaky_bucket: Option<LeakyBucket>,
    /// So many per window; windows start at multiples of their length.
    pub(super) fixed_window: Option<FixedWindow>,
    /// So many in any window, exactly; keeps one stamp per request.
    pub(super) sliding_window_log: Option<Window>,
    /// So many in any window, by estimate; keeps two numbers.
    pub(super) sliding_window_counter: Option<Window>,
    /// So many under way at a time.
    pub(super) concurrency: Option<Concurrency>,
    /// What it is counted per; `[]` is one budget for all. Default: [client].
    pub(super) per: Option<Vec<Scalar<Per>>>,
    /// What a request costs: a whole number, or what a header of a trusted proxy or of the answer says. Default: 1.
    pub(super) cost: Option<SingleOr<Count, Cost>>,
    /// Which requests stay charged. Default: all.
    pub(super) count: Option<Spanned<Counted>>,
    /// What becomes of a refused request: reject, drop, observe or `delay: { max }`. Default: reject.
    pub(super) action: Option<SingleOr<ActionWord, Action>>,
    /// Once it is exceeded, the key is refused for this long. Default: not.
    pub(super) block: Option<Scalar<Duration>>,
    /// Whether requests that are refused meanwhile begin the block anew. Default: false.
    pub(super) extend: Option<Scalar<bool>>,
    /// What decides when Redis does not. Default: the store's.
    pub(super) on_failure: Option<Scalar<OnFailure>>,
    /// How gateways share it: exact, leased, synced or local. Default: the store's.
    pub(super) mode: Option<Scalar<Mode>>,
}

/// The numbers of a token bucket.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenBucket {
    /// How many at once.
    pub(super) capacity: Scalar<Count>,
    /// How many are added per how long.
    pub(super) refill: Scalar<Rate>,
}

/// The numbers of a leaky bucket.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeakyBucket {
    /// How many may wait.
    pub(super) queue: Scalar<Count>,
    /// How many leave per how long.
    pub(super) drain: Scalar<Rate>,
    /// Whether requests go on at once instead of waiting for their turn. Default: false.
    pub(super) nodelay: Option<Scalar<bool>>,
}

/// The numbers of a limit on requests under way.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Concurrency {
    /// How many at a time.
    pub(super) limit: Scalar<Count>,
    /// How long a place outlives a gateway that dies, at least 1s. Default: 10s.
    pub(super) lease: Option<Scalar<Duration>>,
}

/// The numbers of a fixed window.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FixedWindow {
    /// How many per window.
    pub(super) limit: Scalar<Count>,
    /// How long it is, at most 31d, or 1mo for months.
    pub(super) window: Scalar<WindowLength>,
    /// The time zone in which a 1d or 1mo begins, such as Asia/Jakarta. Default: UTC.
    pub(super) zone: Option<Scalar<Zone>>,
}

/// The numbers of a window.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Window {
    /// How many per window.
    pub(super) limit: Scalar<Count>,
    /// How long it is, at most 31d.
    pub(super) window: Scalar<Duration>,
}

/// A route: which requests, where they go, what they are charged to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// Its name in logs and metrics. Default: methods, host and path.
    pub(super) name: Option<Scalar<RouteName>>,
    /// The host; `*.example.com` is any below. Default: any.
    pub(super) host: Option<Scalar<HostPattern>>,
    /// The path; `{name}` is one segment, `/**` at the end any rest.
    pub(super) path: Scalar<PathPattern>,
    /// The methods; GET is HEAD too. Default: any.
    pub(super) methods: Option<Vec<Scalar<Method>>>,
    /// A server's URL, or the name of an entry under `upstreams`.
    pub(super) upstream: Scalar<Target>,
    /// The limits that its requests are charged to, all or none.
    pub(super) limits: Option<Vec<Scalar<LimitName>>>,
    /// The largest request body. Default: the file's.
    pub(super) max_body: Option<Scalar<BodyLimit>>,
    /// The headers that tell of its limits. Default: the file's.
    pub(super) headers: Option<SingleOr<HeadersWord, Headers>>,
    /// What a refusal by its limits looks like. Default: the file's.
    pub(super) reject: Option<Reject>,
    /// The protocols that clients may switch to, such as websocket. Default: none.
    pub(super) upgrade: Option<Vec<Scalar<Protocol>>>,
    /// How long to wait on this route. Default: the file's.
    pub(super) timeouts: Option<RouteTimeouts>,
    /// When a request that a server may have begun with is sent to another one. Default: never.
    pub(super) retries: Option<Spanned<Retries>>,
    /// What is changed in the headers that the upstream gets. Default: nothing.
    pub(super) request_headers: Option<WrittenHeaderEdits>,
    /// What is changed in the headers of the upstream's answer. Default: nothing.
    pub(super) response_headers: Option<WrittenHeaderEdits>,
    /// The first segments of the path, which the upstream does not get. Default: it gets all.
    pub(super) strip_prefix: Option<Scalar<PathPattern>>,
    /// The host that the upstream gets: keep, upstream or a name. Default: keep.
    pub(super) upstream_host: Option<Scalar<UpstreamHost>>,
    /// Where requests without TLS are sent: https or https:PORT. Default: they are served.
    pub(super) redirect: Option<Scalar<HttpsPort>>,
    /// Which pages of other origins may read its answers. Default: as the upstream says.
    pub(super) cors: Option<Cors>,
    /// Whether the upstream ignores the case of letters in a path, and dots at the end of a segment. Default: false.
    pub(super) case_insensitive: Option<Scalar<bool>>,
    /// What becomes of %2F and %5C in paths: reject or keep. Default: reject.
    pub(super) encoded_slashes: Option<Scalar<EncodedSlashes>>,
}
