//! The configuration as users meet it: one broken file per rule with its exact message, warnings,
//! and the shipped reference.
//!
//! `UPDATE_BROKEN=1 cargo test --test config` writes the messages anew; read the difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate::config::{self, ConfigError, LogFormat, Plan, StorePlan, Warning};

/// No message may hold this; in the broken files and in the environment it is every secret.
const SECRET: &str = "hunter2";

fn env(name: &str) -> Option<String> {
    let value = match name {
        "PASSWORD" => SECRET,
        "REDIS_URL" => "redis://:hunter2@redis:port",
        "NUMBER" => "5",
        _ => return None,
    };
    Some(value.to_owned())
}

fn parse(text: &str) -> Result<(Plan, Vec<Warning>), ConfigError> {
    config::parse("gateway.yaml", text, env)
}

fn plan(text: &str) -> Plan {
    parse(text).unwrap_or_else(|error| panic!("{error}")).0
}

/// A configuration of one route, and something more.
fn with(more: &str) -> String {
    format!("routes: [{{ path: /**, upstream: http://127.0.0.1:9000 }}]\n{more}")
}

mod broken {
    use super::*;

    fn names(extension: &str) -> BTreeSet<PathBuf> {
        let files = fs::read_dir("tests/broken").unwrap();
        let files = files.map(|file| file.unwrap().path());
        files
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .map(|path| path.with_extension(""))
            .collect()
    }

    #[test]
    fn every_file_is_refused_with_its_message() {
        let update = std::env::var_os("UPDATE_BROKEN").is_some();
        let mut wrong = Vec::new();
        for path in names("yaml") {
            let (yaml, txt) = (path.with_extension("yaml"), path.with_extension("txt"));
            let message = match config::load(&yaml, env) {
                Ok(_) => panic!("{} is accepted", yaml.display()),
                Err(error) => format!("{error}\n"),
            };
            assert!(!message.contains(SECRET), "a secret is told: {message}");
            if update {
                fs::write(&txt, &message).unwrap();
            } else if fs::read_to_string(&txt).unwrap_or_default() != message {
                wrong.push(format!("--- {}\n{message}", txt.display()));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_file_has_its_message_and_every_message_its_file() {
        if std::env::var_os("UPDATE_BROKEN").is_none() {
            assert_eq!(names("yaml"), names("txt"));
        }
        assert!(names("yaml").len() >= 30);
    }
}
