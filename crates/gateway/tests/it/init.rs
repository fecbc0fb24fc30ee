//! `tidegate init` writes a configuration that starts, and changes no file that exists.

use std::path::Path;

use crate::support::commands::{Ended, ended};

fn tidegate(folder: &Path, arguments: &[&str]) -> Ended {
    ended(crate::support::commands::tidegate(arguments).current_dir(folder))
}

#[test]
fn what_it_writes_passes_check_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        "--listen 0.0.0.0:8080 --burst 50 --rate 100/m --trusted-proxies 10.0.0.0/8,fd00:1::/64";
    for (file, more) in [("gateway.yaml", ""), ("other.yaml", options)] {
        let mut arguments = vec!["init", "-c", file, "--upstream", "http://127.0.0.1:9000"];
        arguments.extend(more.split_whitespace());
        let (status, out, err) = tidegate(folder.path(), &arguments);
        assert_eq!((status, &*err), (Some(0), ""));
        assert!(out.starts_with(&format!("{file} was written.")), "{out}");
        // So many connections may not fit everywhere, which is not the file's fault.
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        std::fs::write(
            folder.path().join(file),
            format!("{text}max_connections: 10\n"),
        )
        .unwrap();
        let (status, out, _) = tidegate(folder.path(), &["check", "-c", file]);
        assert_eq!(status, Some(0));
        let expected = format!("{file}: would start, with 1 route and 1 limit; 0 warnings\n");
        assert_eq!(out, expected);
    }
    let text = std::fs::read_to_string(folder.path().join("other.yaml")).unwrap();
    assert!(text.contains("capacity: 50, refill: 100/m"), "{text}");
    let proxies = "\ntrusted_proxies: [10.0.0.0/8, fd00:1::/64]\n";
    assert!(text.contains(proxies), "{text}");
}

#[test]
fn a_file_that_exists_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, "mine").unwrap();
    let upstream = ["init", "--upstream", "http://127.0.0.1:9000"];
    let (status, out, err) = tidegate(folder.path(), &upstream);
    assert_eq!((status, &*out), (Some(1), ""));
    assert!(err.contains("gateway.yaml exists already"), "{err}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    // A link counts as well, also one that leads nowhere.
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &file).unwrap();
    let (status, ..) = tidegate(folder.path(), &upstream);
    assert_eq!(status, Some(1));
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn a_wrong_value_and_a_missing_upstream_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        ("", "--upstream http://HOST:PORT"),
        ("--upstream 127.0.0.1:9000", "write http://127.0.0.1:9000"),
        ("--upstream http://h --rate fast", "`fast` is not a rate"),
        (
            "--upstream http://h --trusted-proxies my-proxy",
            "`my-proxy` is not",
        ),
    ] {
        let arguments: Vec<_> = ["init"]
            .into_iter()
            .chain(arguments.split_whitespace())
            .collect();
        let (status, out, err) = tidegate(folder.path(), &arguments);
        assert_eq!((status, &*out), (Some(2), ""), "{arguments:?}");
        assert!(err.contains(reason), "{err}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
