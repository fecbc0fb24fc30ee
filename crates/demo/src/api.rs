//! The small API that `tidegate demo` protects. Its answers describe the request that arrived.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

/// Starts the API on a free port of the loopback interface. The API runs until the Tokio runtime ends.
///
/// # Errors
///
/// There is no free port.
pub async fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let _ = socket.set_nodelay(true);
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(answer));
            tokio::spawn(connection);
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        value.to_str().ok()
    };
    let body = json!({
        "hello": "from the API behind the gateway",
        "method": request.method().as_str(),
        "path": request.uri().path(),
        "forwarded_for": header("x-forwarded-for"),
        "request_id": header("x-request-id"),
    });
    let mut response = Response::new(Full::from(format!("{body}\n")));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}
