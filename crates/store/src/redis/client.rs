//! What is asked of one Redis server, and what its errors mean.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client as Fred;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike as _, KeysInterface as _, LuaInterface as _};
use fred::types::{CustomCommand, Expiration, InfoKind, SetOptions, Value};
use tokio::sync::Notify;

use super::link::{Link, Route};
use super::url::Address;
use crate::StoreError;

/// Where a node of a cluster sends whoever asks it for a slot that is not its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) slot: u16,
    /// Without a host it is another port of the node that was asked.
    pub(super) host: Option<String>,
    pub(super) port: u16,
}

impl Redirect {
    /// Reads `MOVED 3999 127.0.0.1:6381`; the address may be IPv6, which has no brackets there.
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

    /// The address, as told by the node at `asked`.
    pub(super) fn address(&self, asked: &Address) -> Address {
        let host = self.host.clone().unwrap_or_else(|| asked.host.clone());
        Address {
            host,
            port: self.port,
        }
    }
}

/// The code of a reply that is not what the script says.
pub(super) const UNKNOWN_REPLY: &str = "an unknown reply";

/// Why a script gave no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// Redis does not know the script, and has run nothing.
    NoScript,
    /// The key's slot belongs to another node, and nothing has run.
    Moved(Redirect),
    /// The key's slot is moving: this key is already there, or will be; nothing has run.
    Ask(Redirect),
    /// Anything else.
    Other(StoreError),
}

impl Failure {
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::NoScript => StoreError::Refused("NOSCRIPT".into()),
            Self::Moved(_) => StoreError::Refused("MOVED".into()),
            Self::Ask(_) => StoreError::Refused("ASK".into()),
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
            (_, Some(code @ ("MOVED" | "ASK"))) => match Redirect::parse(error.details()) {
                Some(to) if code == "MOVED" => Self::Moved(to),
                Some(to) => Self::Ask(to),
                None => Self::Other(StoreError::Refused(code.to_owned())),
            },
            // Only the code: the rest may quote arguments.
            (_, Some(code)) => Self::Other(StoreError::Refused(code.to_owned())),
            // Redis's errors have a code. This one is fred's: it found no connection to write the command to.
            (ErrorKind::Unknown, None) => Self::Other(StoreError::Disconnected),
            (ErrorKind::Parse, None) => Self::Other(StoreError::unknown_reply()),
            (_, None) => Self::Other(StoreError::Refused("an error".to_owned())),
        }
    }
}

/// The first word of an error if it looks like Redis's own codes, which are in capitals.
pub(super) fn code(details: &str) -> Option<&str> {
    let word = details.split(' ').next()?;
    let plain = word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    (plain && !word.is_empty()).then_some(word)
}

impl StoreError {
    /// The reply is not what the script says.
    pub(super) fn unknown_reply() -> Self {
        Self::Refused(UNKNOWN_REPLY.to_owned())
    }

    /// What a script that decides many says of one that failed (`failure` in `lua/record.lua`).
    pub(super) fn of_script(number: i64) -> Self {
        let code = match number {
            -1 => "WRONGTYPE",
            _ => "ERR",
        };
        Self::Refused(code.to_owned())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

/// A command for a node that does not own the key's slot yet: without ASKING it would send us back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    Yes,
    No,
}

/// One server, asked over a connection that comes back by itself.
#[derive(Debug)]
pub(super) struct Client(Link);

impl Client {
    /// Starts connecting, for ever. `changed` is told whenever the connection comes up or breaks.
    pub(super) fn start(route: Route, changed: Arc<Notify>) -> Self {
        Self(Link::start(route, changed))
    }

    /// Waits until the first attempt to connect is over, whatever came of it.
    pub(super) async fn tried(&self) {
        self.0.tried().await;
    }

    pub(super) fn is_up(&self) -> bool {
        self.0.is_up()
    }

    /// Which connection there is now: no two have the same number; 0: none.
    pub(super) fn connection(&self) -> u64 {
        self.0.connection()
    }

    /// Whether there is a connection; if not, why.
    pub(super) fn connected(&self) -> Result<(), StoreError> {
        self.0.fred().map(drop)
    }

