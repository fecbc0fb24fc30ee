//! The servers that have the keys: one server for all keys, or the nodes of a Redis Cluster.

mod scan;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::Micros;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::client::{Asking, By};
use super::cluster::Cluster;
use super::deadline::with_deadline;
use super::error::CallError;
use super::failure::Failure;
use super::info::{NodeInfo, RedisInfo};
use super::route::Route;
use super::script::{ReplyValue, Scripts};
use super::shard::{Named, Shard, Tagged};
use super::slots::{ENDS, slot_of, slot_of_tag};
use super::tls::Tls;
use super::url::{InvalidUrl, Target, Topology};
use super::word::Word;
pub use scan::{BadCursor, Cursor, ScanStep};

/// The reason why the options do not allow a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// The URL is invalid.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// The URL uses TLS, but there are no TLS settings.
    #[error("the URL uses TLS, and no certificate authorities are given")]
    NoTls,
}

/// The addresses of the nodes of a Redis Cluster that make no decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SilentNodes {
    /// Nodes without a connection.
    pub lost: Vec<String>,
    /// Nodes with a connection whose circuit breaker is open.
    pub open: Vec<String>,
}

/// All servers of a store.
#[derive(Debug)]
pub struct Shards(Kind);

#[derive(Debug)]
enum Kind {
    /// One server. Its address may change, after a failover by sentinels.
    One(Arc<Shard>),
    /// Many servers, by slot.
    Cluster(Cluster),
}

impl Shards {
    /// Starts to connect to all servers of a URL, and reconnects until the `Shards` are dropped. `scripts` are the scripts that later calls
    /// may run. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// The URL has none of the forms in docs/sharing.md, or it uses TLS and `tls` is missing.
    pub fn start(
        url: &str,
        tls: Option<Tls>,
        timeout: Duration,
        scripts: Arc<Scripts>,
    ) -> Result<Self, InvalidOptions> {
        let target = Target::parse(url)?;
        if target.tls && tls.is_none() {
            return Err(InvalidOptions::NoTls);
        }
        let tls = tls.filter(|_| target.tls);
        let route = Route::to(target, tls, timeout);
        Ok(Self(match &route.to {
            Topology::Cluster(seeds) => {
                Kind::Cluster(Cluster::start(seeds.clone(), route, scripts))
            }
            _ => Kind::One(Arc::new(Shard::start(
                route,
                scripts,
                Arc::new(Notify::new()),
            ))),
        }))
    }

    /// Returns the server of all keys, or `None` for a Redis Cluster. A call to a single server may contain keys of several clients.
    pub const fn one(&self) -> Option<&Arc<Shard>> {
        match &self.0 {
            Kind::One(shard) => Some(shard),
            Kind::Cluster(_) => None,
        }
    }

    /// Waits until the first attempts to connect have ended, whatever their results.
    pub async fn tried(&self) {
        match &self.0 {
            Kind::One(shard) => shard.client.tried().await,
            Kind::Cluster(cluster) => cluster.tried().await,
        }
    }

    /// Whether the keys of two clients may be on two servers.
    pub const fn are_many(&self) -> bool {
        matches!(self.0, Kind::Cluster(_))
    }

    /// Returns the only server, or the nodes of a Redis Cluster with their addresses.
    pub fn all(&self) -> Result<Vec<Named>, CallError> {
        match &self.0 {
            Kind::One(shard) => Ok(vec![(None, shard.clone())]),
            Kind::Cluster(cluster) => cluster.all(),
        }
    }

    /// Returns the server of a client's keys.
    pub fn of(&self, tag: &[u8; 16]) -> Result<Arc<Shard>, CallError> {
        match &self.0 {
            Kind::One(shard) => Ok(shard.clone()),
            Kind::Cluster(cluster) => cluster.of(slot_of_tag(tag)),
        }
    }

    /// Returns the server of a key that belongs to no client.
    pub fn of_key(&self, key: &str) -> Result<Arc<Shard>, CallError> {
        match &self.0 {
            Kind::One(shard) => Ok(shard.clone()),
            Kind::Cluster(cluster) => cluster.of(slot_of(key)),
        }
    }

