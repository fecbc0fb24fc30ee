//! `tidegate health`: checks the health of a running gateway through its admin port.

use std::path::Path;

use clap::Args;

use crate::remote::port::{self, Call, Target};
use crate::remote::{Failure, print};

/// The arguments: a gateway, and the kind of health.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// Checks whether the gateway can decide (/readyz), and not only whether it runs (/healthz).
    #[arg(long)]
    ready: bool,
    #[command(flatten)]
    gateway: Target,
}

/// Prints the answer of the gateway.
///
/// # Errors
///
/// No gateway answers, or its answer is not 200. The exit status is 1.
pub(crate) fn run(config: &Path, question: &Question) -> Result<(), Failure> {
    let path = match question.ready {
        true => "/readyz",
        false => "/healthz",
    };
    let answer = port::read(&question.gateway.port(config)?, Call::get(path))?;
    print(&crate::remote::plain(&String::from_utf8_lossy(&answer)));
    Ok(())
}
