//! Names the callers of requests: addresses, proxies, API keys, tokens, certificates, and the lists and plans that name clients.
//!
//! Start reading at [`Clients`]. This crate charges no limit. It reads peers, headers and certificates, and returns clients, plans and
//! entries of lists.

mod access;
mod address;
pub mod api_keys;
mod certificate;
mod claims;
mod client_list;
mod client_table;
mod clients;
pub mod jwt;
mod networks;
mod plan;

pub use access::{Access, AccessLists, AccessVerdict, AllowList, LimitLists};
pub use address::{AddressFrom, TrustedProxies, cut as cut_address};
pub use certificate::CertificateName;
pub use claims::{ClaimValue, Claims};
pub use client_list::{ClientList, ListEntry, NetworkFile};
pub use client_table::{ClientTable, ListedClient};
pub use clients::findings::Finding;
pub use clients::members::PlanMembers;
pub use clients::named::UnknownClient;
pub use clients::required::Required;
pub use clients::shown::header_value;
pub use clients::{Caller, Client, ClientSource, Clients, Credentials};
pub use networks::{NetworkTable, folded};
pub use plan::{ClientPlan, ClientPlans, OwnLimit, OwnLimits};
