//! Issuers of tokens: their keys, what they sign, and the servers that publish their sets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use http::{Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer as Signer, KeyPair};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tidegate_testkit::{Upstream, body};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::kit::epoch;

/// A private key with a name.
pub(crate) struct Key {
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Key {
    pub(crate) fn ed25519(id: &str) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap();
        Self {
            id: id.into(),
            algorithm: Algorithm::EdDSA,
            key: EncodingKey::from_ed_der(pair.as_ref()),
        }
    }

    pub(crate) fn p256(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self {
            id: id.into(),
            algorithm: Algorithm::ES256,
            key: EncodingKey::from_ec_der(pair.to_pkcs8v1().unwrap().as_ref()),
        }
    }

    /// Its public half.
    pub(crate) fn jwk(&self) -> Value {
        self.jwk_for("sig")
    }

    /// Its public half, for this use.
    pub(crate) fn jwk_for(&self, public_use: &str) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = self.id.as_str().into();
        jwk["use"] = public_use.into();
        jwk
    }

    /// A token that names this user and is in force for an hour.
    pub(crate) fn token(&self, user: &str) -> String {
        self.sign(&self.header(), user, 3_600)
    }

    /// One that was, a day ago.
    pub(crate) fn expired(&self, user: &str) -> String {
        self.sign(&self.header(), user, -86_400)
    }

    /// One that does not name its key.
    pub(crate) fn unnamed(&self, user: &str) -> String {
        self.sign(&Header::new(self.algorithm), user, 3_600)
    }

    /// One that anybody could make: the public key is its shared secret.
    pub(crate) fn signed_with_what_is_public(&self, user: &str) -> String {
        let secret = EncodingKey::from_secret(self.jwk()["x"].as_str().unwrap().as_bytes());
        let header = Header {
            alg: Algorithm::HS256,
            ..self.header()
        };
        encode(&header, &claims(user, 3_600), &secret).unwrap()
    }

    fn header(&self) -> Header {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.clone());
        header
    }

    fn sign(&self, header: &Header, user: &str, lives: i64) -> String {
        encode(header, &claims(user, lives), &self.key).unwrap()
    }
}

/// What a token says that lives for so many seconds.
fn claims(user: &str, lives: i64) -> Value {
    let now = i64::try_from(epoch() / 1_000_000).unwrap();
    json!({ "sub": user, "exp": now + lives })
}

/// The set of these keys.
pub(crate) fn set(keys: &[&Key]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

/// A server with a set, over plain HTTP.
pub(crate) struct Issuer {
    pub(crate) server: Upstream,
    published: Arc<Published>,
}

#[derive(Default)]
struct Published {
    /// What is answered; nothing, ever, if there is none.
    answer: Mutex<Option<(StatusCode, String)>>,
    elsewhere: Mutex<String>,
    takes: Duration,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Issuer {
    pub(crate) fn publishing(set: String) -> Self {
        Self::slow(set, Duration::ZERO)
    }

    /// One whose every answer takes a while.
    pub(crate) fn slow(set: String, takes: Duration) -> Self {
        let issuer = Self::start(takes);
        issuer.publish(set);
        issuer
    }

    /// One that never answers what is asked before it publishes.
    pub(crate) fn hanging() -> Self {
        Self::start(Duration::ZERO)
    }

    fn start(takes: Duration) -> Self {
        let published = Arc::new(Published {
            takes,
            ..Published::default()
        });
        let state = published.clone();
        let server = Upstream::start(move |request| {
            let (state, path) = (state.clone(), request.uri().path().to_owned());
            async move { state.respond(&path).await }
        });
        Self { server, published }
    }

    /// The URL of its set, whose query is nobody's business.
    pub(crate) fn url(&self) -> String {
        format!("{}/keys.json?tenant=planted", self.server.url())
    }

    pub(crate) fn publish(&self, set: String) {
        self.answer(StatusCode::OK, set);
    }

    pub(crate) fn answer(&self, status: StatusCode, body: String) {
        *self.published.answer.lock().unwrap() = Some((status, body));
    }

    /// Puts a set where redirects point.
    pub(crate) fn keep_elsewhere(&self, set: String) {
        *self.published.elsewhere.lock().unwrap() = set;
    }

    /// How many requests were under way at the same time, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.published.most.load(Ordering::SeqCst)
    }
}

impl Published {
    async fn respond(&self, path: &str) -> Response<body::BoxBody> {
        if path == "/elsewhere" {
            return Response::new(body::full(self.elsewhere.lock().unwrap().clone()));
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        let answer = self.answer.lock().unwrap().clone();
        let Some((status, text)) = answer else {
            return std::future::pending().await;
        };
        self.now.fetch_sub(1, Ordering::SeqCst);
        let answer = Response::builder().status(status);
        let answer = answer.header("location", "/elsewhere");
        answer.body(body::full(text)).unwrap()
    }
}

/// An authority that signs certificates, of which the one of its own stands in a file.
pub(crate) struct Authority {
    signer: Signer<'static, KeyPair>,
    pub(crate) file: NamedTempFile,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), certificate.pem()).unwrap();
        Self {
            signer: Signer::new(params, key),
            file,
        }
    }

    /// What a server of 127.0.0.1 needs that this authority vouches for.
    fn server(&self) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.signer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}

/// A server with a set, over HTTPS.
pub(crate) struct TlsIssuer {
    address: SocketAddr,
    answered: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl TlsIssuer {
    pub(crate) async fn start(authority: &Authority, set: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(authority.server()));
        let answered = Arc::new(AtomicUsize::new(0));
        Self {
            address: listener.local_addr().unwrap(),
            answered: answered.clone(),
            serving: tokio::spawn(serve(listener, acceptor, answered, set)),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}/keys.json", self.address)
    }

    /// How many requests came through a handshake.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }
}

impl Drop for TlsIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answered: Arc<AtomicUsize>,
    set: String,
) {
    while let Ok((stream, _)) = listener.accept().await {
        // A client that does not believe the certificate goes away.
        let Ok(stream) = acceptor.accept(stream).await else {
            continue;
        };
        let service = service_fn(|_| {
            answered.fetch_add(1, Ordering::SeqCst);
            let answer = Response::new(body::full(set.clone()));
            async { Ok::<_, std::convert::Infallible>(answer) }
        });
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }
}
