//! `tidegate why`: prints the reason why a running gateway refused a request.

use std::path::Path;

use clap::Args;
use tidegate_status::document::Refused;
use tidegate_top::{escaped, refusal_lines};

use crate::remote::Failure;
use crate::remote::port::{self, Call, Target};

/// The arguments: a request, and the gateway that refused it.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// The request ID: X-Request-Id of the answer.
    id: String,
    #[command(flatten)]
    gateway: Target,
}

/// Prints the reason for the refusal.
///
/// # Errors
///
/// No gateway answers, or the gateway has no refusal with this ID.
pub(crate) fn run(config: &Path, question: &Question) -> Result<(), Failure> {
    let path = format!("/why/{}", escaped(&question.id));
    let refused: Refused = port::ask(&question.gateway.port(config)?, Call::get(path))?;
    crate::remote::print(&refusal_lines(&refused));
    Ok(())
}
