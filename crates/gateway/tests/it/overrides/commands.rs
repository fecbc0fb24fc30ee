//! `tidegate client` and `tidegate overrides`, against a running gateway.

use http::{Response, StatusCode};

use super::*;
use crate::support::commands::{Ended, ended_beside, fed, written};

async fn tidegate(arguments: &[&str], input: &str) -> Ended {
    let mut command = crate::support::commands::tidegate(arguments);
    command.current_dir(std::env::temp_dir());
    ended_beside(fed(command, input)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_are_set_listed_and_cleared() {
    let bench = Bench::start(&limited("")).await;
    let url = format!("http://{}", bench.gateway.admin);
    let run = async |line: &str| {
        let line = format!("{line}|--admin|{url}");
        tidegate(&line.split('|').collect::<Vec<_>>(), "").await
    };
    let (status, out, err) =
        run("client|api_key:acme|plan|gold|--for|24h|--reason|launch day").await;
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(out.starts_with("api_key:acme: plan gold until 20"), "{out}");
    assert!(
        out.contains("note: overrides of this gateway end with its process"),
        "{out}"
    );
    let (_, out, _) = run("client|api_key:Acme|block|--for|1h").await;
    assert!(
        out.contains("\nnote: api_key:Acme: no API key of this name is listed now\n"),
        "{out}"
    );
    run("client|api_key:Acme|clear").await;
    let (_, out, _) = run("client|10.0.0.0/8|block|--for|never").await;
    assert!(out.starts_with("10.0.0.0/8: block until never\n"), "{out}");
    let (_, out, _) = run("client|user_id:a b|exempt|--for|7d").await;
    assert!(out.starts_with("user_id:a b: exempt until 20"), "{out}");
    let (_, out, _) = run("overrides|list").await;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 5, "{out}");
    assert!(
        lines[1].starts_with("api_key:acme") && lines[1].ends_with("launch day"),
        "{out}"
    );
    let (_, out, _) = run("client|api_key:acme|show").await;
    assert!(
        out.contains("\noverride for api_key:acme: plan gold\n"),
        "{out}"
    );
    // Lost updates.
    let (status, _, err) = run("client|user_id:a b|block|--for|1h|--expect|none").await;
    assert_eq!(status, Some(1));
    assert!(err.contains("412"), "{err}");
    let (status, out, _) = run("client|user_id:a b|clear|--reason|done").await;
    assert_eq!(
        (status, &*out),
        (Some(0), "user_id:a b: exempt is cleared\n")
    );
    let (status, _, err) = run("client|user_id:a b|clear").await;
    assert_eq!(status, Some(1));
    assert!(err.contains("No override is in force"), "{err}");
    // Arguments that do not belong together.
    for arguments in [
        "client|user_id:1|block",
        "client|user_id:1|plan|--for|1h",
        "client|user_id:1|block|gold|--for|1h",
        "client|user_id:1|clear|--for|1h",
        "client|user_id:1|show|--reason|x",
        "client|user_id:1|block|--for|1h|--expect|x",
        "overrides|load",
        "overrides|list|file",
    ] {
        let (status, _, err) = run(arguments).await;
        assert_eq!(status, Some(2), "{arguments:?}: {err}");
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_is_loaded_elsewhere() {
    let one = Bench::start(&limited("")).await;
    let wanted = (0..2_500).map(|index| {
        json!({ "name": format!("user_id:{index}"), "plan": "gold", "for": "never", "reason": "why" })
    });
    let wanted = json!({ "overrides": wanted.collect::<Vec<_>>() });
    let url = format!("http://{}", one.gateway.admin);
    let (status, out, err) = tidegate(
        &["overrides", "load", "-", "--admin", &url],
        &wanted.to_string(),
    )
    .await;
    assert_eq!((status, &*out, &*err), (Some(0), "set: 2500\n", ""));
    let (status, dump, _) = tidegate(&["overrides", "dump", "--admin", &url], "").await;
    assert_eq!((status, dump.lines().count()), (Some(0), 2_502));

    let redis = RedisServer::start().await;
    let other = Bench::start(&limited(&crate::kit::exact(&redis))).await;
    let url = format!("http://{}", other.gateway.admin);
    let dump = dump.replacen("user_id:7\"", "nobody\"", 1);
    let dump = dump.replacen("\"never\"", "\"2020-01-01T00:00:00Z\"", 1);
    let (status, out, err) = tidegate(&["overrides", "load", "-", "--admin", &url], &dump).await;
    assert_eq!((status, &*out), (Some(1), "set: 2498\nended already: 1\n"));
    assert!(err.contains("refused: 1\n  nobody: "), "{err}");
    let answer = ask(&other.client, "/", &[("x-user-id", "2499")]).await;
    assert_eq!(told(&answer), shown(200, 9, 8));
    one.stop().await;
    other.stop().await;
}

/// Numbers are typed as in a configuration, and printed as they are typed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_set_shown_dumped_and_loaded() {
    let bench = Bench::start(&limited("")).await;
    let url = format!("http://{}", bench.gateway.admin);
    let run = async |line: &str| {
        let line = format!("{line}|--admin|{url}");
        tidegate(&line.split('|').collect::<Vec<_>>(), "").await
    };
    let set = "client|user_id:42|set|it|limit: 9, window: 31d|--for|24h";
    let (status, out, err) = run(set).await;
    assert_eq!((status, &*err), (Some(0), ""));
    let does = "set it 'limit: 9, window: 31d'";
    assert!(
        out.starts_with(&format!("user_id:42: {does} until 20")),
        "{out}"
    );
    let (_, out, _) = run("client|user_id:42|show").await;
    assert!(
        out.contains(&format!("\noverride for user_id:42: {does}\n")),
        "{out}"
    );
    let row = out
        .lines()
        .find(|line| line.trim_start().starts_with("it "));
    assert!(row.is_some_and(|row| row.contains('9')), "{out}");
    let (_, list, _) = run("overrides|list").await;
    assert!(list.contains(does), "{list}");
    let (_, dump, _) = run("overrides|dump").await;
    let (status, out, _) = run("client|user_id:42|clear").await;
    assert_eq!(
        (status, out),
        (Some(0), format!("user_id:42: {does} is cleared\n"))
    );
    let load = ["overrides", "load", "-", "--admin", &url];
    let (status, out, err) = tidegate(&load, &dump).await;
    assert_eq!((status, &*out, &*err), (Some(0), "set: 1\n", ""));
    let answer = ask(&bench.client, "/", &[("x-user-id", "42")]).await;
    assert_eq!(told(&answer), shown(200, 9, 8));
    // What cannot be used is said by the gateway.
    let (status, _, err) = run("client|user_id:1|set|it|limit: 9|--for|1h").await;
    assert_eq!(status, Some(1));
    assert!(err.contains("the key `window` is missing here"), "{err}");
    for arguments in [
        "set|--for|1h",
        "set|it|--for|1h",
        "set|it|limit: 9|more|--for|1h",
        "set|it|limit: 9|it|limit: 8|--for|1h",
        "set|it|limit: 9",
        "plan|gold|silver|--for|1h",
        "clear|it|limit: 9",
    ] {
        let (status, _, err) = run(&format!("client|user_id:1|{arguments}")).await;
        assert_eq!(status, Some(2), "{arguments:?}: {err}");
    }
    assert_eq!(names(bench.gateway.admin).await, ["user_id:42"]);
    bench.stop().await;
}

/// `explain` asks a running gateway, if one is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_which_override_holds() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    let (_folder, file) = written(&limited("").replace("UPSTREAM", "http://127.0.0.1:1"));
    let file = file.to_str().unwrap();
    let url = format!("http://{admin}");
    let explain = async |more: &[&str]| {
        let arguments = [
            &["explain", "-c", file, "GET", "/", "-H", "X-User-Id: 42"],
            more,
        ]
        .concat();
        let (status, out, err) = tidegate(&arguments, "").await;
        assert_eq!((status, &*err), (Some(0), ""));
        out
    };
    let from = ["--admin", url.as_str()];
    assert!(!explain(&from).await.contains("override"));
    set(admin, "user_id:42", plan("gold")).await;
    assert!(!explain(&[]).await.contains("override"));
    let out = explain(&from).await;
    assert!(
        out.contains("\noverride: plan gold, for user_id:42, until 20"),
        "{out}"
    );
    assert!(out.contains("launch day\nplan:     gold\n"), "{out}");
    assert!(
        out.contains("quota:  limit 9, window 31d; of the plan gold"),
        "{out}"
    );
    let limits = json!({ "limits": { "it": "limit: 7, window: 31d" }, "for": "1h" });
    set(admin, "user_id:42", limits).await;
    let out = explain(&from).await;
    assert!(
        out.contains("\noverride: set it 'limit: 7, window: 31d', for user_id:42, until 20"),
        "{out}"
    );
    assert!(
        out.contains("quota:  limit 7, window 31d; of the override") && !out.contains("plan:"),
        "{out}"
    );
    let limits = json!({ "limits": { "it": "unlimited" }, "for": "1h" });
    set(admin, "user_id:42", limits).await;
    let out = explain(&from).await;
    assert!(
        out.contains("limit:    it, unlimited by the override\n"),
        "{out}"
    );
    set(admin, "user_id:42", exempt()).await;
    let out = explain(&from).await;
    assert!(
        out.contains("not charged, for the client is exempt: override for user_id:42\n"),
        "{out}"
    );
    set(admin, "127.0.0.0%2F8", block()).await;
    let out = explain(&from).await;
    assert!(
        out.contains("answer:   403, for an override blocks 127.0.0.0/8"),
        "{out}"
    );
    clear(admin, "user_id:42").await;
    clear(admin, "127.0.0.0%2F8").await;
    let limits = json!({ "limits": { "it": "limit: 6, window: 31d" }, "for": "never" });
    set(admin, "limit:it", limits).await;
    let out = explain(&from).await;
    assert!(
        out.contains("quota:  limit 6, window 31d")
            && out.contains("\n  set:    by the override limit:it, until never\n"),
        "{out}"
    );
    set(admin, "user_id:42", exempt()).await;
    // Under `deny` no override holds.
    let yaml = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, format!("deny: [\"user_id:42\"]\n{yaml}")).unwrap();
    let out = explain(&from).await;
    assert!(!out.contains("override"), "{out}");
    assert!(out.contains("answer:   403"), "{out}");
    bench.stop().await;
}