    /// Returns the clock time of the server that has a client's keys, or `None` if the server or its clock is unknown.
    pub fn now(&self, tag: &[u8; 16]) -> Option<Micros> {
        match &self.0 {
            Kind::One(shard) => shard.in_flight.now(),
            Kind::Cluster(_) => self.of(tag).ok()?.in_flight.now(),
        }
    }

    /// Whether the last call to the server of a client's keys failed, or the server is unknown.
    pub fn fails(&self, tag: &[u8; 16]) -> bool {
        self.of(tag).map_or(true, |shard| shard.in_flight.fails())
    }

    /// Runs the script with this number on the server of a client's keys. Follows one redirect.
    pub async fn call(
        &self,
        tag: &[u8; 16],
        script: usize,
        keys: &[Word],
        arguments: &[Word],
    ) -> Result<Vec<i64>, CallError> {
        let shard = self.of(tag)?;
        let mut answer = shard.call(script, keys, arguments, Asking::No).await;
        if let Err(failure) = &answer
            && let Some((shard, asking)) = self.redirected(&shard, failure).await
        {
            answer = shard.call(script, keys, arguments, asking).await;
        }
        answer.map_err(Failure::into_error)
    }

    /// Returns the node to which `source` redirected a call, for a second attempt.
    async fn redirected(
        &self,
        source: &Arc<Shard>,
        failure: &Failure,
    ) -> Option<(Arc<Shard>, Asking)> {
        match &self.0 {
            Kind::One(_) => None,
            Kind::Cluster(cluster) => cluster.redirected(source, failure).await,
        }
    }

    /// Runs a script on the server of these keys, which must share a slot. Returns the server and the reply. Each call sends the script's
    /// text. `patience` replaces the timeout of decisions.
    pub async fn eval<R: ReplyValue>(
        &self,
        keys: &[Word],
        text: &'static str,
        arguments: &[Word],
        patience: Duration,
    ) -> Result<(Arc<Shard>, Vec<R>), CallError> {
        let until = Instant::now() + patience;
        let call = self.eval_anywhere(keys, text, arguments, until, None);
        // The time for a redirect counts toward the timeout.
        let answer = tokio::time::timeout_at(until.into(), call).await;
        answer.unwrap_or(Err(CallError::Timeout))
    }

    /// Runs a script that makes a change for an operator, like [`eval`](Self::eval). Adds a deadline on the server's clock as the first
    /// argument. After the deadline the script must make no change, and must return the time and -1.
    ///
    /// # Errors
    ///
    /// The script may have made its change before the error is returned. It cannot make a change later, because the deadline has passed.
    pub async fn eval_in_time<R: ReplyValue>(
        &self,
        keys: &[Word],
        text: &'static str,
        arguments: &[Word],
        patience: Duration,
    ) -> Result<Vec<R>, CallError> {
        let until = Instant::now() + patience;
        let is_sent = AtomicBool::new(false);
        let call = self.eval_anywhere::<R>(keys, text, arguments, until, Some(&is_sent));
        let answer = tokio::time::timeout_at(until.into(), call).await;
        match answer.unwrap_or(Err(CallError::Timeout)) {
            Ok((_, reply)) if reply.get(1).is_some_and(R::is_late) => Err(CallError::Late),
            Err(error @ (CallError::Timeout | CallError::Disconnected)) => {
                if is_sent.load(Ordering::Relaxed) {
                    // The call may still reach Redis, so the function waits until the deadline has passed.
                    tokio::time::sleep_until(until.into()).await;
                }
                Err(error)
            }
            answer => answer.map(|(_, reply)| reply),
        }
    }

