//! `tidegate health`: checks the health of a running gateway through its admin port.

use std::path::Path;

use clap::Args;

use crate::remote::port::{self, Call, TokenSource};
use crate::remote::{Failure, print};

/// The arguments: a gateway, and the kind of health.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// Checks whether the gateway can decide (/readyz), and not only whether it runs (/healthz).
    #[arg(long)]
    ready: bool,
    /// The admin port, such as http://10.0.0.5:9901. Default: the admin port of the configuration.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    #[command(flatten)]
    token: TokenSource,
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
    for port in question.token.ports(question.admin.as_slice(), config)? {
        let answer = port::read(&port, Call::get(path))?;
        print(&crate::remote::plain(&String::from_utf8_lossy(&answer)));
    }
    Ok(())
}
