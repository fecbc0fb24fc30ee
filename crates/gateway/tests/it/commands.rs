//! What people type: what is printed where, and with which status a command ends.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_testkit::Process;

use crate::kit::LONG;
use crate::support::commands::{Ended, ended, fed, tidegate, written as file};

const GOOD: &str = "
limits:
  few: { fixed_window: { limit: 3, window: 1d } }
routes:
  - { path: /api/**, upstream: http://127.0.0.1:9000, limits: [few] }
max_connections: 100
";

fn check(file: &Path) -> Ended {
    ended(tidegate(&["check", "-c"]).arg(file))
}

#[test]
fn check_says_on_standard_output_that_a_file_would_start() {
    let (_folder, file) = file(GOOD);
    let (status, out, err) = check(&file);
    assert_eq!((status, &*err), (Some(0), ""));
    let verdict = format!(
        "{}: would start, with 1 route and 1 limit; 0 warnings\n",
        file.display()
    );
    assert_eq!(out, verdict);
}

#[test]
fn check_warns_and_still_says_yes() {
    let (_folder, file) = file(&format!("{GOOD}clients: [{{ user_id: {{}} }}]\n"));
    let (status, out, err) = check(&file);
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(
        out.contains("warning: ") && out.contains("trusted_proxies"),
        "{out}"
    );
    assert!(
        out.ends_with("would start, with 1 route and 1 limit; 1 warning\n"),
        "{out}"
    );
}

#[test]
fn check_says_on_standard_error_what_is_wrong_and_where() {
    let (_folder, file) = file(&GOOD.replace("limits: [few]", "limits: [many]"));
    let (status, out, err) = check(&file);
    assert_eq!((status, &*out), (Some(2), ""));
    let place = format!("error: {}:5:", file.display());
    assert!(err.starts_with(&place) && err.contains("many"), "{err}");
}

#[test]
fn what_cannot_be_read_is_no_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.yaml");
    for (path, reason) in [(&*missing, "no such file"), (folder.path(), "directory")] {
        for command in [&["check"][..], &["run"], &["explain", "GET", "/"], &[]] {
            let (status, out, err) = ended(tidegate(command).arg("-c").arg(path));
            assert_eq!((status, &*out), (Some(2), ""), "{command:?}");
            let name = path.display().to_string();
            assert!(
                err.contains(&name) && err.contains(reason),
                "{command:?}: {err}"
            );
        }
    }
}

/// A mistake in the file on disk is no reason not to ask a gateway that runs.
#[test]
fn commands_for_a_running_gateway_name_the_way_around_a_broken_file() {
    let (_folder, file) = file(&GOOD.replace("window:", "windows:"));
    for arguments in [
        &["top", "--once"][..],
        &["client", "api_key:demo", "show"],
        &["why", "1"],
        &["health"],
        &["overrides", "list"],
    ] {
        let (status, _, err) = ended(tidegate(arguments).arg("-c").arg(&file));
        assert_eq!(status, Some(2), "{arguments:?}: {err}");
        let remedy = "name its admin port: --admin http://127.0.0.1:9901\n";
        assert!(
            err.starts_with("error: ") && err.ends_with(remedy),
            "{arguments:?}: {err}"
        );
    }
    // The check of the file has no such way.
    let (_, _, err) = check(&file);
    assert!(!err.contains("--admin"), "{err}");
}

#[test]
fn the_file_is_gateway_yaml_where_nothing_else_is_said() {
    let (folder, _file) = file(GOOD);
    let (status, out, _) = ended(tidegate(&["check"]).current_dir(folder.path()));
    assert_eq!(status, Some(0));
    assert!(out.starts_with("gateway.yaml: would start"), "{out}");
}

#[test]
fn what_is_no_command_is_refused() {
    let (_folder, file) = file(GOOD);
    let file = file.to_str().unwrap();
    for wrong in [
        &["chekc"][..],
        &["check", "--fast"],
        &["explain", "GET"],
        &["explain", "GET", "no-path", "-c", file],
        &["explain", "GET", "/", "-H", "no colon", "-c", file],
        &["explain", "GET", "/", "--peer", "somewhere", "-c", file],
    ] {
        let (status, out, err) = ended(&mut tidegate(wrong));
        assert_eq!((status, &*out), (Some(2), ""), "{wrong:?}");
        assert!(err.starts_with("error: "), "{wrong:?}: {err}");
    }
    let (status, out, err) = ended(&mut tidegate(&["--help"]));
    assert_eq!((status, &*err), (Some(0), ""));
    for command in ["run", "demo", "check", "explain", "client", "schema"] {
        assert!(
            out.contains(&format!("\n  {command} ")),
            "{command} is not in:\n{out}"
        );
    }
}

#[test]
fn commands_without_a_configuration_take_none() {
    for command in [
        &["schema"][..],
        &["demo"],
        &["keys", "new", "acme"],
        &["completions", "bash"],
    ] {
        let (status, out, err) = ended(&mut tidegate(&[command, &["-c", "none.yaml"]].concat()));
        assert_eq!((status, &*out), (Some(2), ""), "{command:?}");
        assert!(err.contains("leave out -c"), "{command:?}: {err}");
    }
}

#[test]
fn the_schema_is_one_and_knows_every_key() {
    let (status, out, err) = ended(&mut tidegate(&["schema"]));
    assert_eq!((status, &*err), (Some(0), ""));
    let schema: Value = serde_json::from_str(&out).unwrap();
    assert!(
        schema["$schema"]
            .as_str()
            .unwrap()
            .starts_with("https://json-schema.org/")
    );
    assert_eq!(schema["additionalProperties"], false);
    let mut keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    keys.sort_unstable();
    let expected = "admin allow always clients decisions deny deny_file exempt forward_client headers health \
        limits listen log max_body max_connections max_connections_per_ip max_memory overrides_file plans reject \
        request_id_in_answers require response_headers routes secret store timeouts tracing trusted_proxies unmatched \
        upstreams";
    assert_eq!(keys, expected.split(' ').collect::<Vec<_>>());
}

/// Sees that no gateway starts from this file, within a second, and returns the line that begins so. `code` is the exit status. A
/// machine that is busy with other tests may need three attempts.
async fn refused(file: &Path, code: i32, beginning: &str) -> String {
    let mut took = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        let mut process = Process::spawn(std::mem::replace(
            tidegate(&["run", "-c"]).arg(file),
            Command::new("true"),
        ));
        let status = process.wait(LONG).await;
        took.push(started.elapsed());
        assert_eq!(status.code(), Some(code), "{:?}", process.output());
        let line = process.wait_for_line(beginning, LONG).await;
        let output = process.output();
        assert!(line.starts_with(beginning), "{output:?}");
        assert!(
            !output.iter().any(|line| line.contains("listening")),
            "{output:?}"
        );
        if took.iter().any(|took| *took < Duration::from_secs(1)) {
            return line;
        }
    }
    panic!("it took {took:?} to say no");
}

#[tokio::test]
async fn a_broken_configuration_starts_nothing() {
    let (_folder, file) = file(&GOOD.replace("limit: 3", "limit: 0"));
    let place = format!("error: {}:3:", file.display());
    assert!(refused(&file, 2, &place).await.contains("at least 1"));
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_remedy_and_nothing_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    // Whoever connects to it would be a gateway that has begun.
    let redis = TcpListener::bind("127.0.0.1:0").unwrap();
    redis.set_nonblocking(true).unwrap();
    let store = format!(
        "store: {{ redis: {{ url: \"redis://{}\" }} }}",
        redis.local_addr().unwrap()
    );
    for (listen, admin) in [
        (format!("\"{address}\""), "127.0.0.1:0".to_owned()),
        (
            format!("[\"127.0.0.1:0\", \"{address}\"]"),
            "127.0.0.1:0".to_owned(),
        ),
        ("127.0.0.1:0".to_owned(), format!("\"{address}\"")),
    ] {
        let (_folder, file) = file(&format!(
            "listen: {listen}\nadmin: {admin}\n{store}\n{GOOD}"
        ));
        let line = refused(&file, 1, &format!("error: cannot listen on {address}: ")).await;
        assert!(
            line.contains("in use") && line.contains("choose another"),
            "{line}"
        );
        assert_eq!(redis.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[tokio::test]
async fn a_running_gateway_logs_each_warning_as_one_line() {
    let yaml = format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog: {{ format: text }}\n{GOOD}");
    let (_folder, file) = file(&format!("{yaml}clients: [{{ user_id: {{}} }}]\n"));
    let mut command = tidegate(&["run"]);
    command.arg("-c").arg(&file);
    let mut process = Process::spawn(command);
    process.wait_for_line("admin port", LONG).await;
    process.signal("TERM");
    assert_eq!(process.wait(LONG).await.code(), Some(0));
    process.wait_for_line("stopped", LONG).await;
    let output = process.output();
    let warnings: Vec<_> = output.iter().filter(|line| line.contains("WARN")).collect();
    let place = format!("{}:", file.display());
    assert_eq!(warnings.len(), 1, "{output:?}");
    let warning = warnings[0];
    assert!(
        warning.contains(&place) && warning.contains("trusted_proxies"),
        "{warning}"
    );
    assert!(
        output.iter().all(|line| line.starts_with("20")),
        "each line has its time: {output:?}"
    );
}

#[tokio::test]
async fn an_address_of_another_machine_is_told_from_a_port_in_use() {
    // TEST-NET-1 is nobody's address.
    let (_folder, file) = file(&format!("listen: 192.0.2.1:8080\n{GOOD}"));
    let line = refused(&file, 1, "error: cannot listen on 192.0.2.1:8080: ").await;
    assert!(line.contains("no such address"), "{line}");
}

#[test]
fn a_key_that_can_be_guessed_gets_no_entry() {
    let hash = |key: &str| {
        let mut command = fed(tidegate(&["keys", "hash", "acme"]), key);
        let (status, out, err) = ended(&mut command);
        (status, out + &err)
    };
    for short in ["hunter2\n", "123456789012345"] {
        let (status, said) = hash(short);
        assert_eq!(status, Some(2), "{short}");
        assert!(said.contains("16 characters or more"), "{said}");
        assert!(!said.contains(short.trim()), "{said}");
    }
    let (status, entry) = hash("1234567890123456\n");
    let sha256 = crate::callers::sha256("1234567890123456");
    assert_eq!(status, Some(0), "{entry}");
    assert_eq!(
        entry,
        format!("- {{ name: acme, hash: \"sha256:{sha256}\" }}\n")
    );
}

#[test]
fn a_new_key_comes_with_the_entry_to_paste() {
    let keys = |arguments: &[&str]| ended(&mut tidegate(&[&["keys"], arguments].concat()));
    let (status, told, _) = keys(&["new", "acme inc", "--plan", "gold"]);
    assert_eq!(status, Some(2), "a name has no blanks: {told}");
    let end = "2999-01-31T12:00:00Z";
    let (status, told, error) = keys(&["new", "acme", "--plan", "gold", "--expires", end]);
    assert_eq!((status, &*error), (Some(0), ""));
    let (key, entry) = told.trim_end().split_once("\nentry: ").unwrap();
    let key = key.strip_prefix("key:   ").unwrap();
    let hash = crate::callers::sha256(key);
    let expected =
        format!("- {{ name: acme, hash: \"sha256:{hash}\", expires: \"{end}\", plan: gold }}");
    assert_eq!(entry, expected);
    // The entry is one that a configuration takes, whatever YAML takes its words for.
    let mut entries = entry.to_owned();
    for name in "null ~x - -- -x No 1e3 0x1F 2026-01-31 y _ 1_0 ON True #x &x * x:".split(' ') {
        let (status, told, _) = keys(&["new", "--plan", "gold", "--", name]);
        // Some are no names of clients.
        if status == Some(0) {
            entries.push('\n');
            entries.push_str(told.trim_end().split_once("\nentry: ").unwrap().1);
        }
    }
    assert!(entries.lines().count() > 10, "{entries}");
    let (folder, file) = file(
        "clients: [{ api_key: { keys_file: keys.yaml } }]\n\
         plans: { gold: { own: unlimited } }\n\
         limits: { own: { fixed_window: { limit: 1, window: 1h } } }\n\
         routes: [{ path: /**, upstream: \"http://127.0.0.1:9000\", limits: [own] }]\n",
    );
    std::fs::write(folder.path().join("keys.yaml"), entries).unwrap();
    let (status, told, error) = check(&file);
    assert_eq!(status, Some(0), "{told}{error}");
    for (arguments, why) in [
        (&["--expires", "2021-01-31"][..], "this time is over"),
        (&["--expires", "soon"], "2027-01-31"),
        (&["--plan", "gold plated"], "letters, digits"),
    ] {
        let (status, _, error) = keys(&[&["new", "acme"], arguments].concat());
        assert_eq!(status, Some(2), "{arguments:?}");
        assert!(error.contains(why), "{error}");
    }
}
