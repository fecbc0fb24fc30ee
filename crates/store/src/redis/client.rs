//! fred, and every setting of it, in one place.
//!
//! Its defaults are not for counting: no command timeout, three attempts (a script may run three times), ten seconds
//! for a connection. What fred cannot do is done around it: the deadline of a decision is the store's own.

use std::time::Duration;

use fred::clients::Client as Fred;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike as _, KeysInterface as _, LuaInterface as _};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectError, ReconnectPolicy, TcpConfig,
    UnresponsiveConfig,
};
use fred::types::{Builder, ClientState, Expiration, SetOptions};

use crate::StoreError;

/// How long one connection may take to come up.
const CONNECT: Duration = Duration::from_millis(500);

/// How long to wait between attempts to reconnect; fred adds up to 100 ms of jitter.
const RECONNECT_MS: u32 = 100;

/// Why a Redis URL was refused. Says nothing of its content, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Redis URL; it looks like redis://[user:password@]host:port[/database]")]
pub struct InvalidUrl;

/// Why a script gave no reply.
pub(super) enum Failure {
    /// Redis does not know the script, and has run nothing.
    NoScript,
    /// Anything else.
    Other(StoreError),
}

impl Failure {
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::NoScript => StoreError::Refused("NOSCRIPT".into()),
            Self::Other(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match (error.kind(), code(error.details())) {
            (ErrorKind::Timeout, _) => Self::Other(StoreError::Timeout),
            (ErrorKind::IO | ErrorKind::Canceled | ErrorKind::Routing, _) => {
                Self::Other(StoreError::Disconnected)
            }
            (_, Some("NOSCRIPT")) => Self::NoScript,
            // Only the code: the rest may quote arguments.
            (_, Some(code)) => Self::Other(StoreError::Refused(code.to_owned())),
            // Redis's errors have a code. This one is fred's: it found no connection to write the command to.
            (ErrorKind::Unknown, None) => Self::Other(StoreError::Disconnected),
            (_, None) => Self::Other(StoreError::Refused("an error".to_owned())),
        }
    }
}

/// The first word of an error if it looks like Redis's own codes, which are in capitals.
fn code(details: &str) -> Option<&str> {
    let word = details.split(' ').next()?;
    let plain = word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    (plain && !word.is_empty()).then_some(word)
}

/// A connection to Redis that comes back by itself.
#[derive(Debug)]
pub(super) struct Client(Fred);

impl Client {
    /// Starts connecting, for ever.
    pub(super) fn start(url: &str, timeout: Duration) -> Result<Self, InvalidUrl> {
        let fred = Builder::from_config(parse(url)?)
            .set_connection_config(connection(timeout))
            .set_performance_config(performance(timeout))
            .set_policy(ReconnectPolicy::new_constant(0, RECONNECT_MS))
            .build()
            .map_err(|_| InvalidUrl)?;
        fred.connect();
        Ok(Self(fred))
    }

    pub(super) async fn wait_for_connect(&self) {
        // Whether it came up is seen by the first decision.
        let _ = tokio::time::timeout(CONNECT, self.0.wait_for_connect()).await;
    }

