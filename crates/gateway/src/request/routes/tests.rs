use std::collections::HashSet;

use bytes::Bytes;
use http::header::{ALLOW, HOST};
use http::{HeaderName, Request};

use tidegate_config::routes::Conditions;
use tidegate_net::host::HostPattern;
use tidegate_net::pattern::PathPattern;

use super::*;

/// The reference for [`Routes::find`]: compares each route in turn, and returns the first that matches.
fn in_turn(routes: &[RouteShape], target: &Target<'_>, method: &Method) -> Result<usize, Problem> {
    let holds = |shape: &RouteShape| {
        let host = shape.host.as_ref();
        host.is_none_or(|host| host.matches(&target.host)) && shape.path.matches(&target.path)
    };
    let here = || routes.iter().filter(|shape| holds(shape));
    let serves = |shape: &RouteShape| {
        let methods = shape.methods.as_ref();
        methods.is_none_or(|methods| methods.contains(method))
    };
    let met = |shape: &RouteShape| {
        let conditions = shape.conditions.as_ref();
        conditions.map_or(Met::Yes, |conditions| says(target, conditions))
    };
    let first = routes
        .iter()
        .position(|shape| holds(shape) && serves(shape) && met(shape) != Met::No);
    if first.is_some_and(|at| met(&routes[at]) == Met::Unclear) {
        return Err(UNCLEAR);
    }
    if target.encoded_slashes == EncodedSlashes::Keep
        && first.is_none_or(|at| routes[at].encoded_slashes == EncodedSlashes::Reject)
    {
        return Err(BAD_PATH);
    }
    if let Some(first) = first {
        return Ok(first);
    }
    let mut named = HashSet::new();
    let allowed: Vec<&str> = here()
        .filter(|shape| met(shape) == Met::Yes)
        .flat_map(|shape| shape.methods.iter().flatten())
        .map(Method::as_str)
        .filter(|method| named.insert(*method))
        .collect();
    if allowed.is_empty() {
        return Err(NOT_FOUND);
    }
    let allow = HeaderValue::try_from(allowed.join(", ")).unwrap();
    Err(Problem::method_not_allowed(allow))
}

/// Random numbers that a seed reproduces (SplitMix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const HOSTS: [&str; 10] = [
    "test",
    "a.test",
    "b.a.test",
    "[::1]",
    "127.0.0.1",
    "*.test",
    "*.a.test",
    "*.b.a.test",
    "*.1",
    "*.0.1",
];
const REQUEST_HOSTS: [&str; 12] = [
    "test",
    "a.test",
    "A.test.:80",
    "b.a.test",
    "x.a.test",
    "c.b.a.test",
    "x.y.b.a.test",
    "atest",
    "[0::1]:8080",
    "127.0.0.1",
    "127.0.0.2",
    "other",
];
const SEGMENTS: [&str; 11] = [
    "a", "b", "{}", "{}", "@me", "a%20b", "a%2Fb", "%3B", "A", "a.", "...",
];
const REQUEST_SEGMENTS: [&str; 26] = [
    "A%2fB.", "@ME..", "a.", "B;v", "...", "....", "a", "b", "a", "b", "c", "@me", "%40me",
    "a%20b", "%61", "a;v=1", ";x", "", ".", "..", "a%2fb", "a%2Fb", "a%5cb", "%3b", "%3B;y", "A",
];
const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::PUT, Method::DELETE];

fn pattern(random: &mut Random) -> PathPattern {
    let mut text = String::new();
    for at in 0..random.below(5) {
        let segment = random.pick(&SEGMENTS).replace('}', &format!("{at}}}"));
        text = format!("{text}/{segment}");
    }
    let end = ["", "", "", "/", "/**"][random.below(5)];
    if text.is_empty() || !end.is_empty() {
        text += if end.is_empty() { "/" } else { end };
    }
    let pattern = PathPattern::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match random.below(3) {
        0 => pattern.ignoring_case(),
        _ => pattern,
    }
}

fn route(random: &mut Random) -> RouteShape {
    let host = (random.below(2) == 0).then(|| HostPattern::parse(random.pick(&HOSTS)).unwrap());
    let methods = (random.below(2) == 0).then(|| {
        let from = random.below(METHODS.len());
        METHODS[from..].iter().take(2).cloned().collect()
    });
    RouteShape {
        host,
        path: pattern(random),
        methods,
        conditions: conditions(random),
        encoded_slashes: [EncodedSlashes::Reject, EncodedSlashes::Keep][random.below(2)],
    }
}

