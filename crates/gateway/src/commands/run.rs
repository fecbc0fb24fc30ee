//! `tidegate run`: runs the gateway.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::Failure;
use super::reload::Reloads;
use super::systemd;
use crate::gateway::Gateway;
use crate::runtime::Inherited;
use tidegate_config::Settings;
use tidegate_net::descriptors;
use tidegate_net::file_stamp::Stamp;
use tidegate_telemetry::log::Log;
use tidegate_telemetry::program;

/// The longest time that the exiting process waits for threads that still access files or resolve host names.
const LAST_TASKS: Duration = Duration::from_millis(500);

/// Runs until SIGTERM, SIGINT or SIGQUIT. SIGHUP and a changed file cause a reload.
pub(super) fn run(config: &Path) -> Result<(), Failure> {
    // The stamp is read before the file, so that no change is missed.
    let stamp = Stamp::of(config);
    let (settings, warnings) = super::load(config)?;
    // The log is started first and dropped last, so that it has the last lines of all other parts.
    let _log = Log::start(&settings.log.level, settings.log.format).map_err(Failure::usage)?;
    let file = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    tracing::info!(
        file = %file.display(),
        version = program::VERSION,
        commit = program::COMMIT,
        profile = program::PROFILE,
        "configuration loaded"
    );
    for warning in warnings {
        tracing::warn!("{}", warning.in_one_line());
    }
    descriptors::raise_limit();
    run_all(serve(settings, config, stamp))
}

/// Runs a future on all processors. After the future ends, threads that still work are abandoned after [`LAST_TASKS`].
pub(super) fn run_all(future: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let workers = Workers(Some(Runtime::new().map_err(Failure::failed)?));
    match &workers.0 {
        Some(runtime) => runtime.block_on(future),
        None => Ok(()),
    }
}

/// A runtime whose drop waits for its threads for a bounded time. The drop of a plain runtime would wait without end.
struct Workers(Option<Runtime>);

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(LAST_TASKS);
        }
    }
}

async fn serve(settings: Settings, config: &Path, stamp: Option<Stamp>) -> Result<(), Failure> {
    // The signals are registered before anything starts, so that no signal is lost.
    let stop = StopSignals::new().map_err(Failure::failed)?;
    let reloads = Reloads::new(config, stamp).map_err(Failure::failed)?;
    let reopen = signal(SignalKind::user_defined1()).map_err(Failure::failed)?;
    let inherited = Inherited::take().map_err(Failure::usage)?;
    let gateway = Gateway::start_with(settings, inherited).await;
    let gateway = gateway.map_err(|error| match error.is_about_configuration() {
        true => Failure::usage(error),
        // The exit status is 1, so that a service manager starts the gateway again.
        false => Failure::failed(error),
    })?;
    announce(&gateway).map_err(Failure::failed)?;
    // The ports are open, so a client that connects now waits only for a moment.
    systemd::ready();
    let reloads = reloads.follow(gateway.reloader());
    let reopens = reopen_at_signal(reopen, gateway.reopener());
    tokio::select! {
        ended = until_stopped(gateway, stop) => ended?,
        never = reloads => never,
        never = reopens => never,
    }
    tracing::info!("stopped");
    Ok(())
}

/// Reopens the access log at each SIGUSR1.
async fn reopen_at_signal(mut signals: Signal, reopen: impl Fn()) -> ! {
    loop {
        match signals.recv().await {
            Some(()) => reopen(),
            None => std::future::pending().await,
        }
    }
}

/// Logs the addresses on which the gateway listens.
pub(super) fn announce(gateway: &Gateway) -> io::Result<()> {
    for address in gateway.addresses()? {
        tracing::info!(%address, "listening");
    }
    if let Some(address) = gateway.decisions_address()? {
        tracing::info!(%address, "decisions: /v1/check, /v1/settle, /v1/ask, /v1/openapi.json, and Envoy's RateLimitService");
    }
    tracing::info!(address = %gateway.admin_address()?, "admin port: / (status page), /status.json, /healthz, /readyz, /metrics, /config, /clients, /overrides, /why");
    Ok(())
}

/// The signals that stop the gateway. After any of the three, the gateway completes the requests in flight. For SIGQUIT, nginx does the
/// same.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl StopSignals {
    /// Starts to receive the signals. Until then, each of them ends the process.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the first of these signals.
    async fn first(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// Runs the gateway until a signal stops it. Ctrl-C during the stop ends the gateway immediately.
pub(super) async fn until_stopped(
    gateway: Gateway,
    mut signals: StopSignals,
) -> Result<(), Failure> {
    let (begin, begun) = oneshot::channel();
    let hurried = async {
        signals.first().await;
        systemd::stopping();
        let _ = begin.send(());
        signals.interrupt.recv().await;
    };
    let stop = async {
        let _ = begun.await;
    };
    tokio::select! {
        () = gateway.run(stop) => Ok(()),
        () = hurried => Err(Failure::failed(
            "stopped at once by a second Ctrl-C; requests in flight were cut off",
        )),
    }
}
