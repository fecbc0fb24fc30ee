//! Sets the commit and the profile of the program for `src/program.rs`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TIDEGATE_COMMIT");
    // Cargo names the profile only here: target/PROFILE/build/PACKAGE/out.
    let folder = std::env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&folder).ancestors().nth(3);
    let profile = profile.and_then(|it| it.file_name()?.to_str());
    let profile = profile.unwrap_or("unknown");
    let commit = std::env::var("TIDEGATE_COMMIT").ok();
    let commit = commit.filter(|commit| !commit.is_empty());
    // Debug builds have no commit, because each commit would build this crate and its dependents again.
    let commit = commit.or_else(|| (profile != "debug").then(of_checkout).flatten());
    println!(
        "cargo::rustc-env=TIDEGATE_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
    println!("cargo::rustc-env=TIDEGATE_PROFILE={profile}");
}

/// Returns the commit of the checkout that holds the sources, if there is one.
fn of_checkout() -> Option<String> {
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
