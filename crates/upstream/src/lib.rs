//! Sends requests to the servers of an upstream: looks up addresses, chooses a server for each request, and keeps connections for later
//! requests.
//!
//! Start reading at [`Upstream::send`]. Rate limits, client connections and the configuration file are in other crates.

mod attempts;
mod background;
mod body;
mod connection_limit;
mod discovery;
mod health;
mod interim;
mod metrics;
mod options;
mod places;
mod pool;
mod reach;
mod report;
mod retries;
mod selection;
mod send_error;
mod server;
mod settings;
mod state;
mod sticky;
mod stream_limit;
mod timeout;
mod tunnel;
mod watched;

pub use attempts::{Attempt, Attempts};
pub use body::memory::{BufferMemory, Buffered};
pub use body::{BodyPhase, BodyState, BoxError, RequestBody, StreamingBody, size_behind};
pub use metrics::UpstreamMetrics;
pub use options::{SendOptions, Timeouts};
pub use pool::Upstream;
pub use reach::reach;
pub use report::{Answer, Report};
pub use retries::Retries;
pub use send_error::SendError;
pub use server::connection::{ConnectError, Lease};
pub use settings::{
    Balance, EjectSettings, HealthRequest, HealthSettings, RetrySettings, ServerSettings, Share,
    Speaks, UpstreamSettings,
};
pub use state::{ServerState, UpstreamState};
pub use sticky::{Affinity, HashedPart, MarkKey, ServerMark, Sticky};
pub use tunnel::{ClosedTunnel, Tunnel};
