//! Calls a running gateway at its admin port, with the port's token.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Builder;

use crate::remote::address::Address;
use crate::remote::{Failure, environment, load};
use tidegate_config::{AdminSettings, Secret};

/// The longest time that a call waits for a gateway's answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// The most bytes of an answer that are read.
const MAX_ANSWER: usize = 16 << 20;
/// The environment variable with the token of admin ports.
const TOKEN: &str = "TIDEGATE_ADMIN_TOKEN";
/// The most bytes of an answer's `detail` that are shown.
const MAX_DETAIL: usize = 1 << 10;
/// The most bytes that are read from a token's file.
const MAX_TOKEN: u64 = 8 << 10;

/// The source of the token for admin ports. The token itself is not an argument, because other users of the machine can read arguments.
#[derive(Debug, Args)]
pub(crate) struct TokenSource {
    /// A file with the token of the admin port. Default: the token in the variable TIDEGATE_ADMIN_TOKEN, else the token of the
    /// configuration.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The gateway that a command calls.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The admin port of the gateway, such as http://10.0.0.5:9901. Needs no configuration. Default: the admin port of the configuration.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    #[command(flatten)]
    token: TokenSource,
}

impl Target {
    /// Returns the admin port of the gateway.
    ///
    /// # Errors
    ///
    /// The URL, the file of the token, or the configuration cannot be used.
    pub(crate) fn port(&self, config: &Path) -> Result<AdminPort, Failure> {
        port_at(self.admin.as_deref(), self.token.token()?, config)
    }
}

/// The admin port of a gateway, with the token to send.
#[derive(Debug)]
pub(crate) struct AdminPort {
    address: Address,
    token: Option<Secret>,
}

impl TokenSource {
    /// Returns the admin ports at these URLs. Without a URL, returns the port of the configuration.
    ///
    /// # Errors
    ///
    /// A URL, the file of the token, or the configuration cannot be used.
    pub(crate) fn ports(&self, urls: &[String], config: &Path) -> Result<Vec<AdminPort>, Failure> {
        // The file is read once, because it may be a pipe.
        let token = self.token()?;
        match urls {
            [] => Ok(vec![port_at(None, token, config)?]),
            urls => {
                let ports = urls.iter();
                let ports = ports.map(|url| port_at(Some(url), token.clone(), config));
                ports.collect()
            }
        }
    }

    fn token(&self) -> Result<Option<Secret>, Failure> {
        token(self.token_file.as_deref())
    }
}

/// Returns the admin port at this URL, or the port of the configuration. The configuration has the token if `token` is `None`.
fn port_at(url: Option<&str>, token: Option<Secret>, config: &Path) -> Result<AdminPort, Failure> {
    let Some(url) = url else {
        let (settings, _) = load(config).map_err(with_remedy)?;
        return Ok(AdminPort {
            address: Address::of(settings.admin.address),
            token: token.or(settings.admin.token),
        });
    };
    Ok(AdminPort {
        address: Address::of_url(url)?,
        // With a URL, the configuration is optional. If the configuration cannot be read, its token is not sent.
        token: token.or_else(|| load(config).ok()?.0.admin.token),
    })
}

impl AdminPort {
    /// Returns the admin port of the gateway that runs with these settings.
    ///
    /// # Errors
    ///
    /// The token in the environment is not valid.
    pub(crate) fn of(settings: &AdminSettings) -> Result<Self, Failure> {
        Ok(Self {
            address: Address::of(settings.address),
            token: token(None)?.or(settings.token.clone()),
        })
    }

    /// Returns the address as text, in its original form.
    pub(crate) fn name(&self) -> &str {
        self.address.name()
    }
}

/// Adds a hint about the option `--admin`, with which the command needs no configuration.
fn with_remedy(failure: Failure) -> Failure {
    let message = failure.message.trim_end();
    Failure {
        message: format!(
            "{message}\n = to ask the running gateway all the same, name its admin port: --admin http://127.0.0.1:9901"
        ),
        ..failure
    }
}

/// Returns the token in this file. Without a file, returns the token of the environment, if there is one.
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

/// A call to an admin port.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    /// The path, with the query.
    path: String,
    /// The headers of this call, in addition to the headers of every call.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

impl Call {
    /// Makes a call without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// Makes a call with GET.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Returns the same call with a body of JSON.
    ///
    /// # Errors
    ///
    /// The body cannot be written as JSON.
    pub(crate) fn with(mut self, body: &impl Serialize) -> Result<Self, Failure> {
        self.body = serde_json::to_vec(body).map_err(Failure::failed)?.into();
        Ok(self)
    }
}

/// Sends one request to the admin port `admin`, and parses the JSON of its answer.
///
/// # Errors
///
/// No gateway answers within 10 s, the status is not 200, or the answer has another form. Each message names the port.
pub(crate) fn ask<T: DeserializeOwned>(admin: &AdminPort, call: Call) -> Result<T, Failure> {
    serde_json::from_slice(&read(admin, call)?).map_err(|_| {
        let name = admin.name();
        Failure::failed(format!(
            "{name}: the answer is not that of a gateway's admin port"
        ))
    })
}

/// Works like [`ask`], but returns the bytes of the answer.
///
/// # Errors
///
/// The errors of [`ask`], except a wrong form of the answer.
pub(crate) fn read(admin: &AdminPort, call: Call) -> Result<Vec<u8>, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(Failure::failed)?.block_on(async {
        let result = tokio::time::timeout(DEADLINE, exchange(admin, call)).await;
        result.unwrap_or_else(|_| {
            let (name, seconds) = (admin.name(), DEADLINE.as_secs());
            let text = format!("{name}: no answer within {seconds} s");
            Err(Failure::failed(text))
        })
    })?;
    Ok(answer.into())
}

async fn exchange(admin: &AdminPort, call: Call) -> Result<Bytes, Failure> {
    let name = admin.name();
    let broken = |error| Failure::failed(format!("{name} broke off: {error}"));
    let (socket, address) = admin.address.connect().await?;
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
    let body = body.map_err(|error| {
        let text = match error.is::<LengthLimitError>() {
            true => format!("{name}: the answer has more than {} MiB, which is the most that this program reads", MAX_ANSWER >> 20),
            false => format!("{name} broke off: {error}"),
        };
        Failure::failed(text)
    })?;
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
    let message = format!("{name} answered {status}: {}{remedy}", detail(&body));
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

/// Returns the `detail` of an answer that is a problem, or the first line of another answer.
fn detail(body: &[u8]) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let detail = problem
        .as_ref()
        .and_then(|problem| problem["detail"].as_str())
        // Answers about health are plain text.
        .or_else(|| std::str::from_utf8(body).ok()?.lines().next())
        .filter(|it| it.len() <= MAX_DETAIL)
        .unwrap_or("an answer without a reason");
    detail.chars().map(tidegate_status::shown).collect()
}
