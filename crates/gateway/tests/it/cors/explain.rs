//! `tidegate explain` of a preflight, and of what it asks about.

use std::process::Command;

use super::CORS;

#[test]
fn it_knows_preflights() {
    let folder = tempfile::tempdir().unwrap();
    let yaml =
        format!("routes: [{{ name: app, path: /**, methods: [PUT], upstream: http://h, {CORS} }}]");
    std::fs::write(folder.path().join("gateway.yaml"), yaml).unwrap();
    let explain = |method: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.current_dir(folder.path()).args([
            "explain",
            method,
            "/",
            "-H",
            "Origin: https://app.example.com",
            "-H",
            "Access-Control-Request-Method: PUT",
        ]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let cors = "cors:     pages of https://app.example.com, https://*.example.org may send PUT, with credentials\n";
    let answer = "answer:   204 by the gateway itself, for it is a CORS preflight\n";
    let told = explain("OPTIONS");
    assert!(told.starts_with("route:    app\n"), "{told}");
    assert!(told.contains(cors) && told.contains(answer), "{told}");
    let told = explain("PUT");
    assert!(told.contains(cors) && !told.contains(answer), "{told}");
}
