//! A panic behind the view leaves the terminal as it was, and is told.

use std::env;
use std::fs;
use std::process::Command;

use tidegate_top::{Options, Source, run};

/// Runs below in a terminal of its own.
#[test]
#[ignore = "it panics; the test below runs it"]
fn shows_a_gateway_until_a_panic() {
    let mut documents = 0;
    let read = std::sync::Mutex::new(move |_: &str| {
        documents += 1;
        assert!(documents < 3, "the third document breaks it");
        Ok(b"{\"version\":1}".to_vec())
    });
    let gateway = Source {
        name: "gateway".to_owned(),
        read: Box::new(move |path| (read.lock().unwrap())(path)),
    };
    let ended = run(vec![gateway], Options::default());
    assert_eq!(
        ended,
        Err("a part of this program failed; the message above says where".to_owned())
    );
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let folder = env::temp_dir().join(format!("tidegate-top-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let own = env::current_exe().unwrap();
    let shell = format!(
        "stty -a > before; {} --ignored --exact --nocapture shows_a_gateway_until_a_panic; stty -a > after",
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
    assert!(then.contains("the third document breaks it"), "{then}");
    assert!(
        !then.contains(alternate),
        "nothing is drawn any more: {then}"
    );
    assert!(then.contains("test result: ok"), "{then}");
    let modes = |name| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(modes("before"), modes("after"));
    fs::remove_dir_all(folder).unwrap();
}
