//! Models of the protocols between a gateway and Redis in which a message or an answer can be lost.
//!
//! Each module models one protocol, and names the script and the functions that it models. A model is small: one limit, two or
//! three gateways, a few units, a clock of a few ticks. Within these bounds the checker visits every state. Each message may be
//! lost, late or doubled, and a gateway may stop or pause at any moment. `docs/models.md` lists the events that are modelled, and
//! the gaps.
//!
//! Each model has an enum `Protocol`. A variant that differs from the protocol in use has a counterexample, which shows why the scripts do
//! not work that way.

#[cfg(test)]
mod explore;
#[cfg(test)]
mod network;

#[cfg(test)]
mod gateways;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod overrides;
#[cfg(test)]
mod synced;
