//! Asks a running gateway through its admin port: where that is, and with which token.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use crate::{Failure, environment, load};
use tidegate_config::{AdminPlan, Secret};

/// How long a gateway may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 << 20;
/// The environment variable with the token of admin ports.
const TOKEN: &str = "TIDEGATE_ADMIN_TOKEN";
/// How much of a token's file is read, in bytes.
const MAX_TOKEN: u64 = 8 << 10;

/// Where the token for admin ports is. It is no argument, because others on the machine can read the arguments of a process.
#[derive(Debug, Args)]
pub struct TokenSource {
    /// A file that holds the token of the admin port. Without it, the token is that of the variable TIDEGATE_ADMIN_TOKEN, else that of
    /// the configuration.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The admin port of a gateway, and the token that is sent to it.
#[derive(Debug)]
pub struct AdminPort {
    address: SocketAddr,
    token: Option<Secret>,
}

impl TokenSource {
    /// The admin ports of these URLs; without a URL, the one of the configuration. Only then the configuration must be readable.
    ///
    /// # Errors
    ///
    /// A URL, the token's file or the configuration cannot be used.
    pub fn ports(&self, urls: &[String], config: &Path) -> Result<Vec<AdminPort>, Failure> {
        let token = token(self.token_file.as_deref())?;
        if urls.is_empty() {
            let (plan, _) = load(config)?;
            let token = token.or(plan.admin.token);
            let address = plan.admin.address;
            return Ok(vec![AdminPort { address, token }]);
        }
        // One that cannot be read has no token to send.
        let configured = || load(config).ok()?.0.admin.token;
        let token = token.or_else(configured);
        let port = |url: &String| {
            Ok(AdminPort {
                address: tidegate_top::address(url).map_err(Failure::usage)?,
                token: token.clone(),
            })
        };
        urls.iter().map(port).collect()
    }
}

impl AdminPort {
    /// The admin port of the gateway that runs by this plan.
    ///
    /// # Errors
    ///
    /// The token of the environment cannot be used.
    pub fn of(plan: &AdminPlan) -> Result<Self, Failure> {
        Ok(Self {
            address: plan.address,
            token: token(None)?.or(plan.token.clone()),
        })
    }

    /// Its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The token in this file, or without a file that of the environment, if there is one.
fn token(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    let (from, text) = match file {
        Some(file) => {
            let from = file.display().to_string();
            let mut text = String::new();
            let read = File::open(file).and_then(|it| it.take(MAX_TOKEN).read_to_string(&mut text));
            read.map_err(|error| Failure::usage(format!("{from}: {error}")))?;
            (from, text)
        }
        None => match environment(TOKEN) {
            Some(text) if !text.is_empty() => (TOKEN.to_owned(), text),
            Some(_) | None => return Ok(None),
        },
    };
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage(format!(
            "{from} holds no token: that is letters, digits and signs, without spaces"
        )));
    }
    Ok(Some(Secret::new(text)))
}

/// What is asked of an admin port.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The path, with the query.
    pub path: String,
    /// Headers beside those that every call has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: Bytes,
}

impl Call {
    /// Without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// As GET.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// The same with a body of JSON.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn with(mut self, body: &impl Serialize) -> Result<Self, Failure> {
        self.body = serde_json::to_vec(body).map_err(Failure::failed)?.into();
        Ok(self)
    }
}

/// Sends one request to the admin port that `admin` names, and reads the JSON of its answer.
///
/// # Errors
///
/// No gateway answers there within 10 s, the answer is not 200, or the answer is not what a gateway sends.
pub fn ask<T: DeserializeOwned>(admin: &AdminPort, call: Call) -> Result<T, Failure> {
    serde_json::from_slice(&read(admin, call)?)
        .map_err(|_| Failure::failed("the answer is not that of a gateway's admin port"))
}

/// As [`ask`], and gives back the text of the answer.
///
/// # Errors
///
/// As [`ask`].
pub fn read(admin: &AdminPort, call: Call) -> Result<Vec<u8>, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(Failure::failed)?.block_on(async {
        let asked = tokio::time::timeout(DEADLINE, exchange(admin, call)).await;
        let late = || Failure::failed(format!("no answer within {} s", DEADLINE.as_secs()));
        asked.unwrap_or_else(|_| Err(late()))
    })?;
    Ok(answer.into())
}

async fn exchange(admin: &AdminPort, call: Call) -> Result<Bytes, Failure> {
    let address = reachable(admin.address)?;
    let broken = |error| Failure::failed(format!("{address} broke off: {error}"));
    let socket = TcpStream::connect(address).await.map_err(|error| {
        Failure::failed(format!(
            "no gateway answers on its admin port, {address}: {error}; is it running, and is this its admin port?"
        ))
    })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(broken)?;
    tokio::spawn(connection);
    let request = request(admin, address, call)?;
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
    let remedy = match status {
        StatusCode::UNAUTHORIZED => {
            format!(" The variable {TOKEN} gives the token to this command.")
        }
        _ => String::new(),
    };
    let message = format!("{address} answered {status}: {}{remedy}", detail(&body));
    Err(Failure::refused(status, message))
}

fn request(
    admin: &AdminPort,
    address: SocketAddr,
    call: Call,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::builder()
        .method(call.method)
        .uri(call.path)
        .header(HOST, address.to_string());
    for (name, value) in call.headers {
        request = request.header(name, value);
    }
    if let Some(token) = &admin.token {
        let bearer = format!("Bearer {}", token.expose());
        let mut value = HeaderValue::try_from(bearer).map_err(Failure::failed)?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request.body(Full::new(call.body)).map_err(Failure::failed)
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
    let detail = detail.unwrap_or("an answer without a reason");
    detail.chars().map(tidegate_status::shown).collect()
}
