//! `tidegate top`: shows running gateways live in the terminal, through their admin ports.

use std::path::Path;

use clap::Args;
use http::StatusCode;
use tidegate_top::{Options, Source};

use crate::remote::Failure;
use crate::remote::port::{self, AdminPort, Call, TokenSource};

/// The arguments: gateways, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct View {
    /// The admin port of a gateway, such as http://10.0.0.5:9901. Repeat the option to add up several gateways. The token is sent to each.
    /// Needs no configuration. Default: the admin port of the configuration.
    #[arg(long = "gateway", visible_alias = "admin", value_name = "URL")]
    gateways: Vec<String>,
    /// Prints the tables once, which is also the default if the output is a pipe.
    #[arg(long)]
    once: bool,
    /// Prints the document of /status.json once. For several gateways, prints their sum.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    token: TokenSource,
}

/// Shows the gateways until the user quits.
///
/// # Errors
///
/// An admin port cannot be used, or the terminal cannot.
pub(crate) fn run(config: &Path, view: &View) -> Result<(), Failure> {
    let admins = view.token.ports(&view.gateways, config)?;
    let sources = admins.into_iter().map(|admin| Source {
        name: admin.name().to_owned(),
        read: Box::new(move |path| read(&admin, path)),
    });
    let options = Options {
        once: view.once,
        json: view.json,
    };
    tidegate_top::run(sources.collect(), options).map_err(Failure::failed)
}

fn read(admin: &AdminPort, path: &str) -> Result<Vec<u8>, String> {
    let read = port::read(admin, Call::get(path));
    read.map_err(|failure| match failure.answer {
        Some(StatusCode::NOT_FOUND) if path.starts_with("/status.json") => format!(
            "{} has no /status.json (404): this is no admin port, or the gateway has no status page",
            admin.name()
        ),
        _ => failure.message,
    })
}
