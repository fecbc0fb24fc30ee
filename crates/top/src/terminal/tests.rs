//! Tests that a panic during a drawing restores the terminal.

use std::process::Command;
use std::{env, fs};

use super::held;

/// The test below runs this in a terminal of its own.
#[test]
#[ignore = "it panics; the test below runs it"]
fn panics_in_draw() {
    let _ = held(|terminal, _| {
        terminal.draw(|_| panic!("drawing broke"))?;
        Ok(())
    });
}

#[test]
fn a_panic_in_draw_leaves_the_terminal_as_it_was() {
    let folder = env::temp_dir().join(format!("tidegate-top-draw-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let own = env::current_exe().unwrap();
    let shell = format!(
        "stty -a > before; {} --ignored --exact --nocapture --test-threads 1 terminal::tests::panics_in_draw; stty -a > after",
        own.display()
    );
    let output = Command::new("script")
        .args(["-qec", &shell, "/dev/null"])
        .env("TERM", "xterm-256color")
        .current_dir(&folder)
        .output()
        .expect("script of util-linux can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    let (alternate, back) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
    let (_, shown) = text.split_once(alternate).expect("the view was shown");
    let (_, then) = shown.split_once(back).expect("the screen came back");
    assert!(then.contains("drawing broke"), "{then}");
    assert!(
        !then.contains(alternate),
        "nothing is drawn any more: {then}"
    );
    let modes = |name| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(modes("before"), modes("after"));
    fs::remove_dir_all(folder).unwrap();
}
