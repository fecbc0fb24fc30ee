//! `tidegate simulate`: loads configurations with their routes, for a replay of access logs.

use std::path::PathBuf;

use http::Request;
use tidegate_config::Settings;
use tidegate_simulate::{Options, Router, Trial};
use tidegate_tower::RequestContext;

use super::Failure;
use crate::request::routes::Routes;
use crate::request::target::Target;

/// Replays access logs against each of these configurations.
pub(super) fn run(configs: &[PathBuf], options: &Options) -> Result<(), Failure> {
    let mut loaded: Vec<(String, Settings, Finder)> = Vec::new();
    for config in configs {
        let (settings, _) = super::load(config)?;
        let routes = Routes::new(&settings.routes, |_| ());
        loaded.push((config.display().to_string(), settings, Finder(routes)));
    }
    let trials = loaded.iter().map(|(name, settings, router)| Trial {
        name,
        settings,
        router,
    });
    let trials: Vec<Trial<'_>> = trials.collect();
    tidegate_simulate::run(&trials, options).map_err(Failure::failed)
}

/// Finds the route of a logged request, with the gateway's own routing.
#[derive(Debug)]
struct Finder(Routes<()>);

impl Router for Finder {
    fn route(&self, request: &mut Request<()>) -> Option<usize> {
        let target = Target::of(request).ok()?;
        let route = self.0.of(request, &target).ok()?;
        let (at, path_values, is_preflight) = (route.at, route.values, route.is_preflight);
        let context = RequestContext::of_mut(request);
        (context.path_values, context.is_preflight) = (path_values, is_preflight);
        Some(at)
    }
}
