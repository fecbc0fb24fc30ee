//! Counts instructions: this program runs itself under valgrind, which counts the instructions inside a single function.

use std::env;
use std::hint::black_box;
use std::process::Command;

/// A closure that runs an operation once.
pub(crate) type Operation = Box<dyn FnMut()>;

/// The number of operations before the count begins.
const WARM: u64 = 2_000;
/// The number of counted operations.
const COUNTED: u64 = 2_000;

/// Returns the average number of instructions of an operation. `part` names the field of
/// [`Figure`](crate::table::Figure) whose operation is counted: `work` or `less`.
pub(crate) fn instructions(table: &str, row: usize, column: usize, part: &str) -> u64 {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*counted_by_callgrind*",
        ])
        .arg(env::current_exe().expect("a program has a path"))
        .arg(format!("{table}/{row}/{column}/{part}"))
        .output()
        .expect("valgrind can be run (Debian: apt-get install valgrind)");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, count)| count.trim().parse::<u64>().ok())
        .expect("callgrind says what it has collected");
    assert!(collected > 0, "nothing was counted: {text}");
    collected / COUNTED
}

/// Runs an operation under valgrind: first `WARM` times without counting, then `COUNTED` times with counting.
pub(crate) fn count(mut operation: Operation) {
    (0..WARM).for_each(|_| operation());
    counted_by_callgrind(&mut operation);
}

/// Runs the counted operations. callgrind finds this function by its name.
#[inline(never)]
fn counted_by_callgrind(operation: &mut Operation) {
    for _ in 0..COUNTED {
        black_box(&mut *operation)();
    }
}
