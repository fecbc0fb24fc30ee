//! Health checks of a server, by HTTP or by gRPC.

mod grpc;

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HOST, TE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tidegate_net::tls::Offer;
use tokio::time::timeout;

use super::connection::ConnectError;
use super::{Server, Wanted};
use crate::body::RequestBody;
use crate::settings::{HealthRequest, HealthSettings};

impl Server {
    /// Runs one health check. Uses a shared connection (HTTP/2) if there is one. Otherwise opens a connection for the check. Returns the
    /// cause if the check failed. Returns `None` if this machine has no free descriptor, port or memory for a connection, because the
    /// server has not failed.
    pub(crate) async fn check(
        self: &Arc<Self>,
        settings: &HealthSettings,
    ) -> Option<Result<(), Box<str>>> {
        let server = self.probe.as_ref().unwrap_or(self);
        let mut is_short = false;
        let mut kept = server.kept_shared(&Wanted::any(Offer::Any));
        let mut used = None;
        let exchange = async {
            loop {
                let is_kept = kept.is_some();
                let lease = match kept.take() {
                    Some(lease) => used.insert(lease),
                    None => match server.connect(Offer::Any).await {
                        Ok(lease) => used.insert(lease),
                        Err(error) => {
                            is_short = error.is_our_shortage();
                            return Err(no_connection(&error));
                        }
                    },
                };
                let is_grpc = matches!(settings.request, HealthRequest::Grpc { .. });
                if is_grpc && !lease.is_shared() {
                    return Err("the server speaks HTTP/1.1, which has no gRPC".into());
                }
                match lease.send(&mut server.question(settings), server).await {
                    Ok(answer) => return judge(settings, answer).await,
                    // The server may have closed the kept connection meanwhile, so a fresh one is tried.
                    Err(_) if is_kept => {}
                    Err(error) => return Err(format!("no answer: {}", error.error()).into()),
                }
            }
        };
        let checked = timeout(settings.timeout, exchange).await;
        if let Some(lease) = used {
            match (&checked, &settings.request) {
                // The connection may be dead. The next check takes a fresh one.
                (Err(_), _) => lease.retire(),
                // The answer was read to its end, so the stream ends without a reset.
                (Ok(Ok(())), HealthRequest::Grpc { .. }) => lease.give_back(None),
                _ => {}
            }
        }
        let late = |_| Err(format!("no answer within {:?}", settings.timeout).into());
        (!is_short).then(|| checked.unwrap_or_else(late))
    }

    /// Returns the request of a check.
    fn question(&self, settings: &HealthSettings) -> Request<RequestBody> {
        let mut request = Request::new(RequestBody::Empty);
        match &settings.request {
            HealthRequest::Http { method, path } => {
                *request.method_mut() = method.clone();
                *request.uri_mut() = path.clone().into();
            }
            HealthRequest::Grpc { service } => {
                let message = Full::new(grpc::message(service)).map_err(|never| match never {});
                *request.body_mut() = RequestBody::Streaming(Box::new(message));
                *request.method_mut() = Method::POST;
                *request.uri_mut() = grpc::PATH.parse().unwrap_or_default();
                let headers = request.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                headers.insert(TE, HeaderValue::from_static("trailers"));
            }
        }
        let host = settings.host.clone().or_else(|| {
            let authority = self.settings.authority.as_str();
            let own = match settings.port {
                Some(port) => {
                    HeaderValue::try_from(format!("{}:{port}", self.settings.authority.host()))
                }
                None => HeaderValue::from_str(authority),
            };
            own.ok()
        });
        request.headers_mut().extend(host.map(|host| (HOST, host)));
        request
    }
}

/// Returns an error with the reason if the answer fails the check.
async fn judge(settings: &HealthSettings, answer: Response<Incoming>) -> Result<(), Box<str>> {
    let status = answer.status();
    match &settings.request {
        HealthRequest::Grpc { .. } if status.is_success() => grpc::judge(answer).await,
        HealthRequest::Http { .. } if status.is_success() || status.is_redirection() => Ok(()),
        _ => Err(format!("the status is {}", status.as_u16()).into()),
    }
}

fn no_connection(error: &ConnectError) -> Box<str> {
    match error {
        ConnectError::Unreachable(error) => format!("no connection: {error}").into(),
        ConnectError::Untrusted => "no TLS".into(),
    }
}
