# The commands of CONTRIBUTING.md, for `just`. Each is one command that can be typed without it, too.

# Lists the commands.
default:
    @just --list

# Runs the gateway beside a small API.
demo:
    cargo run -- demo

# Builds the gateway as it is installed.
build:
    cargo build --profile dist

# Installs what tests need, and runs all of them.
test *arguments:
    .ci/test {{arguments}}

# Runs all that a change must pass.
ci:
    .ci/run

# Formats the code.
format:
    cargo fmt --all
    cargo fmt --manifest-path crates/fuzz/Cargo.toml

# Runs clippy on all crates, as .ci/run does.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Checks the walls between crates, and the habits of sentences.
walls:
    .ci/walls
    .ci/prose

# Plays this number of trials with fresh seeds.
trials number="100":
    TIDEGATE_TRIALS={{number}} cargo test --release -p tidegate-store --test trials --locked -- fresh --nocapture

# Compares Lua with Rust on this number of operations for each algorithm.
agreement operations="1000000":
    TIDEGATE_AGREEMENT_OPERATIONS={{operations}} cargo test --release -p tidegate-store --test it --locked agreement:: -- --nocapture

# Runs each fuzz target for a few seconds.
fuzz:
    .ci/fuzz

# Counts the instructions of a request.
instructions:
    cargo run --release -p tidegate-bench

# Builds the pages of the code's comments.
doc:
    cargo doc --workspace --no-deps --document-private-items --locked

# Checks dependencies and spelling.
audit:
    .ci/audit
