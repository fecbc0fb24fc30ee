//! `tidegate completions` and `tidegate man`: write completions for shells and manual pages, from the definitions of the arguments.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Failure, print};

/// The arguments of `completions`.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Debug, Args)]
pub(super) struct Manual {
    /// The folder; it must exist
    folder: PathBuf,
}

/// Prints the completions of one shell.
pub(super) fn completions(options: &Completions) {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "tidegate", &mut text);
    print(&String::from_utf8_lossy(&text));
}

/// Writes a manual page for the program, and a manual page for each command.
pub(super) fn manual(options: &Manual) -> Result<(), Failure> {
    let folder: &Path = &options.folder;
    // The pages show only the release number, so that all builds of a release write the same pages.
    let program = Cli::command().version(env!("CARGO_PKG_VERSION"));
    let written = clap_mangen::generate_to(program, folder);
    written.map_err(|error| {
        let folder = folder.display();
        Failure::failed(format!(
            "manual pages cannot be written to {folder}: {error}"
        ))
    })
}