    pub(super) async fn evalsha(
        &self,
        sha: &str,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Vec<i64>, Failure> {
        self.connected()?;
        let reply = self.0.evalsha(sha, keys.to_vec(), arguments.to_vec());
        Ok(reply.await?)
    }

    pub(super) async fn eval(
        &self,
        text: &str,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Vec<i64>, Failure> {
        self.connected()?;
        let reply = self.0.eval(text, keys.to_vec(), arguments.to_vec());
        Ok(reply.await?)
    }

    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        self.connected().map_err(Failure::into_error)?;
        let pong: Result<String, Error> = self.0.ping(None).await;
        pong.map(drop)
            .map_err(|error| Failure::from(error).into_error())
    }

    /// What stands under `key`: `value`, if nothing did. It expires `kept` from now.
    pub(super) async fn set_once(
        &self,
        key: &str,
        value: &str,
        kept: Duration,
    ) -> Result<String, StoreError> {
        self.connected().map_err(Failure::into_error)?;
        let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
        let expiry = Some(Expiration::EX(seconds));
        let error = |error| Failure::from(error).into_error();
        let set = self.0.set(key, value, expiry, Some(SetOptions::NX), true);
        let known: Option<String> = set.await.map_err(error)?;
        let Some(known) = known else {
            return Ok(value.to_owned());
        };
        let renewed: Result<(), Error> = self.0.expire(key, seconds, None).await;
        renewed.map_err(error)?;
        Ok(known)
    }

    /// Without a connection fred would queue a command until its timeout; a decision has better things to do.
    fn connected(&self) -> Result<(), Failure> {
        if self.0.state() == ClientState::Connected {
            return Ok(());
        }
        Err(Failure::Other(StoreError::Disconnected))
    }
}

/// The SHA-1 by which Redis knows a script.
pub(super) fn sha1(text: &str) -> String {
    fred::util::sha1_hash(text)
}

/// Understands a URL.
pub(super) fn parse(url: &str) -> Result<Config, InvalidUrl> {
    // fred takes any scheme and drops what it does not know: `rediss:` without TLS would send the password in the clear.
    if !url.starts_with("redis://") || url.contains(['?', '#']) {
        return Err(InvalidUrl);
    }
    let mut config = Config::from_url(url).map_err(|_| InvalidUrl)?;
    // A gateway starts without Redis, and connects when it is there.
    config.fail_fast = false;
    Ok(config)
}

fn connection(timeout: Duration) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT,
        internal_command_timeout: CONNECT,
        // A script that was sent may have run; only its caller may decide to send it again.
        max_command_attempts: 1,
        // A bound here can end fred's router for good; the store bounds what is in flight.
        max_command_buffer_len: 0,
        reconnect_on_auth_error: true,
        // Well after the last decision that waits for an answer has given up.
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(CONNECT.max(2 * timeout)),
            interval: Duration::from_millis(100),
        },
        // A demoted or loading server is left at once, not kept until its socket breaks.
        reconnect_errors: vec![
            ReconnectError::ClusterDown,
            ReconnectError::Loading,
            ReconnectError::ReadOnly,
            ReconnectError::MasterDown,
        ],
        tcp: TcpConfig {
            nodelay: Some(true),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}

fn performance(timeout: Duration) -> PerformanceConfig {
    PerformanceConfig {
        // fred then skips commands that nobody waits for any more, if they were not yet written.
        default_command_timeout: timeout,
        ..PerformanceConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings on which exact counting rests.
    #[test]
    fn fred_counts_once_and_never_waits_for_ever() {
        let timeout = Duration::from_millis(25);
        let connection = connection(timeout);
        assert_eq!(connection.max_command_attempts, 1);
        assert_eq!(connection.max_command_buffer_len, 0);
        assert!(connection.connection_timeout <= Duration::from_secs(1));
        assert!(
            connection
                .reconnect_errors
                .contains(&ReconnectError::ReadOnly)
        );
        assert_eq!(performance(timeout).default_command_timeout, timeout);
        let config = parse("redis://127.0.0.1:6379");
        assert!(config.is_ok_and(|config| !config.fail_fast));
    }

    #[test]
    fn errors_keep_their_code_and_nothing_else() {
        let error = |kind, details: &'static str| match Failure::from(Error::new(kind, details)) {
            Failure::NoScript => "no script".to_owned(),
            Failure::Other(error) => error.to_string(),
        };
        let by_redis = |details| error(ErrorKind::Unknown, details);
        assert_eq!(by_redis("NOSCRIPT No matching script."), "no script");
        assert_eq!(by_redis("OOM command not allowed"), "Redis answered OOM");
        let odd = error(ErrorKind::Protocol, "user alice:secret");
        assert_eq!(odd, "Redis answered an error");
        // What fred says when a connection broke under a command.
        for (kind, details) in [
            (ErrorKind::IO, "Connection closed."),
            (ErrorKind::Unknown, "Failed to route command."),
            (ErrorKind::Unknown, "Too many failed write attempts."),
        ] {
            assert_eq!(error(kind, details), "there is no connection to Redis");
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_being_repeated() {
        let error = parse("redis://:hunter2@:x").map(drop).unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
