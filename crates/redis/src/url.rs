//! Redis URLs: servers, logins, TLS. A URL with an unknown part is refused: the user may have meant a password or TLS, and the gateway
//! would connect without them.
//!
//! Errors contain no part of a URL, because a URL may have a password.

use std::net::Ipv6Addr;
use std::path::PathBuf;

/// The reason why a Redis URL was refused. It contains no part of the URL, because the URL may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidUrl(&'static str);

impl InvalidUrl {
    /// Returns the reason, or `None` if the text does not look like a Redis URL.
    pub fn reason(&self) -> Option<&'static str> {
        (*self != FORM && *self != SCHEME).then_some(self.0)
    }
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The servers that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Server(Address),
    Unix(PathBuf),
    /// Sentinels. Each sentinel returns the address of the primary of `service`.
    Sentinels {
        hosts: Vec<Address>,
        service: String,
        login: Login,
    },
    /// Nodes of a Redis Cluster. Each node returns the addresses of the other nodes.
    Cluster(Vec<Address>),
}

/// A user and a password. Both are optional.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

/// The content of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) topology: Topology,
    pub(crate) tls: bool,
    pub(crate) login: Login,
    pub(crate) database: Option<u8>,
}

const FORM: InvalidUrl =
    InvalidUrl("a Redis URL looks like redis://[user:password@]host:port[/database]");
const SCHEME: InvalidUrl = InvalidUrl(
    "a Redis URL begins with redis://, rediss://, redis-sentinel://, rediss-sentinel://, redis-cluster://, \
     rediss-cluster:// or unix://",
);
const PARAMETER: InvalidUrl = InvalidUrl("this Redis URL has an unknown parameter");
const ONE_SERVER: InvalidUrl =
    InvalidUrl("several servers need redis-cluster:// or redis-sentinel://");
const SERVICE: InvalidUrl =
    InvalidUrl("a sentinel URL needs the name of a service: add ?sentinelServiceName=NAME");
const NO_DATABASE: InvalidUrl = InvalidUrl("a Redis Cluster has no databases but 0");
const SOCKET: InvalidUrl =
    InvalidUrl("a socket looks like unix://[user:password@]/path/to/redis.sock[?db=0]");

const QUOTED: InvalidUrl =
    InvalidUrl("this Redis URL begins with a quotation mark: remove the marks around it");
const ONE_SCHEME: InvalidUrl =
    InvalidUrl("the scheme of a Redis URL is written once, before the first host");
const USER_ALONE: InvalidUrl = InvalidUrl(
    "the password in a Redis URL stands behind a colon, with or without a user: `:PASSWORD@host` or `USER:PASSWORD@host`",
);
const PERCENT: InvalidUrl =
    InvalidUrl("a `%` in the user or password of a Redis URL is written %25");
