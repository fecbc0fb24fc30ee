//! Envoy's `RateLimitService`, version 3: reads calls and writes replies. The service leaves the decision to its caller.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{self, Struct};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tonic::codegen::Service as _;
use tonic_health::ServingStatus;
use tonic_health::pb::health_check_response;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The path of calls to the `RateLimitService`.
pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The path of health checks.
pub const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";

/// The most bytes of a call. Envoy's own calls have a few hundred.
const MAX_CALL: usize = 64 * 1024;
/// The most descriptors of a call.
pub const MAX_DESCRIPTORS: usize = 100;
/// The most entries of a descriptor.
const MAX_ENTRIES: usize = 32;

/// A call of the `RateLimitService`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The domain, which has its own limits.
    pub domain: String,
    /// The descriptors of one request of a client.
    pub descriptors: Vec<CallDescriptor>,
}

/// A descriptor of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDescriptor {
    /// The keys and values, in the order of the call.
    pub entries: Vec<(Box<str>, Box<str>)>,
    /// The cost. 0 asks without a charge.
    pub hits: u64,
    /// The numbers that the caller sets, which can only lower the limit: requests and seconds.
    pub lower: Option<(u64, u64)>,
    /// Whether the caller gives `hits` back.
    pub is_refund: bool,
}

/// The reason why a call is refused as a whole.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call does not fit the protocol, or is out of bounds.
    #[error("{0}")]
    Invalid(String),
    /// The gateway cannot decide at the moment.
    #[error("{0}")]
    Unavailable(&'static str),
}

/// The reply to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Whether a limit refuses the request.
    pub is_over: bool,
    /// The status of each descriptor, in the order of the call.
    pub statuses: Vec<Status>,
    /// Headers for the answer to the client.
    pub headers: HeaderMap,
    /// The body of a refusal to the client.
    pub body: Bytes,
    /// Facts about the decision, for Envoy's access log.
    pub facts: Vec<(&'static str, Fact)>,
}

/// A value of the dynamic metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
}

/// The status of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether a limit of the descriptor refuses the request.
    pub is_over: bool,
    /// The tightest limit of the descriptor. `None` if no limit was charged.
    pub limit: Option<StatusLimit>,
}

/// The limit that a status describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLimit {
    /// The limit's name.
    pub name: String,
    /// The most units.
    pub capacity: u64,
    /// The time in which the capacity is free again, in microseconds.
    pub period: u64,
    /// The units that are left.
    pub remaining: u64,
    /// The time until all units are free, or until the request would be admitted, in microseconds.
    pub reset: u64,
    /// The time until all units are free, in microseconds.
    pub free: u64,
}

impl Call {
    /// Reads a call.
    ///
    /// # Errors
    ///
    /// The call is out of bounds.
    fn read(message: RateLimitRequest) -> Result<Self, CallError> {
        let count = message.descriptors.len();
        if count > MAX_DESCRIPTORS {
            let text = format!("a call has at most {MAX_DESCRIPTORS} descriptors, not {count}");
            return Err(CallError::Invalid(text));
        }
        // The protocol defines 0 of a call as 1. Only the number of a descriptor can be 0.
        let hits = u64::from(message.hits_addend.max(1));
        let descriptors = message.descriptors.into_iter();
        let descriptors = descriptors.map(|it| CallDescriptor::read(it, hits));
        Ok(Self {
            domain: message.domain,
            descriptors: descriptors.collect::<Result<_, _>>()?,
        })
    }
}

impl CallDescriptor {
    fn read(message: RateLimitDescriptor, hits: u64) -> Result<Self, CallError> {
        if message.entries.len() > MAX_ENTRIES {
            let text = format!("a descriptor has at most {MAX_ENTRIES} entries");
            return Err(CallError::Invalid(text));
        }
        let lower = message.limit.and_then(|limit| {
            let seconds = seconds(limit.unit)?;
            Some((u64::from(limit.requests_per_unit), seconds))
        });
        let entries = message.entries.into_iter();
        Ok(Self {
            entries: entries
                .map(|entry| (entry.key.into(), entry.value.into()))
                .collect(),
            hits: message.hits_addend.map_or(hits, |own| own.value),
            lower,
            is_refund: message.is_negative_hits,
        })
    }
}

/// Returns the length of a unit, in seconds. `unit` is a number of the enum `RateLimitUnit`.
const fn seconds(unit: i32) -> Option<u64> {
    const DAY: u64 = 86_400;
    Some(match unit {
        1 => 1,
        2 => 60,
        3 => 3_600,
        4 => DAY,
        5 => 30 * DAY,
        6 => 365 * DAY,
        7 => 7 * DAY,
        _ => return None,
    })
}

