//! Counts the clients with the highest use and the most refusals, samples counters over time, and defines the documents that contain these
//! counts.
//!
//! - [`SpaceSaving`], [`Summary`], [`Hitters`]: the most frequent keys in bounded memory, each count with its error
//! - [`Tracks`]: counters over time; [`Recent`]: the last refusals; [`EventLog`]: the last events
//! - [`StoreHealth`], [`ServerStates`]: problems of Redis and of servers
//! - [`document`]: the document of `/status.json`, which a gateway writes and `tidegate top` reads
//! - [`client`]: the document of `/clients/{name}`, which a gateway writes and `tidegate client` reads
//! - [`limit`]: the document of `/limits/{name}`, which a gateway writes and `tidegate limit` reads
//! - [`page`]: the status page
//!
//! This crate uses neither HTTP nor the gateway. The caller passes the time.

pub mod client;
pub mod document;
mod events;
mod hitters;
mod index;
pub mod limit;
mod near;
pub mod page;
mod recent;
mod ring;
mod series;
mod servers;
mod space_saving;
mod store_health;
mod summary;
mod text;
mod turns;

pub use events::EventLog;
pub use hitters::{Hitters, Measure, Top};
pub use near::{NearKey, NearLimits, Nearness};
pub use recent::Recent;
pub use series::{Series, Tracks};
pub use servers::ServerStates;
pub use space_saving::SpaceSaving;
pub use store_health::{StoreHealth, StoreSecond, StoreState};
pub use summary::{Entry, Summary};
pub use text::{shown, shown_json, shown_text};
pub use turns::by_turns;
