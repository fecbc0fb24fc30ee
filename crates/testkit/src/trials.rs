//! Trials: random cases that are made from a seed, run on real servers, and checked against promises.
//!
//! - [`Dice`]: random numbers; [`Name`]: a seed, and the parts of its case that are left out
//! - [`Servers`]: the servers of all trials; [`stalls`]: times at which the machine was too busy for a trial
//! - [`Trial`]: a case with its history and its breaches; [`Runner`]: runs many trials, and reduces each finding before it is shown

mod dice;
mod name;
mod runner;
mod servers;
mod shrink;
pub mod stalls;
mod trial;

pub use dice::Dice;
pub use name::Name;
pub use runner::{Runner, count, first_seed};
pub use servers::{Servers, Taken};
pub use trial::{Figures, Trial};
