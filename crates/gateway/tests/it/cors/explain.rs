//! `tidegate explain` of a preflight, and of what it asks about.

use super::CORS;
use crate::support::commands::{explained, written};

#[test]
fn it_knows_preflights() {
    let yaml =
        format!("routes: [{{ name: app, path: /**, methods: [PUT], upstream: http://h, {CORS} }}]");
    let (folder, _file) = written(&yaml);
    let (origin, asked) = (
        "Origin: https://app.example.com",
        "Access-Control-Request-Method: PUT",
    );
    let explain =
        |method: &str| explained(&folder, &[method, "/", "-H", origin, "-H", asked]).join("\n");
    let cors = "cors:     pages of https://app.example.com, https://*.example.org may send PUT, with credentials";
    let answer = "answer:   204 by the gateway itself, for it is a CORS preflight";
    let told = explain("OPTIONS");
    assert!(told.starts_with("route:    app\n"), "{told}");
    assert!(told.contains(cors) && told.contains(answer), "{told}");
    let told = explain("PUT");
    assert!(told.contains(cors) && !told.contains(answer), "{told}");
}
