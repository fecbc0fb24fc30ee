//! Whether a server of an upstream can be reached, without a request.

use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time;

use super::settings::{ServerPlan, Speaks};
use tidegate_net::tls::Offer;

/// How long a name may take to be resolved.
const RESOLVE: Duration = Duration::from_secs(5);

/// Connects to each address of a server, with TLS if that is what it speaks; each may take `timeout`. Says what failed.
///
/// # Errors
///
/// The name has no address, or an address does not accept a connection, with the reason as text.
pub async fn reach(server: &ServerPlan, timeout: Duration) -> Result<(), String> {
    let (host, port) = server.endpoint();
    let found = time::timeout(RESOLVE, lookup_host((host, port))).await;
    let found = found.map_err(|_| "the name was not resolved in time".to_owned())?;
    let found = found.map_err(|error| format!("the name cannot be resolved: {error}"))?;
    let mut addresses: Vec<_> = found.collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        return Err("the name has no address".to_owned());
    }
    for address in addresses {
        let connecting = async {
            let socket = TcpStream::connect(address).await;
            let socket = socket.map_err(|error| error.to_string())?;
            match &server.speaks {
                Speaks::Http1 | Speaks::Http2 => Ok(()),
                Speaks::Tls(tls) => {
                    let connected = tls.connect(host, socket, Offer::Any).await;
                    connected.map(drop).map_err(with_remedy)
                }
            }
        };
        let connected = time::timeout(timeout, connecting).await;
        let connected =
            connected.unwrap_or_else(|_| Err("there was no connection in time".to_owned()));
        connected.map_err(|error| format!("{address}: {error}"))?;
    }
    Ok(())
}

/// Adds the remedy to the error about a certificate of another name.
fn with_remedy(error: String) -> String {
    match error.contains("not valid for name") {
        true => format!(
            "{error}; if this is the right server, write `tls: {{ server_name: NAME }}` with a name of its certificate"
        ),
        false => error,
    }
}
