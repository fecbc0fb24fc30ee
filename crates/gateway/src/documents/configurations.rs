//! Every `yaml` block is a configuration that passes `tidegate check`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tidegate_testkit::Authority;

use super::pages::book;

/// An RSA key as an issuer of tokens has one.
const ISSUER: &str = include_str!("issuer.pem");
/// What variables of the environment hold: long enough for a secret.
const VALUE: &str = "value-of-a-variable-0123456789abcdef";

/// The files that blocks may name.
fn write_files(folder: &Path) {
    let authority = Authority::new();
    authority.issue(&["localhost"]).write(folder, "own");
    for (from, to) in [("own.pem", "cert.pem"), ("own.key", "key.pem")] {
        fs::rename(folder.join(from), folder.join(to)).unwrap();
    }
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    fs::write(folder.join("issuer.pem"), ISSUER).unwrap();
    fs::write(folder.join("keys.yaml"), "[]").unwrap();
}

/// The block with one route that lists all its limits, if it has no routes.
fn completed(text: &str) -> String {
    if text.lines().any(|line| line.starts_with("routes:")) {
        return text.to_owned();
    }
    let below = text.lines().skip_while(|line| !line.starts_with("limits:"));
    let below = below
        .skip(1)
        .take_while(|line| line.is_empty() || line.starts_with(' '));
    let names = below.filter_map(|line| {
        let (name, _) = line.strip_prefix("  ")?.split_once(':')?;
        name.starts_with(char::is_alphabetic).then_some(name)
    });
    let names: Vec<&str> = names.collect();
    let mut text = text.to_owned();
    let _ = write!(
        text,
        "\nroutes: [{{ path: /only, upstream: http://127.0.0.1:9000, limits: [{}] }}]\n",
        names.join(", ")
    );
    text
}

#[test]
fn every_yaml_block_is_a_configuration_that_would_start() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let file = folder.path().join("gateway.yaml");
    let (mut read, mut wrong) = (0, String::new());
    for block in book().iter().flat_map(|page| page.blocks()) {
        if block.kind != "yaml" {
            let is_known = !block.kind.starts_with("yaml") || block.kind == "yaml fragment";
            assert!(is_known, "{}: ```{}", block.place, block.kind);
            continue;
        }
        read += 1;
        let text = completed(&block.text);
        // Those with a default are not set.
        let env = |name: &str| {
            text.contains(&format!("${{{name}}}"))
                .then(|| VALUE.to_owned())
        };
        if let Err(error) = tidegate_config::parse(&file.display().to_string(), &text, env) {
            let _ = writeln!(wrong, "{}:\n{error}\n", block.place);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(read >= 20, "{read} blocks were found");
}