    /// Runs a script by its name, or from its text.
    pub(super) async fn run(
        &self,
        script: By<'_>,
        keys: &[String],
        arguments: &[String],
        asking: Asking,
    ) -> Result<Vec<i64>, Failure> {
        let fred = self.0.fred()?;
        let (keys, arguments) = (keys.to_vec(), arguments.to_vec());
        let reply = match (asking, script) {
            // Boxed: fred's futures are of several KiB, and those around them are moved a dozen times.
            (Asking::No, By::Sha(sha)) => Box::pin(fred.evalsha(sha, keys, arguments)).await?,
            (Asking::No, By::Text(text)) => Box::pin(fred.eval(text, keys, arguments)).await?,
            (Asking::Yes, script) => Box::pin(run_asking(&fred, script, keys, arguments)).await?,
        };
        Ok(reply)
    }

    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        let pong: Result<String, Error> = self.0.fred()?.ping(None).await;
        pong.map(drop)
            .map_err(|error| Failure::from(error).into_error())
    }

    /// Who has which slots, by what this node knows; an error if it knows that it is cut off from the others.
    pub(super) async fn cluster_slots(&self) -> Result<Value, StoreError> {
        let fred = self.0.fred()?;
        let error = |error| Failure::from(error).into_error();
        let info: String = fred
            .custom(command_named("CLUSTER"), vec!["INFO"])
            .await
            .map_err(error)?;
        if !info.lines().any(|line| line.trim() == "cluster_state:ok") {
            return Err(StoreError::Refused("CLUSTERDOWN".into()));
        }
        fred.custom(command_named("CLUSTER"), vec!["SLOTS"])
            .await
            .map_err(error)
    }

    /// What stands under `key`: `value`, if nothing did. It expires `kept` from now.
    pub(super) async fn set_once(
        &self,
        key: &str,
        value: &str,
        kept: Duration,
    ) -> Result<String, Failure> {
        let fred = self.0.fred()?;
        let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
        let expiry = Some(Expiration::EX(seconds));
        let set = fred.set(key, value, expiry, Some(SetOptions::NX), true);
        let known: Option<String> = set.await?;
        let Some(known) = known else {
            return Ok(value.to_owned());
        };
        let _: () = fred.expire(key, seconds, None).await?;
        Ok(known)
    }

    /// Removes keys, which share a slot.
    pub(super) async fn unlink(&self, keys: Vec<String>) -> Result<(), StoreError> {
        let fred = self.0.fred()?;
        let removed: Result<(), Error> = fred.unlink(keys).await;
        removed.map_err(|error| Failure::from(error).into_error())
    }

    /// What Redis says of its memory, what it has done, and what commands cost.
    pub(super) async fn info(&self) -> Result<String, StoreError> {
        let fred = self.0.fred()?;
        let section = async |kind| -> Result<String, Error> { fred.info(Some(kind)).await };
        let (memory, stats, commands) = tokio::try_join!(
            section(InfoKind::Memory),
            section(InfoKind::Stats),
            section(InfoKind::CommandStats),
        )
        .map_err(|error| Failure::from(error).into_error())?;
        Ok([memory, stats, commands].join("\n"))
    }
}

/// Runs a script on a node that does not own the slot yet.
async fn run_asking(
    fred: &Fred,
    script: By<'_>,
    keys: Vec<String>,
    arguments: Vec<String>,
) -> Result<Vec<i64>, Error> {
    let (command, script) = match script {
        By::Sha(sha) => ("EVALSHA", sha),
        By::Text(text) => ("EVAL", text),
    };
    let mut words: Vec<Value> = vec![script.into(), keys.len().to_string().into()];
    words.extend(keys.into_iter().chain(arguments).map(Value::from));
    // Both are written in one piece, so that ASKING speaks for this script and no other.
    let both = fred.pipeline();
    let _: () = both
        .custom(command_named("ASKING"), Vec::<Value>::new())
        .await?;
    let _: () = both.custom(command_named(command), words).await?;
    both.last().await
}

/// How a script is named to Redis.
#[derive(Clone, Copy)]
pub(super) enum By<'a> {
    Sha(&'a str),
    Text(&'a str),
}

fn command_named(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, None::<u16>, false)
}

/// The SHA-1 by which Redis knows a script.
pub(super) fn sha1(text: &str) -> String {
    fred::util::sha1_hash(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_code_and_nothing_else() {
        let error = |kind, details: &'static str| match Failure::from(Error::new(kind, details)) {
            Failure::NoScript => "no script".to_owned(),
            other => other.into_error().to_string(),
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
