//! The commands to one Redis server.

use std::time::Duration;

use fred::bytes_utils::Str;
use fred::clients::Client as Fred;
use fred::error::Error;
use fred::interfaces::{ClientLike as _, KeysInterface as _, LuaInterface as _};
use fred::types::config::Options;
use fred::types::{CustomCommand, Expiration, FromValue, InfoKind, SetOptions, Value};
use tidegate_core::Micros;

use super::super::error::CallError;
use super::super::failure::Failure;
use super::super::settings::within;
use super::super::word::Word;
use super::Client;

/// Whether the command ASKING is sent before a call. Without ASKING, a node that is still importing the key's slot redirects the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    Yes,
    No,
}

impl Client {
    /// Runs a script by its hash or its text. The reply is a list of numbers or of texts.
    pub(crate) async fn run<R: FromValue>(
        &self,
        script: By<'_>,
        keys: &[Word],
        arguments: &[Word],
        asking: Asking,
    ) -> Result<Vec<R>, Failure> {
        let fred = self.fred()?;
        let (keys, arguments) = (in_fred(keys), in_fred(arguments));
        let options = match script {
            By::Sha(sha) if asking == Asking::No => {
                // The future is boxed: fred's futures take several KiB, and the futures that contain them are moved a dozen times.
                let reply = Box::pin(fred.evalsha(sha.as_fred(), keys, arguments));
                return Ok(reply.await?);
            }
            By::Sha(_) | By::Text(_) => Options::default(),
            By::TextWithin(_, patience) => within(patience),
        };
        let (command, words) = script.command(keys, arguments);
        let reply = match asking {
            // `custom` and not `eval`, because fred's `eval` takes no options such as a timeout.
            Asking::No => Box::pin(fred.with_options(&options).custom(command, words)).await?,
            Asking::Yes => Box::pin(run_asking(&fred, &options, command, words)).await?,
        };
        Ok(reply)
    }

    /// Returns the answer of this node to `CLUSTER SLOTS`. Returns an error if the node reports that the cluster is down.
    pub(crate) async fn cluster_slots(&self) -> Result<Value, CallError> {
        let fred = self.fred()?;
        let error = |error| Failure::from(error).into_error();
        let info: String = fred
            .custom(command_named("CLUSTER"), vec!["INFO"])
            .await
            .map_err(error)?;
        if !info.lines().any(|line| line.trim() == "cluster_state:ok") {
            return Err(CallError::refused(
                "CLUSTERDOWN the node reports that the cluster is down",
            ));
        }
        fred.custom(command_named("CLUSTER"), vec!["SLOTS"])
            .await
            .map_err(error)
    }

    /// Stores `value` under `key` if the key has no value. Returns the value that the key now has. The key expires `kept` from now.
    pub(crate) async fn set_once(
        &self,
        key: &str,
        value: &str,
        kept: Duration,
    ) -> Result<String, Failure> {
        let fred = self.fred()?;
        let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
        let expiry = Some(Expiration::EX(seconds));
        let set = fred.set(key, value, expiry, Some(SetOptions::NX), true);
        let previous: Option<String> = set.await?;
        let Some(previous) = previous else {
            return Ok(value.to_owned());
        };
        let _: () = fred.expire(key, seconds, None).await?;
        Ok(previous)
    }

    /// Returns the time by the server's clock.
    pub(crate) async fn time(&self, patience: Duration) -> Result<Micros, Failure> {
        let fred = self.fred()?.with_options(&within(patience));
        let call = fred.custom(command_named("TIME"), Vec::<Value>::new());
        let reply: Vec<u64> = Box::pin(call).await?;
        match *reply.as_slice() {
            [seconds, micros] => Ok(seconds.saturating_mul(1_000_000).saturating_add(micros)),
            _ => Err(CallError::unknown_reply().into()),
        }
    }

    /// Returns the next cursor of `SCAN`, and the keys that match `pattern`. Keys that are no text are left out.
    pub(crate) async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        count: u64,
        patience: Duration,
    ) -> Result<(u64, Vec<String>), Failure> {
        let fred = self.fred()?.with_options(&within(patience));
        let (cursor, count) = (cursor.to_string(), count.to_string());
        let words = [&*cursor, "MATCH", pattern, "COUNT", &*count];
        let words = words.map(Value::from).to_vec();
        let call = fred.custom(command_named("SCAN"), words);
        let (next, keys): (u64, Vec<Value>) = Box::pin(call).await?;
        let keys = keys.into_iter().filter_map(|key| key.into_string());
        Ok((next, keys.collect()))
    }

    /// Returns the sections `Server`, `Memory`, `Stats`, `CPU` and `Commandstats` of `INFO`.
    pub(crate) async fn info(&self) -> Result<String, CallError> {
        let fred = self.fred()?;
        let section = async |kind| -> Result<String, Error> { fred.info(Some(kind)).await };
        let (server, memory, stats, cpu, commands) = tokio::try_join!(
            section(InfoKind::Server),
            section(InfoKind::Memory),
            section(InfoKind::Stats),
            section(InfoKind::Cpu),
            section(InfoKind::CommandStats),
        )
        .map_err(|error| Failure::from(error).into_error())?;
        Ok([server, memory, stats, cpu, commands].join("\n"))
    }
}

/// Runs a script on a node that is still importing the slot of the keys.
async fn run_asking<R: FromValue>(
    fred: &Fred,
    options: &Options,
    command: CustomCommand,
    words: Vec<Value>,
) -> Result<Vec<R>, Error> {
    // Both commands are written together, because ASKING applies only to the next command on the connection.
    let both = fred.pipeline().with_options(options);
    let _: () = both
        .custom(command_named("ASKING"), Vec::<Value>::new())
        .await?;
    let _: () = both.custom(command, words).await?;
    both.last().await
}

/// The form in which a call sends its script: the hash or the text.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    Sha(&'a Word),
    Text(&'a Word),
    /// The text, with a timeout that replaces the timeout of decisions.
    TextWithin(&'a Word, Duration),
}

impl By<'_> {
    /// Returns the command that runs the script, and the words of the command.
    fn command(self, keys: Vec<Str>, arguments: Vec<Str>) -> (CustomCommand, Vec<Value>) {
        let (command, script) = match self {
            Self::Sha(sha) => ("EVALSHA", sha),
            Self::Text(text) | Self::TextWithin(text, _) => ("EVAL", text),
        };
        let mut words: Vec<Value> = vec![script.as_fred().into(), keys.len().to_string().into()];
        words.extend(keys.into_iter().chain(arguments).map(Value::from));
        (command_named(command), words)
    }
}

fn in_fred(words: &[Word]) -> Vec<Str> {
    words.iter().map(Word::as_fred).collect()
}

fn command_named(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, None::<u16>, false)
}

/// Returns the SHA-1 of a script. Redis finds a script by this hash.
pub fn sha1(text: &str) -> String {
    fred::util::sha1_hash(text)
}
