//! `tidegate top`: a live view of running gateways, through their admin ports.

use std::path::Path;

use clap::Args;
use http::Method;
use tidegate_top::{Options, Source};

use super::{Failure, running};
use tidegate_config::AdminPlan;

/// Which gateways to show, and how.
#[derive(Debug, Args)]
pub(super) struct View {
    /// The admin port of a gateway, such as http://10.0.0.5:9901. Repeat the option to sum several gateways. Without it, the
    /// gateway of the configuration is shown. The token of the configuration is sent to each.
    #[arg(long = "gateway", value_name = "URL")]
    gateways: Vec<String>,
    /// Prints the tables once. So does output to a pipe.
    #[arg(long)]
    once: bool,
    /// Prints the document of /status.json once, of several gateways their sum.
    #[arg(long)]
    json: bool,
}

/// Shows them until somebody quits.
pub(super) fn run(config: &Path, view: &View) -> Result<(), Failure> {
    let (plan, _) = super::load(config)?;
    let mut admins = Vec::new();
    for url in &view.gateways {
        let address = tidegate_top::address(url).map_err(Failure::usage)?;
        admins.push(AdminPlan {
            address,
            ..plan.admin.clone()
        });
    }
    if admins.is_empty() {
        admins.push(plan.admin);
    }
    let sources = admins.into_iter().map(|admin| Source {
        name: admin.address.to_string(),
        read: Box::new(move |path| {
            running::read(&admin, Method::GET, path).map_err(|failure| failure.message)
        }),
    });
    let options = Options {
        once: view.once,
        json: view.json,
    };
    tidegate_top::run(sources.collect(), options).map_err(Failure::failed)
}