const DATABASE: InvalidUrl = InvalidUrl("the database of a Redis URL is a number from 0 to 255");
const BRACKETS: InvalidUrl =
    InvalidUrl("an IPv6 address in a Redis URL stands in brackets: redis://[fd00::1]:6379");

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// The URL has none of the forms in docs/sharing.md.
    pub(crate) fn parse(url: &str) -> Result<Self, InvalidUrl> {
        if url.starts_with(['"', '\'']) {
            return Err(QUOTED);
        }
        let (scheme, rest) = url.split_once("://").ok_or(SCHEME)?;
        if rest.contains("://") {
            return Err(ONE_SCHEME);
        }
        // `#` and whitespace end a URL or a part of a URL, so a password must contain them as `%23` and `%20`.
        if rest.contains(|c: char| c == '#' || c.is_whitespace() || c.is_control()) {
            return Err(FORM);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query = Query::parse(query)?;
        let (login, rest) = login(rest)?;
        let (hosts, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (scheme, tls) = match scheme {
            "unix" | "redis+unix" => {
                if !hosts.is_empty() || path.len() < 2 {
                    return Err(SOCKET);
                }
                let number = query.take("db").map(|db| database(&db)).transpose()?;
                query.is_used_up()?;
                let topology = Topology::Unix(decoded(path)?.into());
                return Ok(Self {
                    topology,
                    tls: false,
                    login,
                    database: selected(number),
                });
            }
            "redis" | "redis-cluster" | "redis-sentinel" => (scheme, false),
            "rediss" => ("redis", true),
            "rediss-cluster" => ("redis-cluster", true),
            "rediss-sentinel" => ("redis-sentinel", true),
            _ => return Err(SCHEME),
        };
        let number = match path {
            "" | "/" => None,
            // Other programs expect the name of the service here. So a path that is no number causes the error about `sentinelServiceName`.
            path if scheme == "redis-sentinel" => Some(database(&path[1..]).map_err(|_| SERVICE)?),
            path => Some(database(&path[1..])?),
        };
        let default_port = if scheme == "redis-sentinel" {
            SENTINEL_PORT
        } else {
            REDIS_PORT
        };
        let mut hosts: Vec<Address> = hosts
            .split(',')
            .map(|host| address(host, Some(default_port)))
            .collect::<Result<_, _>>()?;
        if scheme != "redis" {
            while let Some(node) = query.take("node") {
                hosts.push(address(&node, None)?);
            }
        }
        let topology = match scheme {
            "redis-cluster" if selected(number).is_some() => {
                return Err(NO_DATABASE);
            }
            "redis-cluster" => Topology::Cluster(hosts),
            "redis-sentinel" => Topology::Sentinels {
                hosts,
                service: query
                    .take("sentinelServiceName")
                    .filter(|name| !name.is_empty())
                    .ok_or(SERVICE)?,
                login: Login {
                    user: query.take("sentinelUsername"),
                    password: query.take("sentinelPassword"),
                },
            },
            _ => match <[Address; 1]>::try_from(hosts) {
                Ok([host]) => Topology::Server(host),
                Err(_) => return Err(ONE_SERVER),
            },
        };
        query.is_used_up()?;
        Ok(Self {
            topology,
            tls,
            login,
            database: selected(number),
        })
    }
}

/// Checks a URL, without connecting.
///
/// # Errors
///
/// The URL has none of the forms in docs/sharing.md.
pub fn check_url(url: &str) -> Result<(), InvalidUrl> {
    Target::parse(url).map(drop)
}

/// Whether a URL requires TLS.
pub fn is_tls(url: &str) -> bool {
    Target::parse(url).is_ok_and(|target| target.tls)
}

/// The parameters of a URL that `Target::parse` has not read yet.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(PARAMETER)?;
            pairs.push((name.to_owned(), decoded(value)?));
        }
        Ok(Self(pairs))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.remove(at).1)
    }

    fn is_used_up(&self) -> Result<(), InvalidUrl> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(PARAMETER)
        }
    }
}

/// Returns the login before the last `@`, and the text after the `@`. Without `@` the login is empty.
fn login(text: &str) -> Result<(Login, &str), InvalidUrl> {
    let end = text.find('/').unwrap_or(text.len());
    let Some(at) = text[..end].rfind('@') else {
        return Ok((Login::default(), text));
    };
    let (user, password) = text[..at].split_once(':').ok_or(USER_ALONE)?;
    let given = |text: &str| {
        let text = decoded(text).map_err(|_| PERCENT)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    };
    let (user, password) = (given(user)?, given(password)?);
    let login = Login {
        // fred does not send a user without a password, so a missing password becomes an empty text.
        password: password.or_else(|| user.as_ref().map(|_| String::new())),
        user,
    };
    Ok((login, &text[at + 1..]))
}

/// Parses a host and a port. An IPv6 address must be in brackets.
fn address(text: &str, default_port: Option<u16>) -> Result<Address, InvalidUrl> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(FORM)?;
            host.parse::<Ipv6Addr>().map_err(|_| FORM)?;
            match port {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':').ok_or(FORM)?)),
            }
        }
        None if is_bare_ipv6(text) => return Err(BRACKETS),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() || !(text.starts_with('[') || host.chars().all(name)) {
        return Err(FORM);
    }
    let port = match port {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => port.parse().map_err(|_| FORM)?,
        Some(_) => return Err(FORM),
        None => default_port.ok_or(FORM)?,
    };
    if port == 0 {
        return Err(FORM);
    }
    Ok(Address {
        host: host.to_owned(),
        port,
    })
}

/// Whether this is an IPv6 address without brackets, with or without a port.
fn is_bare_ipv6(text: &str) -> bool {
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    [text, host]
        .iter()
        .any(|host| host.parse::<Ipv6Addr>().is_ok())
}

fn database(text: &str) -> Result<u8, InvalidUrl> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(DATABASE)
}

/// Returns the database that a connection must select. Returns `None` for 0, the initial database, because a user may lack the right to
/// `SELECT`.
fn selected(number: Option<u8>) -> Option<u8> {
    number.filter(|number| *number != 0)
}

/// Decodes percent-encoded text, in which `%40` means `@`.
fn decoded(text: &str) -> Result<String, InvalidUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit().ok_or(FORM)?, digit().ok_or(FORM)?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| FORM)?);
    }
    String::from_utf8(bytes).map_err(|_| FORM)
}

#[cfg(test)]
mod tests;
