//! Causes of failed connections, from fred's errors.

use fred::error::{Error, ErrorKind};

use super::super::error::CallError;
use super::super::error_reply::{ErrorReply, code};
use super::super::route::Route;
use super::super::tls;
use super::super::url::{Address, Topology};
use super::sentinels::Sentinels;

/// Returns why a connection on this route failed or ended.
pub(super) fn cause(error: &Error, route: &Route, sentinels: Option<&Sentinels>) -> CallError {
    let details = error.details();
    let is_tls = route.tls.is_some();
    if is_tls && let Some(reason) = tls::reason(details) {
        return CallError::Tls(reason);
    }
    if let Some(code) = code(details) {
        let reply = ErrorReply::without(details, route.secrets());
        // A server without ACL answers `ERR AUTH <password> called without any password configured…`.
        let is_login = match code {
            "WRONGPASS" | "NOAUTH" => true,
            "ERR" => details.contains("AUTH"),
            _ => false,
        };
        return match is_login {
            true => CallError::Login(reply),
            false => CallError::Refused(reply),
        };
    }
    if is_tls && *error.kind() == ErrorKind::Timeout {
        let reason = "there was no handshake in time; the port may be one without TLS";
        return CallError::Tls(reason.into());
    }
    let unreachable = unreachable(error, route, sentinels);
    unreachable.map_or(CallError::Disconnected, |cause| {
        CallError::Unreachable(cause.into())
    })
}

/// Returns why the server cannot be reached, or `None` if fred's error does not show it.
fn unreachable(error: &Error, route: &Route, sentinels: Option<&Sentinels>) -> Option<String> {
    let details = error.details();
    if let Topology::Sentinels { service, .. } = &route.to {
        if details.contains("Missing primary address") {
            return Some(format!(
                "the sentinels know no primary called `{service}`: check `sentinelServiceName` in `url`"
            ));
        }
        if details.contains("all sentinel nodes") {
            return sentinels?.cause();
        }
        if details.contains("Invalid role") {
            return Some("the server that the sentinels name is no primary".to_owned());
        }
    }
    let cause = if let Some(code) = os_code(details) {
        os_error(code)
    } else if let Some((_, behind)) = details.split_once("failed to lookup address information: ") {
        let reason = behind.split('"').next().unwrap_or_default();
        format!("the name is not resolved ({reason})")
    } else if details.contains("Failed to resolve") {
        "the name is not resolved".to_owned()
    } else if details.contains("timed out") {
        "no answer in time".to_owned()
    } else if *error.kind() == ErrorKind::Protocol {
        "the answer is none of Redis".to_owned()
    } else if *error.kind() == ErrorKind::IO {
        "the server closed the connection".to_owned()
    } else {
        return None;
    };
    Some(format!("{}: {cause}", place(route)))
}

/// Returns the server of a route as text.
fn place(route: &Route) -> String {
    let place = match &route.to {
        Topology::Server(Address { host, port }) => format!("{host}:{port}"),
        Topology::Unix(path) => path.display().to_string(),
        Topology::Sentinels { .. } => "the primary that the sentinels name".to_owned(),
        Topology::Cluster(_) => "the cluster".to_owned(),
    };
    match route.is_announced {
        true => format!("{place}, an address that the cluster announces"),
        false => place,
    }
}

/// Reads the code from a system error such as `Os { code: 111, kind: ConnectionRefused, message: "…" }`.
fn os_code(details: &str) -> Option<i32> {
    let (_, behind) = details.split_once("Os { code: ")?;
    behind.split(',').next()?.parse().ok()
}

/// Returns the system's text for an error code, such as `connection refused`.
fn os_error(code: i32) -> String {
    let text = std::io::Error::from_raw_os_error(code).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::CONNECT;
    use crate::url::Target;

    fn shown(url: &str, kind: ErrorKind, details: &'static str) -> String {
        let route = Route::to(Target::parse(url).unwrap(), None, CONNECT);
        cause(&Error::new(kind, details), &route, None).to_string()
    }

    #[test]
    fn a_cause_names_the_server_and_no_secret() {
        let at = |kind, details| shown("redis://alice:hunter2@db:6380", kind, details);
        let refused = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        let lookup = "Custom { kind: Uncategorized, error: \"failed to lookup address information: Name or service not known\" }";
        for (kind, details, expected) in [
            (ErrorKind::IO, refused, "db:6380: connection refused"),
            (
                ErrorKind::IO,
                lookup,
                "db:6380: the name is not resolved (Name or service not known)",
            ),
            (
                ErrorKind::Timeout,
                "Request timed out.",
                "db:6380: no answer in time",
            ),
            (
                ErrorKind::Protocol,
                "Could not parse: H",
                "db:6380: the answer is none of Redis",
            ),
            (
                ErrorKind::IO,
                "Connection closed.",
                "db:6380: the server closed the connection",
            ),
        ] {
            let expected = format!("there is no connection to Redis: {expected}");
            assert_eq!(at(kind, details), expected);
        }
        assert_eq!(
            at(ErrorKind::Canceled, ""),
            "there is no connection to Redis"
        );
        let login = at(
            ErrorKind::Auth,
            "WRONGPASS invalid username-password pair, not hunter2",
        );
        assert!(
            login.contains("WRONGPASS invalid username-password pair, not ***"),
            "{login}"
        );
        let database = at(ErrorKind::Unknown, "ERR DB index is out of range");
        assert!(
            database.contains("ERR DB index is out of range"),
            "{database}"
        );
    }

    #[test]
    fn a_service_that_no_sentinel_knows_is_named() {
        let url = "redis-sentinel://a:1,b:2?sentinelServiceName=mian";
        let details = "Missing primary address in response from sentinel node.";
        let shown = shown(url, ErrorKind::Sentinel, details);
        assert!(shown.contains("no primary called `mian`"), "{shown}");
    }
}
