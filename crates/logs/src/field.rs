//! The fields that a log can have.

macro_rules! fields {
    ($($name:ident $word:literal $doc:literal,)*) => {
        /// A value of a request that a line can have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = $doc] $name,)*
        }

        impl Field {
            /// All fields.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name, in messages and in `--map`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

fields! {
    ForwardedFor "forwarded_for" "`X-Forwarded-For`, as the proxy received it.",
    User "user" "The user, as HTTP authentication names it.",
    Method "method" "The method.",
    Path "path" "The path, without the query.",
    Query "query" "The query, without `?`.",
    Host "host" "The host that the request asked for, perhaps with a port.",
    Scheme "scheme" "`http` or `https`.",
    Protocol "protocol" "The version of HTTP, such as `HTTP/1.1`.",
    Client "client" "The client that tidegate named, such as `api_key:acme`.",
    Plan "plan" "The plan of the client.",
    Route "route" "The route.",
    Outcome "outcome" "What became of the request in tidegate, such as `forwarded` or `limited`.",
    Limit "limit" "The limit that the headers of tidegate's answer described.",
    RefusedBy "refused_by" "The limits that refused, with commas between them.",
    WouldRefuse "would_refuse" "The observed limits that would have refused, with commas between them.",
    Exempt "exempt" "The entry of `exempt` that matched.",
    DeniedBy "denied_by" "The entry of `deny` that matched.",
    DecidedBy "decided_by" "What decided in tidegate: `store`, `remembered`, `gateway` or `on_failure`.",
    Door "door" "The way in which another program asked tidegate about the request: `ask`, `check` or `rate_limit_service`.",
    Id "id" "The ID of the request.",
    Duration "duration" "How long the request took.",
    Peer "peer" "The address that connected.",
    ClientIp "client_ip" "The address that tidegate's limits per `ip` count.",
    Status "status" "The status of the answer.",
    UpstreamStatus "upstream_status" "The status of the upstream's answer.",
    BytesIn "bytes_in" "The bytes received.",
    BytesOut "bytes_out" "The bytes sent.",
    Cost "cost" "The highest cost that a limit of the request charged.",
    Waited "waited" "How long tidegate let the request wait.",
}

impl Field {
    /// Returns the field that has the value of this request header.
    pub(crate) const fn of_header(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("host") {
            Some(Self::Host)
        } else if name.eq_ignore_ascii_case("x-forwarded-for") {
            Some(Self::ForwardedFor)
        } else {
            None
        }
    }

    /// Returns the field of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Returns the field's bit, in a set of fields.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// The number of fields whose values are texts. They are the first fields in the list.
    pub(crate) const TEXTS: usize = Self::Duration as usize;
}

/// The fields that lines of a log can have. If users choose the fields, a log may have fewer fields than its format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    bits: u64,
    headers: Vec<Box<str>>,
}

impl Fields {
    pub(crate) fn add(&mut self, field: Field) {
        self.bits |= field.bit();
    }

    /// Adds fields, each given as a bit.
    pub(crate) const fn add_all(&mut self, fields: u64) {
        self.bits |= fields;
    }

    /// Whether the set has all of these fields, each given as a bit.
    pub(crate) const fn includes(&self, fields: u64) -> bool {
        fields & !self.bits == 0
    }

    pub(crate) fn add_header(&mut self, name: &str) {
        if !self.has_header(name) {
            self.headers.push(name.to_ascii_lowercase().into());
        }
    }

    /// Whether lines of the log can have this field. If not, no line has the field.
    pub const fn has(&self, field: Field) -> bool {
        self.bits & field.bit() != 0
    }

    /// Whether lines can have this request header. The case of its letters does not matter.
    pub fn has_header(&self, name: &str) -> bool {
        if let Some(field) = Field::of_header(name) {
            return self.has(field);
        }
        self.headers.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Returns the names of the request headers that lines can have, except `host` and `x-forwarded-for`. The names are in lower case.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|name| &**name)
    }
}
