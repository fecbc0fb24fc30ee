//! The formats.

use std::fmt;

use crate::error::FormatError;
use crate::field::{Field, Fields};
use crate::lines::{cloudfront, template};
use crate::names::{Names, Vocabulary};

/// The form of the lines of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// tidegate's access log with `format: json`.
    TidegateJson,
    /// tidegate's access log with `format: text`.
    TidegateText,
    /// The Common Log Format, as nginx, Apache and tidegate write it.
    Common,
    /// The Combined Log Format.
    Combined,
    /// One JSON object per line, with nginx's variables as names.
    NginxJson,
    /// Envoy's default format.
    Envoy,
    /// Traefik's format `common`.
    Traefik,
    /// Traefik's format `json`.
    TraefikJson,
    /// HAProxy's `option httplog`.
    Haproxy,
    /// AWS Application Load Balancer.
    Alb,
    /// CloudFront's standard log.
    CloudFront,
    /// Caddy's JSON.
    Caddy,
    /// Apache's `vhost_combined`: the virtual host before the Combined Log Format.
    VhostCombined,
    /// The `main` of nginx's packages: the Combined Log Format and `X-Forwarded-For`.
    NginxMain,
    /// The Combined Log Format, followed by the duration of the request.
    CombinedTimed,
    /// The default format of ingress-nginx.
    IngressNginx,
    /// One JSON object per line. The text has pairs of a field and its path in the object, such as `client=$.user.name`.
    Map(String),
    /// A template in the manner of nginx's `log_format`.
    Template(String),
}

impl Format {
    /// The formats that have names.
    pub const NAMED: &[(&str, Self)] = &[
        ("tidegate-json", Self::TidegateJson),
        ("tidegate-text", Self::TidegateText),
        ("combined", Self::Combined),
        ("common", Self::Common),
        ("nginx-json", Self::NginxJson),
        ("envoy", Self::Envoy),
        ("traefik", Self::Traefik),
        ("traefik-json", Self::TraefikJson),
        ("haproxy", Self::Haproxy),
        ("alb", Self::Alb),
        ("cloudfront", Self::CloudFront),
        ("caddy", Self::Caddy),
        ("vhost-combined", Self::VhostCombined),
        ("nginx-main", Self::NginxMain),
        ("combined-timed", Self::CombinedTimed),
        ("ingress-nginx", Self::IngressNginx),
    ];

    /// Reads the name of a format, or a template in the manner of nginx's `log_format`. A text with a `$` is a template.
    ///
    /// # Errors
    ///
    /// The text is neither the name of a format nor a valid template.
    pub fn read(text: &str) -> Result<Self, FormatError> {
        if text.contains('$') {
            template::compile(text)?;
            return Ok(Self::Template(text.to_owned()));
        }
        let named = Self::NAMED.iter().find(|it| it.0 == text);
        named.map(|it| it.1.clone()).ok_or_else(|| {
            let names: Vec<_> = Self::NAMED.iter().map(|it| it.0).collect();
            let names = names.join(", ");
            FormatError(format!(
                "there is no format `{}`; there are {names}, and templates such as '$remote_addr [$time_local] \"$request\" $status'",
                text.escape_debug()
            ))
        })
    }

    /// Reads `--map`: pairs such as `time=$.ts,client=$.user.name,path=$.request.path` for lines that are JSON.
    ///
    /// # Errors
    ///
    /// The text is not a list of such pairs, or no pair is for a time.
    pub fn map(text: &str) -> Result<Self, FormatError> {
        crate::map::compile(text)?;
        Ok(Self::Map(text.to_owned()))
    }

    /// Returns the name. Formats without a name are `map` or `template`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Map(_) => "map",
            Self::Template(_) => "template",
            _ => {
                let named = Self::NAMED.iter().find(|it| it.1 == *self);
                named.map_or("unknown", |it| it.0)
            }
        }
    }

    /// Returns the fields that lines in any log of this format can have. A log can have further fields, which its lines show. An
    /// [`Entry`](crate::Entry) has the fields of its log.
    pub fn fields(&self) -> Fields {
        use Field::{
            BytesIn, BytesOut, DecidedBy, DeniedBy, Duration, Exempt, ForwardedFor, Host, Id,
            Limit, Method, Path, Peer, Plan, Protocol, Query, RefusedBy, Route, Scheme, Status,
            UpstreamStatus, User, Waited, WouldRefuse,
        };
        let common = [Peer, User, Method, Path, Query, Protocol, Status, BytesOut];
        let lists: &[&[Field]] = match self {
            // Users choose the fields of the log. The fields listed here have no value for most requests, and lines leave out fields
            // without a value. So every log is assumed to have these fields.
            Self::TidegateJson | Self::TidegateText => &[
                &[Route, Plan, Limit, RefusedBy, DecidedBy, WouldRefuse],
                &[Exempt, DeniedBy, Waited],
            ],
            // Some logs of these formats have durations. The lines of each log show this, so `Duration` is not listed here.
            Self::Common | Self::Combined | Self::CombinedTimed => &[&common],
            Self::VhostCombined => &[&common, &[Host]],
            Self::NginxMain => &[&common, &[ForwardedFor]],
            Self::IngressNginx => &[&common, &[Duration, BytesIn, UpstreamStatus, Id]],
            Self::Traefik => &[&common, &[Duration]],
            Self::TraefikJson => &[&common, &[Duration, Host, Scheme, BytesIn, UpstreamStatus]],
            Self::Envoy => &[
                &[Method, Path, Query, Protocol, Status, BytesOut],
                &[BytesIn, Duration, ForwardedFor, Id, Host],
            ],
            Self::Haproxy => &[
                &[Peer, Method, Path, Query, Protocol, Status, BytesOut],
                &[Duration],
            ],
            Self::Alb => &[
                &[Peer, Method, Path, Query, Protocol, Status, BytesOut],
                &[Scheme, Host, BytesIn, Duration, UpstreamStatus],
            ],
            Self::NginxJson | Self::Caddy | Self::CloudFront | Self::Map(_) | Self::Template(_) => {
                &[]
            }
        };
        let mut fields = Fields::default();
        let lists = lists.iter().copied().flatten();
        lists.for_each(|field| fields.add(*field));
        let headers = self.headers().iter();
        headers.for_each(|name| fields.add_header(name));
        match self {
            Self::CloudFront => {
                let mut names = Names::new(Vocabulary::Listed);
                return cloudfront::Columns::new(&mut names).fields(&names);
            }
            Self::Template(text) => {
                if let Ok((_, names)) = template::compile(text) {
                    Names::add_fields(&[names], &mut fields);
                }
            }
            Self::Map(text) => {
                let objects = crate::map::compile(text).unwrap_or_default();
                Names::add_fields(&objects, &mut fields);
            }
            _ => {}
        }
        fields
    }

    /// Returns the request headers that lines in any log of this format can have, in the order of their numbers in `Meaning::Header`.
    pub(crate) const fn headers(&self) -> &'static [&'static str] {
        match self {
            Self::Combined
            | Self::VhostCombined
            | Self::NginxMain
            | Self::CombinedTimed
            | Self::IngressNginx
            | Self::Traefik => &["referer", "user-agent"],
            Self::Envoy | Self::Alb => &["user-agent"],
            _ => &[],
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
