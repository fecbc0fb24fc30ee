//! How instructions are counted: this program, under valgrind, between the start and the end of one function.

use std::env;
use std::hint::black_box;
use std::process::Command;

/// Does one operation.
pub(crate) type Operation = Box<dyn FnMut()>;

/// How often an operation is done before it is counted, and while it is.
const WARM: u64 = 2_000;
const COUNTED: u64 = 2_000;

/// The instructions of one operation, on average: the `work` of a figure, or what is `less`.
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let collected = said
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, count)| count.trim().parse::<u64>().ok())
        .expect("callgrind says what it has collected");
    assert!(collected > 0, "nothing was counted: {said}");
    collected / COUNTED
}

/// Does an operation under valgrind, which counts it.
pub(crate) fn count(mut operation: Operation) {
    (0..WARM).for_each(|_| operation());
    counted_by_callgrind(&mut operation);
}

/// All that is counted; callgrind knows it by its name.
#[inline(never)]
fn counted_by_callgrind(operation: &mut Operation) {
    for _ in 0..COUNTED {
        black_box(&mut *operation)();
    }
}
