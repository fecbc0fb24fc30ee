//! Reasons why a command failed, from fred's error and Redis's error text.

use fred::error::{Error, ErrorKind};

use super::error::CallError;
use super::error_reply::code;
use super::url::Address;

/// The node to which Redis redirects a call by MOVED or ASK.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    /// The host of the target. `None` if it is the host of the node that redirects.
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
}

impl Redirect {
    /// Parses `MOVED 3999 127.0.0.1:6381`. The address may be IPv6, without brackets.
    fn parse(details: &str) -> Option<Self> {
        let mut words = details.split(' ').skip(1);
        let slot = words
            .next()?
            .parse()
            .ok()
            .filter(|slot| *slot < super::slots::SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = Some(host.to_owned()).filter(|host| !host.is_empty());
        Some(Self {
            slot,
            host,
            port: port.parse().ok()?,
        })
    }

    /// Returns the error for a caller that does not follow the redirect.
    fn refusal(&self, code: &str) -> CallError {
        let host = self.host.as_deref().unwrap_or_default();
        CallError::refused(&format!("{code} {} {host}:{}", self.slot, self.port))
    }

    /// Returns the target's address. `source` is the address of the node that redirects.
    pub(crate) fn address(&self, source: &Address) -> Address {
        let host = self.host.clone().unwrap_or_else(|| source.host.clone());
        Address {
            host,
            port: self.port,
        }
    }
}

/// The reason why a script returned no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Redis does not have the script, so the script did not run.
    NoScript,
    /// The key's slot belongs to another node. The script did not run.
    Moved(Redirect),
    /// The key's slot is moving to another node, which may already have the key. The script did not run.
    Ask(Redirect),
    /// Any other error.
    Other(CallError),
}

impl Failure {
    pub(crate) fn into_error(self) -> CallError {
        match self {
            Self::NoScript => CallError::refused("NOSCRIPT"),
            Self::Moved(to) => to.refusal("MOVED"),
            Self::Ask(to) => to.refusal("ASK"),
            Self::Other(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match (error.kind(), code(error.details())) {
            (ErrorKind::Timeout, _) => Self::Other(CallError::Timeout),
            (ErrorKind::IO | ErrorKind::Canceled | ErrorKind::Routing, _) => {
                Self::Other(CallError::Disconnected)
            }
            (_, Some("NOSCRIPT")) => Self::NoScript,
            (_, Some(code @ ("MOVED" | "ASK"))) => match Redirect::parse(error.details()) {
                Some(to) if code == "MOVED" => Self::Moved(to),
                Some(to) => Self::Ask(to),
                None => Self::Other(CallError::refused(code)),
            },
            (_, Some(_)) => Self::Other(CallError::refused(error.details())),
            // Redis's errors have a code. An unknown error without a code comes from fred, which found no connection for the command.
            (ErrorKind::Unknown, None) => Self::Other(CallError::Disconnected),
            (ErrorKind::Parse, None) => Self::Other(CallError::unknown_reply()),
            // An error without a code may come from fred, and may quote arguments. So its text is dropped.
            (_, None) => Self::Other(CallError::refused("an error without a code")),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_redis_keep_their_text_and_those_of_fred_do_not() {
        let error = |kind, details: &'static str| match Failure::from(Error::new(kind, details)) {
            Failure::NoScript => "no script".to_owned(),
            other => other.into_error().to_string(),
        };
        let by_redis = |details| error(ErrorKind::Unknown, details);
        assert_eq!(by_redis("NOSCRIPT No matching script."), "no script");
        let full = by_redis("OOM command not allowed");
        assert!(
            full.starts_with("Redis answered OOM command not allowed ("),
            "{full}"
        );
        let moved = by_redis("MOVED 3999 127.0.0.1:6381");
        assert!(
            moved.starts_with("Redis answered MOVED 3999 127.0.0.1:6381 ("),
            "{moved}"
        );
        let odd = error(ErrorKind::Protocol, "user alice:secret");
        assert_eq!(odd, "Redis answered an error without a code");
        // The errors of fred if a connection broke during a command.
        for (kind, details) in [
            (ErrorKind::IO, "Connection closed."),
            (ErrorKind::Unknown, "Failed to route command."),
            (ErrorKind::Unknown, "Too many failed write attempts."),
        ] {
            assert_eq!(error(kind, details), "there is no connection to Redis");
        }
    }

    #[test]
    fn redirects_are_read_and_nothing_is_made_up() {
        let read = |details: &str| Redirect::parse(details).map(|to| (to.slot, to.host, to.port));
        let host = |host: &str| Some(host.to_owned());
        assert_eq!(
            read("MOVED 3999 127.0.0.1:6381"),
            Some((3999, host("127.0.0.1"), 6381))
        );
        assert_eq!(read("ASK 16383 ::1:6381"), Some((16383, host("::1"), 6381)));
        assert_eq!(read("MOVED 0 :7000"), Some((0, None, 7000)));
        for bad in [
            "MOVED",
            "MOVED 16384 a:1",
            "MOVED x a:1",
            "ASK 1",
            "ASK 1 a",
            "ASK 1 a:99999",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
