//! Checks that every `yaml` block is a configuration that passes `tidegate check`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tidegate_config::Settings;
use tidegate_testkit::Authority;

use super::pages::book;

/// An RSA key, as an issuer of tokens publishes it.
const ISSUER: &str = include_str!("issuer.pem");
/// The value of each environment variable, which is long enough for a secret.
const VALUE: &str = "value-of-a-variable-0123456789abcdef";

/// The entry of the API key that docs/getting-started.md makes.
const KEYS: &str = "- { name: acme, hash: \"sha256:255c55863d7f1e6b19029fcdaee2f1fac93a698f69177f70849f359b8a2e36d5\" }";

/// A directory with the files that blocks can name.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        let authority = Authority::new();
        authority.issue(&["localhost"]).write(folder.path(), "own");
        for (from, to) in [("own.pem", "cert.pem"), ("own.key", "key.pem")] {
            fs::rename(path(from), path(to)).unwrap();
        }
        fs::write(path("ca.pem"), authority.pem()).unwrap();
        fs::write(path("issuer.pem"), ISSUER).unwrap();
        fs::write(path("keys.yaml"), KEYS).unwrap();
        fs::write(path("denied.txt"), "# none\n").unwrap();
        Self(folder)
    }

    /// Parses a block as a configuration. The error is the reason why the configuration is refused.
    pub(super) fn parse(&self, block: &str) -> Result<Settings, String> {
        let text = completed(block);
        // Variables that have a default are left unset.
        let env = |name: &str| {
            let is_needed = text.contains(&format!("${{{name}}}"));
            is_needed.then(|| VALUE.to_owned())
        };
        let file = self.0.path().join("gateway.yaml");
        let parsed = tidegate_config::parse(&file.display().to_string(), &text, env);
        parsed
            .map(|(settings, _)| settings)
            .map_err(|error| error.to_string())
    }
}

/// Adds a route with all limits of the block, if the block has no routes.
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
    let folder = Folder::new();
    let (mut read, mut wrong) = (0, String::new());
    for block in book().iter().flat_map(|page| page.blocks()) {
        if block.kind != "yaml" {
            let is_known = !block.kind.starts_with("yaml") || block.kind == "yaml fragment";
            assert!(is_known, "{}: ```{}", block.place, block.kind);
            continue;
        }
        read += 1;
        if let Err(error) = folder.parse(&block.text) {
            let _ = writeln!(wrong, "{}:\n{error}\n", block.place);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(read >= 20, "{read} blocks were found");
}
