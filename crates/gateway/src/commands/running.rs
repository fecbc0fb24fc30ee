//! Asks a running gateway through its admin port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use super::Failure;
use tidegate_config::AdminPlan;

/// How long a gateway may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 << 20;

/// Sends one request to the admin port that `admin` names, and reads the JSON of its answer.
///
/// # Errors
///
/// No gateway answers there within 10 s, the answer is not 200, or the answer is not what a gateway sends.
pub(super) fn ask<T: DeserializeOwned>(
    admin: &AdminPlan,
    method: Method,
    path: &str,
) -> Result<T, Failure> {
    serde_json::from_slice(&read(admin, method, path)?)
        .map_err(|_| Failure::failed("the answer is not that of a gateway's admin port"))
}

/// As [`ask`], and gives back the text of the answer.
pub(super) fn read(admin: &AdminPlan, method: Method, path: &str) -> Result<Vec<u8>, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(Failure::failed)?.block_on(async {
        let asked = tokio::time::timeout(DEADLINE, exchange(admin, method, path)).await;
        let late = || Failure::failed(format!("no answer within {} s", DEADLINE.as_secs()));
        asked.unwrap_or_else(|_| Err(late()))
    })?;
    Ok(answer.into())
}

async fn exchange(admin: &AdminPlan, method: Method, path: &str) -> Result<Bytes, Failure> {
    let address = reachable(admin.address)?;
    let broken = |error| Failure::failed(format!("{address} broke off: {error}"));
    let socket = TcpStream::connect(address).await.map_err(|error| {
        Failure::failed(format!(
            "no gateway answers on its admin port, {address}: {error}; is it running, by this configuration?"
        ))
    })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(broken)?;
    tokio::spawn(connection);
    let request = request(admin, address, method, path)?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await;
    let body = body.map_err(|error| Failure::failed(format!("{address} broke off: {error}")))?;
    let body = body.to_bytes();
    if status == StatusCode::OK {
        return Ok(body);
    }
    Err(Failure::failed(format!(
        "{address} answered {status}: {}",
        detail(&body)
    )))
}

fn request(
    admin: &AdminPlan,
    address: SocketAddr,
    method: Method,
    path: &str,
) -> Result<Request<Empty<Bytes>>, Failure> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, address.to_string());
    if let Some(token) = &admin.token {
        let bearer = format!("Bearer {}", token.expose());
        let mut value = HeaderValue::try_from(bearer).map_err(Failure::failed)?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request.body(Empty::new()).map_err(Failure::failed)
}

/// Where a port that is bound to this address is reached from here.
fn reachable(mut address: SocketAddr) -> Result<SocketAddr, Failure> {
    if address.port() == 0 {
        return Err(Failure::failed(
            "`admin` has port 0, which is any that is free; name one to find the gateway by",
        ));
    }
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    Ok(address)
}

/// The sentence for people of an answer that is a problem.
fn detail(body: &[u8]) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let detail = problem
        .as_ref()
        .and_then(|problem| problem["detail"].as_str());
    detail.unwrap_or("an answer without a reason").to_owned()
}
