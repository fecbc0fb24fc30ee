//! Micro-benchmarks with repeatable figures: valgrind's callgrind counts the instructions of work that every request needs.
//!
//!     cargo run --release -p tidegate-bench
//!
//! The program runs itself under valgrind for each figure, and prints tables. It exits with status 1 if a lookup among 10,000 routes costs
//! more than 105 % of a lookup among 10 routes. The page docs/instructions.md explains each row.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "it prints tables, and a panic is how it fails"
)]
// The type of a Redis call's future is nested almost as deeply as the compiler's default limit allows.
#![recursion_limit = "256"]

mod callgrind;
mod clients;
mod counting;
mod decisions;
mod headers;
mod overrides;
mod request;
mod routes;
mod shares;
mod table;

use std::env;
use std::process::ExitCode;

use table::Table;

// The benchmarks use the gateway's allocator, so that allocations have the same cost here and in the gateway.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The highest cost of a lookup among 10,000 routes, in percent of the cost among 10 routes.
const MOST_PERCENT: u64 = 105;

fn tables() -> Vec<Table> {
    let mut tables = vec![
        decisions::table(),
        shares::decisions(),
        shares::requests(),
        headers::table(),
        clients::table(),
        counting::table(),
        overrides::table(),
    ];
    tables.extend(routes::tables());
    tables
}

fn main() -> ExitCode {
    if let Some(figure) = env::args().nth(1) {
        table::count(&tables(), &figure);
        return ExitCode::SUCCESS;
    }
    let mut broken = Vec::new();
    for table in tables() {
        let counts = table.measure();
        println!("{}", table.markdown(&counts));
        if !table.is_of_routes {
            continue;
        }
        for (row, counts) in table.rows.iter().zip(&counts) {
            if let [few, .., many] = counts[..]
                && many * 100 > few * MOST_PERCENT
            {
                broken.push(format!("{} {}: {many} for {few}", table.title, row.name));
            }
        }
    }
    if broken.is_empty() {
        println!("10,000 routes cost at most 5 % more than 10.");
        return ExitCode::SUCCESS;
    }
    println!(
        "10,000 routes cost more than 5 % over 10:\n{}",
        broken.join("\n")
    );
    ExitCode::FAILURE
}
