//! The cost of finding the route of a request, among few and among many routes.

use std::hint::black_box;

use http::Request;
use http::header::HOST;
use tidegate::bench::{RouteTable, Sought};

use crate::table::{Figure, Operation, Row, Table, grouped};

const COUNTS: [usize; 3] = [10, 1_000, 10_000];

/// Routes of one kind, and requests for them.
#[derive(Clone, Copy)]
struct Kind {
    /// Returns host and path, in YAML, of the route with this index.
    route: fn(usize) -> String,
    /// Host and path, in YAML, of the route with a `*`, which is in the middle of the list.
    wildcard: &'static str,
    /// Returns a request for the route with this index.
    request: fn(usize) -> Request<()>,
    wildcard_request: fn() -> Request<()>,
}

const BY_PATH: Kind = Kind {
    route: |at| format!("path: \"/api/service-{at:05}/orders/{{id}}\""),
    wildcard: "path: /files/**",
    request: |at| request("example.com", &format!("/api/service-{at:05}/orders/42")),
    wildcard_request: || request("example.com", "/files/a/b"),
};

const BY_HOST: Kind = Kind {
    route: |at| format!("host: tenant-{at:05}.example.com, path: \"/orders/{{id}}\""),
    wildcard: "host: \"*.files.example.com\", path: /**",
    request: |at| request(&format!("tenant-{at:05}.example.com"), "/orders/42"),
    wildcard_request: || request("eu.files.example.com", "/a/b"),
};

pub(crate) fn tables() -> [Table; 2] {
    [
        table("finding a route by its path, among", BY_PATH),
        table("finding a route by its host, among", BY_HOST),
    ]
}

fn table(title: &'static str, kind: Kind) -> Table {
    // Takes the index of the last route. Returns a request, and whether any route matches the request.
    type Asked = fn(Kind, usize) -> (Request<()>, bool);
    let rows: [(&str, Asked); 4] = [
        ("the first", |kind, _| ((kind.request)(0), true)),
        ("the last", |kind, last| ((kind.request)(last), true)),
        ("the one with a `*`", |kind, _| {
            ((kind.wildcard_request)(), true)
        }),
        ("none: 404", |kind, _| ((kind.request)(99_999), false)),
    ];
    let row = |(name, make): (&str, Asked)| Row {
        name: name.into(),
        figures: COUNTS
            .map(|count| {
                Figure::of(move || {
                    let (request, is_there) = make(kind, count - 2);
                    find(kind, count, request, is_there)
                })
            })
            .into(),
    };
    Table {
        title,
        columns: COUNTS
            .map(|count| format!("{} routes", grouped(count as u64)))
            .into(),
        rows: rows.map(row).into(),
        is_of_routes: true,
    }
}

/// Returns an operation that finds the route of a request among `count` routes.
fn find(kind: Kind, count: usize, request: Request<()>, is_there: bool) -> Operation {
    let mut routes: Vec<_> = (0..count - 1).map(kind.route).collect();
    routes.insert(count / 2, kind.wildcard.into());
    let mut text = String::from(
        "limits: { l: { fixed_window: { limit: 9, window: 1s } } }\n\
         upstreams: { u: { servers: [http://127.0.0.1:9000] } }\nroutes:\n",
    );
    for route in routes {
        text += &format!("  - {{ {route}, upstream: u, limits: [l] }}\n");
    }
    let (settings, _) =
        tidegate_config::parse("routes.yaml", &text, |_| None).expect("it is right");
    let routes = RouteTable::new(&settings);
    // The request is leaked, because `sought` borrows it during the whole operation.
    let sought = Sought::by(Box::leak(Box::new(request))).expect("it is well formed");
    Box::new(move || assert_eq!(routes.find(black_box(&sought)), is_there))
}

fn request(host: &str, path: &str) -> Request<()> {
    let request = Request::builder().uri(path).header(HOST, host);
    request.body(()).expect("it is well formed")
}
