//! `tidegate`: the commands of the library, and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::commands::main()
}