    /// Runs a script on the server of these keys. If `is_sent` is given, adds the deadline to the arguments, and sets `is_sent` just before
    /// the script is sent.
    async fn eval_anywhere<R: ReplyValue>(
        &self,
        keys: &[Word],
        text: &'static str,
        arguments: &[Word],
        until: Instant,
        is_sent: Option<&AtomicBool>,
    ) -> Result<(Arc<Shard>, Vec<R>), CallError> {
        let shard = self.of_key(keys.first().map_or("", Word::as_str))?;
        let text = Word::from(text);
        let run = async |shard: Arc<Shard>, asking| {
            let client = &shard.client;
            let mut arguments = Cow::Borrowed(arguments);
            if let Some(is_sent) = is_sent {
                let time = client.time(left_until(until)).await?;
                // The server's clock now shows at least `time`. The deadline allows for a server's clock that runs slower by one part in a
                // thousand.
                let left = left_until(until);
                let micros = (left - left / 1_000).as_micros();
                let deadline = time.saturating_add(Micros::try_from(micros).unwrap_or(0));
                arguments = Cow::Owned(with_deadline(Some(deadline), 0, &arguments));
                is_sent.store(true, Ordering::Relaxed);
            }
            let script = By::TextWithin(&text, left_until(until));
            let reply = client.run(script, keys, &arguments, asking).await?;
            Ok((shard, reply))
        };
        let mut answer = run(shard.clone(), Asking::No).await;
        if let Err(failure) = &answer
            && let Some((shard, asking)) = self.redirected(&shard, failure).await
        {
            answer = run(shard, asking).await;
        }
        answer.map_err(Failure::into_error)
    }

    /// Stores `value` under `key` if the key has no value. Returns the value that the key now has. The key expires `kept` from now.
    pub async fn set_once(
        &self,
        key: &str,
        value: &str,
        kept: Duration,
    ) -> Result<String, CallError> {
        let shard = self.of_key(key)?;
        let mut answer = shard.client.set_once(key, value, kept).await;
        // ASK is not followed: while the slot moves, the call fails and the caller tries again later.
        if let Err(failure @ Failure::Moved(_)) = &answer
            && let Some((shard, _)) = self.redirected(&shard, failure).await
        {
            answer = shard.client.set_once(key, value, kept).await;
        }
        answer.map_err(Failure::into_error)
    }

    /// Returns all servers, each with hash tags whose slots it serves, and with its address if it is a cluster node. The tags belong to no
    /// client.
    pub fn tags(&self) -> Result<Vec<Tagged>, CallError> {
        match &self.0 {
            Kind::One(shard) => Ok(vec![(
                None,
                shard.clone(),
                ENDS.map(u128::to_be_bytes).to_vec(),
            )]),
            Kind::Cluster(cluster) => cluster.tags(),
        }
    }

    /// Returns the statistics of the server, or of each primary of a Redis Cluster that answers.
    ///
    /// # Errors
    ///
    /// No server answers in time, or the user's ACL forbids `INFO`.
    pub async fn info(&self, timeout: Duration) -> Result<Vec<NodeInfo>, CallError> {
        let mut asking = JoinSet::new();
        for (node, shard) in self.all()? {
            asking.spawn(async move {
                let answer = tokio::time::timeout(timeout, shard.client.info()).await;
                let text = answer.unwrap_or(Err(CallError::Timeout))?;
                let info = RedisInfo::read(&text);
                Ok(NodeInfo { node, info })
            });
        }
        let mut failed = CallError::Disconnected;
        let mut nodes = Vec::new();
        while let Some(answer) = asking.join_next().await {
            match answer {
                Ok(Ok(node)) => nodes.push(node),
                Ok(Err(error)) => failed = error,
                Err(_) => {}
            }
        }
        nodes.sort_by(|one, other| one.node.cmp(&other.node));
        if nodes.is_empty() {
            Err(failed)
        } else {
            Ok(nodes)
        }
    }

    /// Returns an error with a reason if no server is connected now.
    pub fn connected(&self) -> Result<(), CallError> {
        let mut why = CallError::Disconnected;
        for (_, shard) in self.all()? {
            match shard.client.connected() {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Returns the nodes of a Redis Cluster that make no decisions. Returns empty lists for a single server.
    pub fn silent_nodes(&self) -> SilentNodes {
        let mut silent = SilentNodes::default();
        for (address, shard) in self.all().into_iter().flatten() {
            match address {
                Some(address) if !shard.client.is_up() => silent.lost.push(address),
                Some(address) if shard.in_flight.is_open() => silent.open.push(address),
                _ => {}
            }
        }
        silent
    }
}

fn left_until(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