/// `check --running` tells of overrides that a reload would leave without effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_tells_of_a_plan_that_overrides_name_and_the_file_lacks() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    set(admin, "user_id:42", plan("gold")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let yaml = limited("").replace("UPSTREAM", "http://127.0.0.1:1");
    for (has_plan, warns) in [(true, false), (false, true)] {
        let lines = yaml
            .lines()
            .filter(|line| has_plan || !line.starts_with("plans:"));
        let yaml: String = lines.map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, format!("admin: {admin}\n{yaml}")).unwrap();
        let arguments = ["check", "--running", "-c", file.to_str().unwrap()];
        let (status, out, err) = tidegate(&arguments, "").await;
        assert_eq!((status, &*err), (Some(0), ""));
        let warning = "1 override with the plan `gold`, which is not defined here";
        assert_eq!(out.contains(warning), warns, "{out}");
    }
    bench.stop().await;
}

/// The same of numbers for a limit that the file lacks, or that do not fit it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_tells_of_numbers_that_the_file_cannot_use() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    for (name, limit) in [("user_id:42", 9), ("user_id:43", 10)] {
        let limits = json!({ "it": format!("limit: {limit}, window: 31d") });
        let wanted = json!({ "limits": limits, "for": "1h" });
        set(admin, name, wanted).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let yaml = limited("").replace("UPSTREAM", "http://127.0.0.1:1");
    let warning =
        "2 overrides with numbers for the limit `it`, which have no effect after a reload: ";
    for (yaml, why) in [
        (yaml.clone(), None),
        (yaml.replace("31d", "1h"), Some("but not the window")),
        (
            yaml.replace("it: {", "other: {").replace("[it]", "[other]"),
            Some("there is no limit `it`"),
        ),
    ] {
        std::fs::write(&file, format!("admin: {admin}\n{yaml}")).unwrap();
        let arguments = ["check", "--running", "-c", file.to_str().unwrap()];
        let (status, out, err) = tidegate(&arguments, "").await;
        assert_eq!((status, &*err), (Some(0), ""));
        assert_eq!(out.contains(warning), why.is_some(), "{out}");
        assert!(out.contains(why.unwrap_or_default()), "{out}");
    }
    bench.stop().await;
}

