//! The real binary as a command that ends by itself.

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Exit status, standard output and standard error of a command.
pub(crate) type Ended = (Option<i32>, String, String);

/// Returns the command `tidegate` with these arguments.
pub(crate) fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments);
    command
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// As [`ended`], while this process goes on and can answer the command.
pub(crate) async fn ended_beside(mut command: Command) -> Ended {
    let ended = tokio::task::spawn_blocking(move || ended(&mut command));
    ended.await.unwrap()
}

/// Returns standard output of a command that must succeed without a complaint.
pub(crate) fn printed(command: &mut Command) -> String {
    let (status, out, err) = ended(command);
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    out
}

/// Gives a command this text as its standard input.
pub(crate) fn fed(mut command: Command, input: &str) -> Command {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input.as_bytes()).unwrap();
    file.rewind().unwrap();
    command.stdin(file);
    command
}

/// Writes a configuration as `gateway.yaml` into a folder of its own.
pub(crate) fn written(yaml: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, yaml).unwrap();
    (folder, file)
}

/// Returns the lines that `explain` prints by the `gateway.yaml` of a folder.
pub(crate) fn explained(folder: &TempDir, arguments: &[&str]) -> Vec<String> {
    let mut command = tidegate(&["explain"]);
    let text = printed(command.args(arguments).current_dir(folder.path()));
    text.lines().map(str::to_owned).collect()
}

/// Returns what `check --running` prints about a file, which passes.
pub(crate) fn checked_running(file: &Path) -> String {
    printed(tidegate(&["check", "--running", "-c"]).arg(file))
}
