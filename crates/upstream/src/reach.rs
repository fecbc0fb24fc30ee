//! Checks, without sending a request, whether a server of an upstream accepts connections.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::discovery::lookup;
use super::settings::{ServerSettings, Speaks};
use tidegate_net::tls::Offer;

/// Connects to each address of a server, with TLS if the server speaks it. Each connection must be ready within `patience`.
///
/// # Errors
///
/// Returns the reason as text: the name cannot be resolved, or an address accepts no connection.
pub async fn reach(server: &ServerSettings, patience: Duration) -> Result<(), String> {
    let (host, port) = server.endpoint();
    let addresses = match lookup(host, port).await {
        Ok(Ok(addresses)) if !addresses.is_empty() => addresses,
        Ok(Ok(_)) => return Err("the name has no address".to_owned()),
        Ok(Err(error)) => return Err(format!("the name cannot be resolved: {error}")),
        Err(_) => return Err("the name was not resolved in time".to_owned()),
    };
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
        timeout(patience, connecting)
            .await
            .unwrap_or_else(|_| Err("there was no connection in time".to_owned()))
            .map_err(|error| format!("{address}: {error}"))?;
    }
    Ok(())
}

/// Adds the setting `server_name` to the error text if the server's certificate is for another name.
fn with_remedy(error: String) -> String {
    match error.contains("not valid for name") {
        true => format!(
            "{error}; if this is the right server, write `tls: {{ server_name: NAME }}` with a name of its certificate"
        ),
        false => error,
    }
}
