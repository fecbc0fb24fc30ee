//! A reload replaces the settings in force by new settings. If it refuses the new settings, it changes no part of the gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::background::load_synced;
use super::build::Runtime;
use super::limit_keys;
use super::snapshot::{SharedSnapshot, Snapshot};
use super::sockets::{Inherited, listener_names};
use super::start_error::StartError;
use tidegate_config::{ConfigError, Fixed, Settings, Warning};
use tidegate_net::descriptors;
use tidegate_server::{Listener, ListenerName, Server};
use tidegate_store::{Limit, Mode};

/// The time between two attempts to apply the numbers of overrides.
const AGAIN: Duration = Duration::from_secs(1);

/// A handle that applies new settings. Clones belong to the same gateway.
#[derive(Clone, Debug)]
pub struct Reloader(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) runtime: Runtime,
    pub(crate) inherited: Inherited,
    pub(crate) fixed: Fixed,
    pub(crate) current: Arc<SharedSnapshot>,
    pub(crate) server: Arc<Server<Snapshot>>,
    /// The tasks that watch files and key sets of the settings in force. Only the holder of this lock may replace the settings.
    pub(crate) watches: Arc<Mutex<JoinSet<()>>>,
}

/// The reason why settings were not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The configuration is not valid, or changes a setting that only a restart changes.
    #[error("{0}")]
    Config(ConfigError),
    /// A part of the gateway that the configuration requires cannot be made.
    #[error("{0}")]
    Start(StartError),
    /// The task that reads the configuration did not complete.
    #[error("the configuration could not be looked at")]
    Load,
}

impl ReloadError {
    /// Returns the error as one line, for a log.
    pub(crate) fn in_one_line(&self) -> String {
        match self {
            Self::Config(error) => error.in_one_line(),
            Self::Start(_) | Self::Load => self.to_string(),
        }
    }

    /// Returns the files that the refused configuration names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let files = match self {
            Self::Config(error) => Some(error.files()),
            Self::Start(_) | Self::Load => None,
        };
        files.into_iter().flatten().map(PathBuf::as_path)
    }
}

impl Reloader {
    pub(crate) const fn new(parts: Arc<Parts>) -> Self {
        Self(parts)
    }

    /// Returns the version of the configuration in force.
    pub fn version(&self) -> String {
        self.0.current.load().version.clone()
    }

    /// Returns the files that are part of the configuration in force, beside its own file.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.0.current.load().ratelimit_files.clone()
    }

    /// Loads a configuration and applies it, as soon as the gateway runs. `load` refuses changes of the settings that only a restart
    /// changes.
    ///
    /// Connections stay open. Requests that have begun keep the old settings, and later requests use the new settings. `load` may block
    /// while it reads files.
    ///
    /// # Errors
    ///
    /// `load` fails, or the new settings cannot be applied. The previous settings stay in force.
    pub async fn reload<F>(&self, load: F) -> Result<Vec<Warning>, ReloadError>
    where
        F: FnOnce(&Fixed) -> Result<(Settings, Vec<Warning>), ConfigError> + Send + 'static,
    {
        let mut watches = self.0.watches.lock().await;
        let parts = self.0.clone();
        let loaded = tokio::task::spawn_blocking(move || load(&parts.fixed)).await;
        let outcome = match loaded {
            Ok(Ok((settings, warnings))) => match self.0.apply(Arc::new(settings)).await {
                Ok(next) => {
                    // Dropping the previous set ends the watches of the old settings.
                    *watches = next.watch(&self.0.runtime.metrics);
                    Ok(warnings)
                }
                Err(error) => Err(ReloadError::Start(error)),
            },
            Ok(Err(error)) => Err(ReloadError::Config(error)),
            Err(_) => Err(ReloadError::Load),
        };
        self.0.runtime.metrics.reloads().ended(outcome.is_ok());
        outcome
    }

    /// Applies the numbers that overrides give to limits, if they have changed since the last time, as soon as the gateway runs. The
    /// settings and their watches stay, and the state of the limits stays, as at a reload. Logs an error, and returns false.
    pub(crate) async fn apply_numbers(&self) -> bool {
        let _watches = self.0.watches.lock().await;
        let before = self.0.current.load_full();
        if before.set_numbers == *self.0.runtime.overrides.limits.borrow() {
            return true;
        }
        let applied = self.0.apply(before.settings.clone()).await;
        if let Err(error) = &applied {
            tracing::error!(%error, "the overrides of limits could not be applied; the gateway tries again");
        }
        applied.is_ok()
    }

    /// Applies the numbers of overrides whenever they change, until the future is dropped.
    pub(crate) async fn keep_numbers(&self) {
        let mut limits = self.0.runtime.overrides.limits.clone();
        while limits.changed().await.is_ok() {
            while !self.apply_numbers().await {
                sleep(AGAIN).await;
            }
        }
    }
}

impl Parts {
    async fn apply(&self, settings: Arc<Settings>) -> Result<Arc<Snapshot>, StartError> {
        let before = self.current.load_full();
        let max_connections = settings.max_connections;
        let (mut names, decisions) = listener_names(&settings);
        names.extend(decisions);
        let added = names
            .iter()
            .filter(|name| before.server.protection(**name).is_none());
        let added = open(added.copied(), &self.inherited).await?;
        let next = Arc::new(self.runtime.snapshot(settings, Some(&before))?);
        // Before a limit leaves `mode: leased`, Redis must count all units that its slices have spent.
        let limits = next.budgets.limits();
        let limits = limits.iter().map(|limit| &**limit);
        if !self.runtime.store.keep_leased(limits).await {
            tracing::warn!(
                "Redis did not take back within a second the slices of limits that leave `mode: leased`; units of slices that \
                 it does not take back within 5 s do not count under the new mode"
            );
        }
        let mut new = next.budgets.limits();
        let old = before.budgets.limits();
        let is_synced = |limit: &Limit| limit.mode() == Mode::Synced;
        new.retain(|limit| !old.iter().any(|it| it.id() == limit.id() && is_synced(it)));
        load_synced(&self.runtime.store, &new).await;
        self.current.store(next.clone());
        let has_key_set = |name: &str| next.jwks.iter().any(|set| &**set.name() == name);
        let has_upstream = |name: &str| next.upstreams.contains_key(name);
        self.runtime.metrics.in_force(has_upstream, has_key_set);
        if let Some(misfit) = descriptors::shares().misfit(max_connections) {
            tracing::warn!("{misfit}");
        }
        for change in limit_keys::changes(&before.limit_keys, &next.limit_keys) {
            tracing::warn!("the reload starts {change}");
            self.runtime
                .metrics
                .reloads()
                .limit_started_anew(&change.limit);
        }
        self.server.keep_only(&names);
        for listener in added {
            let address = listener
                .socket
                .local_addr()
                .unwrap_or(listener.name.address);
            tracing::info!(%address, "listening");
            self.server.listen(listener);
        }
        Ok(next)
    }
}

/// Opens the ports of these listeners.
pub(crate) async fn open(
    names: impl Iterator<Item = ListenerName>,
    inherited: &Inherited,
) -> Result<Vec<Listener>, StartError> {
    let mut listeners = Vec::new();
    for name in names {
        let socket = inherited.bind(name.address).await?;
        listeners.push(Listener { name, socket });
    }
    Ok(listeners)
}
