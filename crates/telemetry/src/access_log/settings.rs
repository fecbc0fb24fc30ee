//! Settings of the access log: the format of its lines, and the requests that get a line.

use std::path::PathBuf;
use std::time::Duration;

use crate::outcome::RequestOutcome;

/// The settings of an access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// The file to which lines are appended. If `None`, lines are written to standard error.
    pub file: Option<PathBuf>,
    /// The format of a line.
    pub format: AccessFormat,
    /// The conditions of which a request must meet at least one to get a line. If `None`, there are no conditions.
    pub filter: Option<AccessFilter>,
    /// The share of forwarded requests that get a line, in millionths. Server errors and observed refusals always get a line.
    pub sample: u32,
    /// The most lines per second of requests that the gateway refused. If `None`, there is no bound.
    pub max_refusals_per_second: Option<u32>,
}

impl AccessLogSettings {
    /// The [`sample`](Self::sample) that includes all requests.
    pub const ALL: u32 = 1_000_000;
}

/// The format of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessFormat {
    /// Fields as `name=value`, for people. Fields without a value are left out.
    Text(Vec<AccessField>),
    /// One JSON object per line, with these fields as members. Fields without a value are left out.
    Json(Vec<AccessField>),
    /// The Common Log Format.
    Common,
    /// The Combined Log Format: the Common Log Format with referer and user agent.
    Combined,
    /// A template.
    Template(Vec<AccessPiece>),
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessPiece {
    /// Literal text.
    Text(String),
    /// A field's value, or `-`.
    Field(AccessField),
}

/// The reason why a text is not a valid template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// The text has a line break or another control character.
    ControlCharacter,
    /// A `${` has no `}`.
    Unclosed,
    /// The access log has no field with this name.
    NoField(String),
}

impl AccessPiece {
    /// Reads a template: `$name` and `${name}` are fields, `$$` is a `$`.
    ///
    /// # Errors
    ///
    /// The text is not a valid template.
    pub fn template(text: &str) -> Result<Vec<Self>, TemplateError> {
        if text.contains(|c: char| c.is_control()) {
            return Err(TemplateError::ControlCharacter);
        }
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('$') {
            plain.push_str(before);
            if let Some(behind) = behind.strip_prefix('$') {
                plain.push('$');
                rest = behind;
                continue;
            }
            let (name, behind) = match behind.strip_prefix('{') {
                Some(inner) => inner.split_once('}').ok_or(TemplateError::Unclosed)?,
                None => {
                    let end = behind.find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
                    behind.split_at(end.unwrap_or(behind.len()))
                }
            };
            let field =
                AccessField::named(name).ok_or_else(|| TemplateError::NoField(name.to_owned()))?;
            if !plain.is_empty() {
                pieces.push(Self::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Self::Field(field));
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Self::Text(plain));
        }
        Ok(pieces)
    }
}

/// The conditions for a line. A request that meets none of these conditions gets no line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessFilter {
    /// The statuses, as ranges with both ends included.
    pub statuses: Vec<(u16, u16)>,
    /// The outcomes.
    pub outcomes: Vec<RequestOutcome>,
    /// Requests that took at least this time.
    pub duration: Option<Duration>,
}

macro_rules! fields {
    ($($name:ident $word:literal $is_default:literal,)*) => {
        /// A field of the access log. docs/operations.md defines each field.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "docs/operations.md has a row for each, which a test checks")]
        pub enum AccessField {
            $($name,)*
        }

        impl AccessField {
            /// All fields, in the order of a line.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name, in lines and in the configuration.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// Whether text and JSON lines have the field by default.
            pub const fn is_default(self) -> bool {
                match self {
                    $(Self::$name => $is_default,)*
                }
            }
        }
    };
}

fields! {
    Time "time" false,
    TimeLocal "time_local" false,
    Id "id" true,
    TraceId "trace_id" true,
    Method "method" true,
    Host "host" true,
    Path "path" true,
    Protocol "protocol" true,
    Status "status" true,
    Outcome "outcome" true,
    Error "error" true,
    Cut "cut" true,
    Route "route" true,
    Door "door" true,
    Peer "peer" true,
    PeerPort "peer_port" false,
    ClientIp "client_ip" true,
    Client "client" true,
    UserAgent "user_agent" false,
    Referer "referer" false,
    Plan "plan" true,
    Limit "limit" true,
    RefusedBy "refused_by" true,
    DecidedBy "decided_by" true,
    DecidedAt "decided_at" false,
    WouldRefuse "would_refuse" true,
    Exempt "exempt" true,
    DeniedBy "denied_by" true,
    Remaining "remaining" false,
    RetryAfter "retry_after" true,
    Cost "cost" false,
    BytesIn "bytes_in" true,
    BytesOut "bytes_out" true,
    Upstream "upstream" true,
    UpstreamStatus "upstream_status" true,
    Attempts "attempts" true,
    WaitedUs "waited_us" true,
    StoreUs "store_us" true,
    UpstreamUs "upstream_us" true,
    TotalUs "total_us" true,
    Lost "lost" false,
}

impl AccessField {
    /// Returns the field of this name.
    pub fn named(name: &str) -> Option<Self> {
        let field = Self::ALL.iter().find(|field| field.name() == name);
        field.copied()
    }

    /// Returns the default fields of text and JSON lines.
    pub fn default_fields() -> Vec<Self> {
        let fields = Self::ALL.iter().copied();
        fields.filter(|field| field.is_default()).collect()
    }
}