/// An admin port that has only these pages.
fn older(pages: &'static [(&'static str, &'static str)]) -> Upstream {
    Upstream::start(move |request| async move {
        let found = pages.iter().find(|(path, _)| *path == request.uri().path());
        let text = found.map_or("{}", |(_, text)| *text);
        let mut answer = Response::new(body::full(text));
        if found.is_none() {
            *answer.status_mut() = StatusCode::NOT_FOUND;
        }
        answer
    })
}

/// A gateway of an earlier release has no overrides, which is no reason to say nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_and_explain_ask_a_gateway_that_knows_no_overrides() {
    let bench = Bench::start(&limited("")).await;
    let (_, running) = page(bench.gateway.admin, "/config").await;
    let pages = vec![("/config", &*running.leak())];
    let admin = older(pages.leak());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let yaml = limited("").replace("UPSTREAM", "http://127.0.0.1:1");
    let other = "overrides_file: other.jsonl";
    std::fs::write(&file, format!("admin: {}\n{other}\n{yaml}", admin.addr())).unwrap();
    let file = file.to_str().unwrap();
    let (status, out, err) = tidegate(&["check", "--running", "-c", file], "").await;
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(out.contains("warning: a reload cannot change"), "{out}");
    let url = admin.url();
    let explain = ["explain", "-c", file, "GET", "/", "--admin", &url];
    let (status, _, err) = tidegate(&explain, "").await;
    assert_eq!((status, &*err), (Some(0), ""));
    // Whoever asks for overrides alone is told.
    let (status, _, err) = tidegate(&["overrides", "list", "--admin", &url], "").await;
    assert_eq!(status, Some(1));
    assert!(err.contains("404"), "{err}");
    bench.stop().await;
}