/// The reference for the conditions of these tests: one parameter and one header, each with one value.
fn says(target: &Target<'_>, conditions: &Conditions) -> Met {
    let query = target.query.unwrap_or_default();
    let values = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let values = pairs.filter(|(key, _)| *key == name);
        values
            .map(|(_, value)| value.to_owned())
            .collect::<Vec<_>>()
    };
    let query = conditions.query.iter();
    let query = query.map(|(name, value)| (values(name), value.to_string()));
    let headers = conditions.headers.iter().map(|(name, value)| {
        let lines = target.headers.get_all(name).iter();
        let lines = lines.map(|value| value.to_str().unwrap().to_owned());
        (lines.collect(), value.to_str().unwrap().to_owned())
    });
    let all: Vec<(Vec<String>, String)> = query.chain(headers).collect();
    if all.iter().any(|(values, value)| !values.contains(value)) {
        Met::No
    } else if all.iter().any(|(values, _)| values.len() > 1) {
        Met::Unclear
    } else {
        Met::Yes
    }
}

const VERSION: HeaderName = HeaderName::from_static("x-version");

fn conditions(random: &mut Random) -> Option<Box<Conditions>> {
    let mut conditions = Conditions::default();
    match random.below(6) {
        0 | 1 => {
            let value = random.pick(&["a", "b"]);
            conditions.query.push(("mode".into(), value.into()));
        }
        2 => {
            let value = HeaderValue::from_static(["1", "2"][random.below(2)]);
            conditions.headers.push((VERSION, value));
        }
        _ => return None,
    }
    Some(conditions.into())
}

fn request(random: &mut Random) -> Request<()> {
    let mut path = String::from("/");
    for _ in 0..random.below(6) {
        path += random.pick(&REQUEST_SEGMENTS);
        path.push('/');
    }
    if random.below(4) != 0 {
        path.truncate((path.len() - 1).max(1));
    }
    path += random.pick(&["", "?mode=a", "?mode=b&x=y", "?mode=c", "?mode=a&mode=b"]);
    let mut request = Request::builder()
        .method(&METHODS[random.below(METHODS.len())])
        .uri(path)
        .header(HOST, random.pick(&REQUEST_HOSTS));
    for _ in 0..random.below(3) {
        request = request.header(VERSION, ["1", "2"][random.below(2)]);
    }
    request.body(()).unwrap()
}

/// Formats a problem as its status, its `error` and `Allow`.
fn text(problem: Problem) -> String {
    let allow = problem
        .clone()
        .respond::<Bytes>()
        .headers()
        .get(ALLOW)
        .cloned();
    format!("{problem:?} {allow:?}")
}

#[test]
fn the_first_that_matches_is_found_as_if_each_were_tried_in_turn() {
    // The number of each result: a match, a bad path, no route, other methods.
    let mut seen = [0; 4];
    for seed in 0..1_000 {
        let mut random = Random(seed);
        // Either many routes, or so few that several of them often match.
        let count = if seed % 10 == 0 { 200 } else { 12 };
        let model: Vec<_> = (0..=random.below(count))
            .map(|_| route(&mut random))
            .collect();
        let routes = Routes::of_shapes(model.iter().cloned().enumerate());
        for _ in 0..40 {
            let request = request(&mut random);
            let Ok(target) = Target::of(&request) else {
                continue;
            };
            let expected = in_turn(&model, &target, request.method());
            seen[match &expected {
                Ok(_) => 0,
                Err(problem) => match problem.status {
                    StatusCode::BAD_REQUEST => 1,
                    StatusCode::NOT_FOUND => 2,
                    _ => 3,
                },
            }] += 1;
            let result = routes.find(&target, request.method());
            assert_eq!(
                result.map(|it| *it.route).map_err(text),
                expected.map_err(text),
                "seed {seed}: {request:?} among {model:#?}"
            );
        }
    }
    assert!(seen.iter().all(|&times| times > 1_000), "{seen:?}");
}

#[test]
fn whatever_hides_a_route_is_near_it() {
    let mut hidden = 0;
    for seed in 0..100 {
        let mut random = Random(seed);
        let model: Vec<_> = (0..60).map(|_| route(&mut random)).collect();
        let mut index = RouteIndex::default();
        for (at, shape) in model.iter().enumerate() {
            let RouteShape { host, path, .. } = shape;
            let near = index.near(host.as_ref(), path);
            for (earlier, other) in model[..at].iter().enumerate() {
                let covers_host = other
                    .host
                    .as_ref()
                    .is_none_or(|other| host.as_ref().is_some_and(|host| other.covers(host)));
                if covers_host && other.path.covers(path) {
                    hidden += 1;
                    let message = format!("{:?} {} {host:?} {path}", other.host, other.path);
                    assert!(near.contains(&earlier), "seed {seed}: {message}");
                }
            }
            index.add(host.as_ref(), path, at);
        }
    }
    assert!(hidden > 1_000, "{hidden}");
}