/// Returns the unit of a period in microseconds. `Unknown` if no unit has this length.
fn unit(period: u64) -> Unit {
    let units = [
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::Day,
        Unit::Week,
        Unit::Month,
        Unit::Year,
    ];
    let mut units = units.into_iter();
    let fits = |unit: &Unit| {
        let length = seconds(*unit as i32);
        length.is_some_and(|seconds| seconds.saturating_mul(1_000_000) == period)
    };
    units.find(fits).unwrap_or(Unit::Unknown)
}

impl From<Reply> for RateLimitResponse {
    fn from(reply: Reply) -> Self {
        let headers = reply.headers.iter().map(|(name, value)| HeaderValue {
            key: name.as_str().to_owned(),
            value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
            ..HeaderValue::default()
        });
        let facts = reply.facts.into_iter().map(|(name, fact)| {
            let kind = match fact {
                Fact::Text(text) => Kind::StringValue(text),
                Fact::Number(number) => Kind::NumberValue(number as f64),
            };
            (name.to_owned(), protobuf::Value { kind: Some(kind) })
        });
        let metadata = Struct {
            fields: facts.collect(),
        };
        Self {
            overall_code: code(reply.is_over),
            statuses: reply.statuses.into_iter().map(Into::into).collect(),
            response_headers_to_add: headers.collect(),
            raw_body: reply.body.into(),
            dynamic_metadata: Some(metadata).filter(|it| !it.fields.is_empty()),
            ..Self::default()
        }
    }
}

impl From<Status> for DescriptorStatus {
    fn from(status: Status) -> Self {
        let Some(limit) = status.limit else {
            return Self {
                code: code(status.is_over),
                ..Self::default()
            };
        };
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            code: code(status.is_over),
            current_limit: Some(RateLimit {
                name: limit.name,
                requests_per_unit: number(limit.capacity),
                unit: unit(limit.period).into(),
            }),
            limit_remaining: number(limit.remaining),
            duration_until_reset: Some(protobuf::Duration {
                seconds: i64::try_from(limit.reset.div_ceil(1_000_000)).unwrap_or(i64::MAX),
                nanos: 0,
            }),
            quota: None,
        }
    }
}

fn code(is_over: bool) -> i32 {
    match is_over {
        true => Code::OverLimit.into(),
        false => Code::Ok.into(),
    }
}

/// The service around the function that decides calls.
struct Limits<D>(D);

#[tonic::async_trait]
impl<D, F> RateLimitService for Limits<D>
where
    D: Fn(Call) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Reply, CallError>> + Send,
{
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        let call = Call::read(request.into_inner());
        let reply = match call {
            Ok(call) => (self.0)(call).await,
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => Ok(tonic::Response::new(reply.into())),
            Err(CallError::Invalid(text)) => Err(tonic::Status::invalid_argument(text)),
            Err(CallError::Unavailable(text)) => Err(tonic::Status::unavailable(text)),
        }
    }
}

/// Answers a call of the `RateLimitService` by `decide`.
pub async fn rate_limit_service<B, D, F>(request: Request<B>, decide: D) -> Response<RpcBody>
where
    B: Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    D: Fn(Call) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Reply, CallError>> + Send,
{
    let service = RateLimitServiceServer::new(Limits(decide));
    let mut service = service.max_decoding_message_size(MAX_CALL);
    let Ok(response) = service.call(request).await;
    response.map(RpcBody)
}

/// The health service.
struct Readiness(bool);

#[tonic::async_trait]
impl Health for Readiness {
    type WatchStream = tonic_health::server::WatchStream;

    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, tonic::Status> {
        let name = request.into_inner().service;
        if !name.is_empty() && name != "envoy.service.ratelimit.v3.RateLimitService" {
            return Err(tonic::Status::not_found("no service has this name"));
        }
        let status = match self.0 {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        let status = health_check_response::ServingStatus::from(status).into();
        Ok(tonic::Response::new(HealthCheckResponse { status }))
    }

    async fn watch(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, tonic::Status> {
        Err(tonic::Status::unimplemented("call Check in place of Watch"))
    }
}

/// Answers a health check of gRPC.
pub async fn health_service<B>(request: Request<B>, is_ready: bool) -> Response<RpcBody>
where
    B: Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let service = HealthServer::new(Readiness(is_ready));
    let mut service = service.max_decoding_message_size(MAX_CALL);
    let Ok(response) = service.call(request).await;
    response.map(RpcBody)
}

/// Returns the time that the caller waits for a reply, by its header `grpc-timeout`: digits, and H, M, S, m, u or n for the unit.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The body of a reply, with gRPC's trailers.
#[derive(Debug)]
pub struct RpcBody(tonic::body::Body);

impl Body for RpcBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.0).poll_frame(context);
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests;