/// One answer says all, so that none is lost after the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_is_set_with_one_request() {
    let text = r#"{"name":"user_id:1","action":"block","until":"never","set":"never","version":1}"#;
    let pages = vec![("/overrides/user_id:1", text)];
    let admin = older(pages.leak());
    let url = admin.url();
    let set = [
        "client",
        "user_id:1",
        "block",
        "--for",
        "never",
        "--admin",
        &url,
    ];
    let (status, out, err) = tidegate(&set, "").await;
    assert_eq!((status, &*err), (Some(0), ""));
    assert_eq!(out, "user_id:1: block until never\n");
    assert_eq!(admin.count(), 1);
}

/// A terminal obeys what a file or another program has put into a text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_shown_without_control_characters() {
    let bench = Bench::start(&limited("")).await;
    let url = format!("http://{}", bench.gateway.admin);
    let one = json!({ "name": "\u{1b}[2J\nerror: all is well", "action": "block", "for": "1h" });
    let load = json!({ "overrides": [one] }).to_string();
    let (status, _, err) = tidegate(&["overrides", "load", "-", "--admin", &url], &load).await;
    assert_eq!(status, Some(1));
    let shown = "\n  \u{fffd}[2J\u{fffd}error: all is well: ";
    assert!(err.contains(shown) && !err.contains('\u{1b}'), "{err:?}");
    let refusal = Upstream::start(|_| async {
        let mut answer = Response::new(body::full("{\"detail\":\"\\u001b[2J\\nall\"}"));
        *answer.status_mut() = StatusCode::BAD_REQUEST;
        answer
    });
    let (_, _, err) = tidegate(&["overrides", "list", "--admin", &refusal.url()], "").await;
    assert!(err.contains(": \u{fffd}[2J\u{fffd}all"), "{err:?}");
    // A name of a file stands in many texts.
    let (_, _, err) = tidegate(&["overrides", "load", "\u{1b}[2J", "--admin", &url], "").await;
    assert!(err.contains("\u{fffd}[2J: "), "{err:?}");
    bench.stop().await;
}
