//! What a route changes on the way. Nothing that framing, identity or limits rest on can be changed.

use std::collections::HashSet;

use http::HeaderName;
use tidegate_tower::Clients;

use crate::check::Check;
use crate::file;
use crate::plan::{HeaderEdits, RouteEdits};
use crate::value::{HeaderText, Scalar};
use tidegate_net::headers::{is_cors, is_limits, is_ours};
use tidegate_net::pattern::PathPattern;
use tidegate_yaml::Problem;

/// Which way headers go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToUpstream,
    ToClient { has_cors: bool },
}

impl Check<'_> {
    /// What a route with this path changes.
    pub(super) fn edits(
        &mut self,
        route: &file::Route,
        path: Option<&PathPattern>,
        clients: &Clients,
    ) -> RouteEdits {
        let upstream_host = self.read_some(route.upstream_host.as_ref());
        let request = route.request_headers.as_ref();
        let response = route.response_headers.as_ref();
        let to_client = Way::ToClient {
            has_cors: route.cors.is_some(),
        };
        RouteEdits {
            request_headers: self.header_edits(request, Way::ToUpstream, clients),
            response_headers: self.header_edits(response, to_client, clients),
            stripped: self.stripped(route.strip_prefix.as_ref(), path),
            upstream_host: upstream_host.unwrap_or_default(),
            redirect: self.read_some(route.redirect.as_ref()),
        }
    }

    /// How many segments a prefix has that every path of the route begins with.
    fn stripped(
        &mut self,
        scalar: Option<&Scalar<PathPattern>>,
        path: Option<&PathPattern>,
    ) -> usize {
        let Some((scalar, path)) = scalar.zip(path) else {
            return 0;
        };
        let Some(prefix) = self.read(scalar) else {
            return 0;
        };
        let prefix = match path.ignores_case() {
            true => prefix.ignoring_case(),
            false => prefix,
        };
        let stripped = prefix.begins(path);
        if stripped.is_none() {
            let message = format!("not every path of this route begins with `{}`", scalar.raw);
            let note = format!("its path is {path}; a prefix is whole segments, without /**");
            self.refuse(Problem::new(scalar.place, message).note(note));
        }
        stripped.unwrap_or_default()
    }

    fn header_edits(
        &mut self,
        written: Option<&file::HeaderEdits>,
        way: Way,
        clients: &Clients,
    ) -> HeaderEdits {
        let mut edits = HeaderEdits::default();
        let mut seen = HashSet::new();
        let sets = written.and_then(|written| written.set.as_ref());
        for (name, value) in sets.iter().flat_map(|sets| &sets.0) {
            let name = Scalar::new(name.raw.clone(), name.place);
            let value = self.read_hidden(value);
            if let Some(name) = self.header_name(&name, way, clients, &mut seen)
                && let Some(HeaderText(value)) = value
            {
                edits.set.push((name, value));
            }
        }
        let removes = written.and_then(|written| written.remove.as_ref());
        for name in removes.into_iter().flatten() {
            edits
                .remove
                .extend(self.header_name(name, way, clients, &mut seen));
        }
        edits
    }

    fn header_name(
        &mut self,
        scalar: &Scalar<HeaderName>,
        way: Way,
        clients: &Clients,
        seen: &mut HashSet<HeaderName>,
    ) -> Option<HeaderName> {
        let name = self.read(scalar)?;
        let vouched: Vec<_> = clients.vouched_headers().cloned().collect();
        let note = match way {
            _ if is_ours(&name, &vouched) => {
                "it belongs to the connection, or says where a request or a client comes from; \
                 the host is changed by `upstream_host`"
            }
            Way::ToClient { .. } if is_limits(&name) => {
                "it reports limits; the key `headers` controls it"
            }
            Way::ToClient { has_cors: true } if is_cors(&name) => "the route's `cors` says it",
            _ if !seen.insert(name.clone()) => "it is here twice",
            _ => return Some(name),
        };
        // What stands beside it may be a secret.
        let message = format!("the header `{name}` cannot be changed here");
        self.refuse(
            Problem::new(scalar.place, message)
                .note(note)
                .without_line(),
        );
        None
    }
}
