//! Compares the index of routes with a simple matcher that tries each route in turn.
//!
//! The last line of an input is a request: method, host, path. Up to 16 lines before the request are routes: host, path, and methods
//! separated by commas. A `-` stands for any host or any method. The words `keep` and `caseless` may follow, if the route keeps encoded
//! slashes or ignores case.

#![no_main]

use http::header::HOST;
use http::{Method, Request, StatusCode};
use libfuzzer_sys::{Corpus, fuzz_target};
use tidegate::bench::{RouteShape, RouteTable, Sought};
use tidegate_net::host::{HostPattern, host_of};
use tidegate_net::path::EncodedSlashes::{Keep, Reject};
use tidegate_net::path::{PathError, normalize, plain};
use tidegate_net::pattern::PathPattern;

const MOST: usize = 16;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((routes, request)) = std::str::from_utf8(data).ok().and_then(read) else {
        return Corpus::Reject;
    };
    let Some(sought) = Sought::by(&request) else {
        return Corpus::Reject;
    };
    let table = RouteTable::of(routes.iter().map(|route| route.shape.clone()));
    let expected = first(&routes, &request);
    assert_eq!(table.number(&sought), expected, "{routes:#?} {request:?}");
    Corpus::Keep
});

/// A route as the index reads it (`shape`), and as the input has it (the other fields).
#[derive(Debug)]
struct Route {
    shape: RouteShape,
    host: Option<String>,
    path: String,
    is_caseless: bool,
}

fn read(text: &str) -> Option<(Vec<Route>, Request<()>)> {
    let mut lines: Vec<_> = text.lines().collect();
    let request = request(lines.pop()?)?;
    let routes: Vec<_> = lines.into_iter().take(MOST).filter_map(route).collect();
    Some((routes, request))
}

fn request(line: &str) -> Option<Request<()>> {
    let mut words = line.splitn(3, ' ');
    let (method, host, path) = (words.next()?, words.next()?, words.next()?);
    let request = Request::builder().method(method).uri(path);
    request.header(HOST, host).body(()).ok()
}

fn route(line: &str) -> Option<Route> {
    let mut words = line.split(' ');
    let host = words.next().filter(|host| *host != "-");
    let path = words.next()?;
    let methods = words.next().filter(|methods| *methods != "-");
    let methods = methods.map(|methods| methods.split(',').map(|method| method.parse().ok()));
    let more: Vec<_> = words.collect();
    let (is_kept, is_caseless) = (more.contains(&"keep"), more.contains(&"caseless"));
    let pattern = PathPattern::parse(path).ok()?;
    let shape = RouteShape {
        host: host.map(HostPattern::parse).transpose().ok()?,
        path: if is_caseless {
            pattern.ignoring_case()
        } else {
            pattern
        },
        methods: methods
            .map(Iterator::collect::<Option<_>>)
            .map_or(Some(None), |it| it.map(Some))?,
        conditions: None,
        encoded_slashes: if is_kept { Keep } else { Reject },
    };
    Some(Route {
        shape,
        host: host.map(str::to_owned),
        path: path.to_owned(),
        is_caseless,
    })
}

/// Finds the route by the rules of docs/proxying.md: the first route that matches host, path and method. If no route matches, the answer is
/// 405 if a route with methods matches host and path, and 404 otherwise. A path with encoded slashes gets 400 unless the first matching
/// route keeps encoded slashes.
fn first(routes: &[Route], request: &Request<()>) -> Result<usize, StatusCode> {
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    let header = || request.headers()[HOST].to_str().expect("it was read");
    let host = host_of(authority.unwrap_or_else(header)).expect("it was read");
    let raw = request.uri().path();
    let (path, is_hidden) = match normalize(raw, Reject) {
        Err(PathError::EncodedSlash) => (normalize(raw, Keep), true),
        path => (path, false),
    };
    let path = path.expect("it was read");
    let here = |route: &&Route| route.holds_host(&host) && route.holds_path(&path);
    let serves = |route: &Route| {
        let methods = route.shape.methods.as_ref();
        methods.is_none_or(|methods| methods.contains(request.method()))
    };
    let found = routes
        .iter()
        .position(|route| here(&route) && serves(route));
    match found {
        Some(at) if !is_hidden || routes[at].shape.encoded_slashes == Keep => Ok(at),
        _ if is_hidden => Err(StatusCode::BAD_REQUEST),
        _ if routes.iter().filter(here).any(has_method) => Err(StatusCode::METHOD_NOT_ALLOWED),
        _ => Err(StatusCode::NOT_FOUND),
    }
}

fn has_method(route: &Route) -> bool {
    let methods: &[Method] = route.shape.methods.as_deref().unwrap_or_default();
    !methods.is_empty()
}

impl Route {
    fn holds_host(&self, host: &str) -> bool {
        match self.host.as_deref() {
            None => true,
            Some(pattern) => match pattern.strip_prefix("*.") {
                Some(name) => {
                    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
                    let below = host.strip_suffix(&*name);
                    below.is_some_and(|below| below.len() > 1 && below.ends_with('.'))
                }
                None => host_of(pattern).is_some_and(|exact| exact == host),
            },
        }
    }

    fn holds_path(&self, path: &str) -> bool {
        let mut segments = path.split('/').filter_map(|segment| {
            let name = segment.split(';').next().unwrap_or_default();
            (!name.is_empty()).then(|| plain(name))
        });
        for wanted in self.path.split('/').filter(|segment| !segment.is_empty()) {
            if wanted == "**" {
                return true;
            }
            match segments.next() {
                None => return false,
                Some(_) if wanted.starts_with('{') => {}
                Some(found) if found == wanted => {}
                Some(found) if self.is_caseless && caseless(&found) == caseless(wanted) => {}
                Some(_) => return false,
            }
        }
        segments.next().is_none()
    }
}

/// Returns the name in lower case, without the dots at its end. A name that has only dots stays unchanged.
fn caseless(name: &str) -> String {
    let mut letters: Vec<char> = name.to_ascii_lowercase().chars().collect();
    while letters.last() == Some(&'.') && letters.iter().any(|letter| *letter != '.') {
        letters.pop();
    }
    letters.into_iter().collect()
}
