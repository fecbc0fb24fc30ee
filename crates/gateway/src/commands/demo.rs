//! `tidegate demo`: runs the reference configuration with a small API and a few clients, and prints requests to try.

use std::net::SocketAddr;

use ipnet::IpNet;
use tidegate_identity::TrustedProxies;

use super::Failure;
use super::run::{self, StopSignals};
use crate::gateway::Gateway;
use crate::runtime::StartError;
use tidegate_net::descriptors;
use tidegate_telemetry::log::Log;

/// The reference configuration, which is compiled in, so that the demo needs no file.
const CONFIGURATION: &str = include_str!("../../../../gateway.yaml");

/// Runs until SIGTERM, SIGINT or SIGQUIT.
pub(super) fn run() -> Result<(), Failure> {
    descriptors::raise_limit();
    run::run_all(demo())
}

async fn demo() -> Result<(), Failure> {
    let stop = StopSignals::new().map_err(Failure::failed)?;
    let api = tidegate_demo::start_api().await.map_err(Failure::failed)?;
    let environment = |name: &str| match name {
        "TIDEGATE_UPSTREAM" => Some(api.to_string()),
        _ => super::environment(name),
    };
    let parsed = tidegate_config::parse("gateway.yaml", CONFIGURATION, environment);
    let (mut settings, _) = parsed.map_err(Failure::usage)?;
    // Every client on this machine is trusted here, so that requests to the demo can name their own addresses.
    settings.clients.trusted = TrustedProxies::new(loopback());
    // The access log would fill the terminal with requests of the demo's own clients.
    settings.log.access = None;
    let _log = Log::start(&settings.log.level, settings.log.format).map_err(Failure::usage)?;
    let gateway = Gateway::start(settings).await.map_err(|error| match error {
        StartError::Bind(..) => Failure::failed(format!(
            "{error}; TIDEGATE_LISTEN and TIDEGATE_ADMIN name other addresses, such as 127.0.0.1:0"
        )),
        error => Failure::usage(error),
    })?;
    let addresses = gateway.addresses().map_err(Failure::failed)?;
    let admin = gateway.admin_address().map_err(Failure::failed)?;
    let Some(address) = addresses.first().copied() else {
        return Ok(());
    };
    let text = requests_to_try(address, admin);
    // The task is not awaited, because standard output may be a pipe that no process reads.
    tokio::task::spawn_blocking(move || super::print(&text));
    tokio::select! {
        ended = run::until_stopped(gateway, stop) => ended,
        never = tidegate_demo::play(address) => match never {},
    }
}

fn loopback() -> Vec<IpNet> {
    let addresses = [
        std::net::IpAddr::from(std::net::Ipv4Addr::LOCALHOST),
        std::net::Ipv6Addr::LOCALHOST.into(),
    ];
    addresses.map(IpNet::from).to_vec()
}

fn requests_to_try(gateway: SocketAddr, admin: SocketAddr) -> String {
    format!(
        "\
tidegate demo: gateway.yaml in front of a small API of its own. Stop it with Ctrl-C.

See who is limited, live: http://{admin}/
These clients send some 25 requests a second. The access log is off.
{}
Allowed, with what is left in the headers:
  curl -i -X POST -H 'X-API-Key: demo-key' http://{gateway}/api/rides/request

Refused: a one-time password may be asked for three times in ten minutes, so the fourth answer is a 429, and whoever asked
gets none for half an hour.
  for i in 1 2 3 4; do curl -i -X POST http://{gateway}/api/otp/5550100; done

Another client has a budget of its own (here, and only here, everyone on this machine may say where they come from):
  curl -i -X POST -H 'X-Forwarded-For: 203.0.113.7' http://{gateway}/api/otp/5550100

What was counted:
  curl -s http://{admin}/metrics | grep decisions

",
        tidegate_demo::who_plays()
    )
}
