//! The listener for decisions: its access, its policy, and the limits of descriptors.

use tidegate_doors::Target;
use tidegate_testkit::Authority;
use tidegate_tower::Per;

use super::*;

/// A configuration with `decisions`, and with these keys under `rate_limit_service`.
fn decisions(service: &str, more: &str) -> String {
    with(&format!(
        "decisions:\n  listen: 127.0.0.1:8090\n  rate_limit_service: {{ {service} }}\n{more}"
    ))
}

/// The target of a descriptor that is written as `key=value key=value`.
fn target<'s>(settings: &'s Settings, domain: &str, descriptor: &str) -> Option<&'s Target> {
    let entries = descriptor.split(' ').map(|entry| entry.split_once('='));
    let entries: Option<Vec<_>> = entries.collect();
    let decisions = settings.decisions.as_ref()?;
    decisions.domains.of(domain)?.target(&entries?)
}

/// The limits of a descriptor: name, quota, and parts that it is counted per.
fn limits(settings: &Settings, domain: &str, descriptor: &str) -> Vec<String> {
    let target = target(settings, domain, descriptor);
    let indices = target.iter().flat_map(|target| &target.rules);
    let rules = indices.filter_map(|index| settings.decisions.as_ref()?.policy.rules.get(*index));
    let text = |rule: &tidegate_tower::Rule| {
        let per: Vec<_> = rule.per.iter().map(Per::to_string).collect();
        let quota = rule.limit.quota();
        let (name, algorithm) = (rule.limit.name(), quota.algorithm());
        format!("{name} {algorithm} {} {per:?}", quota.written())
    };
    rules.map(text).collect()
}

fn ratelimit() -> (Settings, Vec<Warning>) {
    let text = decisions("files: [tests/ratelimit/*.yaml]", "");
    parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn decisions_are_off_by_default() {
    assert!(settings(&with("")).decisions.is_none());
}

#[test]
fn a_token_or_required_certificates_guard_an_address() {
    let guarded = |text: &str| {
        let all = parse(&with(&format!("decisions: {{ {text} }}")));
        all.map(|(settings, _)| settings.decisions.unwrap())
    };
    let error = guarded("listen: \"[::]:8090\"").unwrap_err().to_string();
    assert!(error.contains("callers need no token"), "{error}");
    for local in [
        "127.0.0.1:8090",
        "127.9.9.9:0",
        "\"[::1]:8090\"",
        "\"[::ffff:127.0.0.1]:8090\"",
    ] {
        let decisions = guarded(&format!("listen: {local}, token: \"\"")).unwrap();
        assert_eq!(decisions.token, None, "{local}");
    }
    let decisions = guarded("listen: 0.0.0.0:8090, token: a-text-that-is-long-enough").unwrap();
    let hash = tidegate_identity::api_keys::hash(b"a-text-that-is-long-enough");
    assert_eq!(decisions.token, Some(hash));
    assert_eq!(decisions.listener.address.port(), 8090);
}

#[test]
fn certificates_guard_an_address_only_if_they_are_required() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.issue(&["localhost"]).write(folder.path(), "own");
    fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let path = folder.path().join("gateway.yaml");
    for (client, is_guarded) in [
        ("client_ca: ca.pem", true),
        ("client_ca: ca.pem, client_cert: optional", false),
        ("certificates: []", false),
    ] {
        let own = if client.starts_with("client") {
            "cert: own.pem, key: own.key, "
        } else {
            ""
        };
        let text = format!(
            "decisions: {{ listen: {{ address: \"0.0.0.0:8090\", tls: {{ {own}{client} }} }} }}\n"
        );
        fs::write(&path, with(&text)).unwrap();
        let loaded = config::load(&path, env);
        assert_eq!(loaded.is_ok(), is_guarded, "{client}");
        if let Ok((settings, _)) = loaded {
            let listener = settings.decisions.unwrap().listener;
            assert!(listener.tls.unwrap().files().clients.is_some());
        }
    }
}

#[test]
fn a_short_token_is_doubtful_and_port_443_without_tls_too() {
    warned(
        &with("decisions: { listen: 127.0.0.1:443, token: short }"),
        "this token is short enough to be guessed",
    );
    warned(
        &with("decisions: { listen: 127.0.0.1:443 }"),
        "port 443 without `tls`",
    );
}

#[test]
fn the_policy_has_all_limits_and_the_lists_but_no_required_credentials() {
    let limits: String = (0..40)
        .map(|at| format!("  l{at}: {{ fixed_window: {{ limit: 9, window: 1s }} }}\n"))
        .collect();
    let text = decisions(
        "files: [tests/ratelimit/database.yaml]",
        &format!(
            "headers: none\nrequire: api_key\ndeny: [192.0.2.0/24]\n\
             clients: [{{ api_key: {{ keys: [{{ name: a, hash: \"sha256:{HASH}\" }}] }} }}]\n\
             always: [l3]\nlimits:\n{limits}"
        ),
    );
    let settings = settings(&text);
    let decisions = settings.decisions.as_ref().unwrap();
    let names = decisions.policy.rules.iter().map(|rule| rule.limit.name());
    let all = settings.limits.iter().map(|limit| limit.name());
    assert!(names.eq(all));
    assert_eq!(decisions.policy.rules.len(), 43);
    assert_eq!(decisions.policy.always, 0);
    assert!(decisions.policy.answers.headers.x_ratelimit.is_none());
    let access = decisions.policy.access.as_ref().unwrap();
    assert!(
        access
            .denies_address("192.0.2.1".parse().unwrap())
            .is_some()
    );
    // `require` would need the names of callers.
    assert!(!access.needs_names());
}

#[test]
fn every_limit_is_used_where_programs_can_name_it() {
    let limit =
        "limits: { a: { fixed_window: { limit: 9, window: 1s }, per: [\"descriptor:user\"] } }\n";
    warned(&with(limit), "no route uses the limit `a`");
    not_warned(&decisions("", limit), "no route uses");
}

#[test]
fn entries_name_limits_and_the_first_entry_counts() {
    let settings = settings(&decisions(
        "domains: { edge: [\
           { match: { generic_key: login, remote_address: \"*\" }, limits: [address, all] },\
           { match: { user: \"bot-*\" }, limits: [] },\
           { match: { user: \"*\" }, limits: [user] } ] }",
        "limits:\n  user: { fixed_window: { limit: 3, window: 1h }, per: [\"descriptor:user\"] }\n  \
         address: { fixed_window: { limit: 1, window: 1h }, per: [ip] }\n  \
         all: { fixed_window: { limit: 2, window: 1h }, per: [] }\n",
    ));
    let of = |descriptor| limits(&settings, "edge", descriptor);
    assert_eq!(
        of("remote_address=192.0.2.1 generic_key=login"),
        [
            "address fixed_window limit 1, window 1h [\"ip\"]",
            "all fixed_window limit 2, window 1h []"
        ]
    );
    assert_eq!(
        of("user=ann"),
        ["user fixed_window limit 3, window 1h [\"descriptor:user\"]"]
    );
    assert_eq!(
        target(&settings, "edge", "user=bot-1"),
        Some(&Target::default())
    );
    assert_eq!(target(&settings, "edge", "generic_key=login"), None);
    assert_eq!(target(&settings, "other", "user=ann"), None);
}

#[test]
fn files_of_ratelimit_keep_their_numbers_and_keys() {
    let (settings, _) = ratelimit();
    for (domain, descriptor, expected) in [
        (
            "database",
            "table=accounts",
            "database.table_accounts fixed_window limit 400, window 1s []",
        ),
        (
            "database",
            "table=default",
            "database.table_default token_bucket capacity 300, refill 300/s []",
        ),
        (
            "database",
            "address=192.0.2.1",
            "database.address sliding_window_counter limit 10, window 1s [\"descriptor:address\"]",
        ),
        (
            "messages",
            "kind=advert number=1",
            "messages.kind_advert.number fixed_window limit 5, window 1d [\"descriptor:number\"]",
        ),
        (
            "messages",
            "number=1",
            "messages.number fixed_window limit 100, window 1d [\"descriptor:number\"]",
        ),
        (
            "messages",
            "number=1 kind=alarm",
            "messages.number.kind_alarm sliding_window_log limit 7, window 7d [\"descriptor:number\"]",
        ),
        (
            "messages",
            "region=north number=1",
            "messages.region.number fixed_window limit 1000, window 30d [\"descriptor:region\", \"descriptor:number\"]",
        ),
        (
            "inside",
            "service=mail user=bob",
            "inside.service.user_bob fixed_window limit 20, window 1s [\"descriptor:service\"]",
        ),
        (
            "patterns",
            "file=files/own",
            "fixed_window limit 20, window 1h []",
        ),
        (
            "patterns",
            "file=files/any",
            "fixed_window limit 10, window 1h []",
        ),
        (
            "patterns",
            "page=pages/1",
            "fixed_window limit 11, window 1h [\"descriptor:page\"]",
        ),
        (
            "patterns",
            "path=/api/1/action",
            "fixed_window limit 12, window 1m [\"descriptor:path\"]",
        ),
        (
            "patterns",
            "path=/api/1/part/2/action",
            "fixed_window limit 12, window 1m [\"descriptor:path\"]",
        ),
        (
            "patterns",
            "route=api/1 method=GET",
            "fixed_window limit 14, window 1m [\"descriptor:method\"]",
        ),
        (
            "patterns",
            "file=top/1 file=nested/2",
            "fixed_window limit 15, window 1m []",
        ),
    ] {
        // The names of values with a `/` end with a hash.
        let limits = limits(&settings, domain, descriptor);
        let [limit] = &*limits else {
            panic!("{descriptor}: {limits:?}");
        };
        assert!(limit.ends_with(expected), "{descriptor}: {limit}");
    }
    for (domain, descriptor) in [
        ("database", "table=other"),
        ("database", "table=accounts table=accounts"),
        ("messages", "kind=advert"),
        ("messages", "number=112"),
        ("messages", "number=112 kind=alarm"),
        ("messages", "region=north"),
        ("patterns", "file=other"),
        ("patterns", "path=/api/1/other"),
        ("other", "number=1"),
    ] {
        assert_eq!(
            target(&settings, domain, descriptor),
            None,
            "{domain} {descriptor}"
        );
    }
}

#[test]
fn files_of_ratelimit_may_refuse_admit_observe_and_replace() {
    let (settings, _) = ratelimit();
    let of = |domain, descriptor| target(&settings, domain, descriptor).unwrap();
    let refused = of("database", "address=192.0.2.5");
    assert!(refused.refuses && refused.rules.is_empty());
    assert_eq!(of("database", "address=192.0.2.6"), &Target::default());
    assert_eq!(of("inside", "directory=any"), &Target::default());
    let rules = &settings.decisions.as_ref().unwrap().policy.rules;
    let is_observed = |descriptor| rules[of("inside", descriptor).rules[0]].limit.is_observed();
    assert!(is_observed("service=mail user=ann"));
    assert!(!is_observed("service=mail user=bob"));
    let usual = of("inside", "access=read user=ann");
    assert_eq!(usual.name.as_deref(), Some("usual"));
    let other = of("inside", "page=/reports user=ann");
    assert_eq!(other.replaces, ["usual", "other"].map(Box::<str>::from));
}

#[test]
fn keys_of_metrics_have_no_effect_and_a_warning() {
    let (_, warnings) = ratelimit();
    let all: String = warnings.iter().map(|it| format!("{it}\n")).collect();
    assert!(
        all.contains("tests/ratelimit/patterns.yaml:17:22: `detailed_metric` has no effect"),
        "{all}"
    );
    assert!(all.contains("`value_to_metric` has no effect"), "{all}");
    assert_eq!(all.matches("has no effect").count(), 2, "{all}");
}

#[test]
fn limits_of_files_are_limits_like_others() {
    let (settings, _) = ratelimit();
    let names: BTreeSet<_> = settings.limits.iter().map(|limit| limit.name()).collect();
    assert_eq!(names.len(), settings.limits.len());
    let fits = |name: &&str| {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        name.len() <= 128 && name.chars().all(is_good)
    };
    assert!(names.iter().all(fits), "{names:?}");
    assert!(
        settings
            .numbers
            .read("messages.number", "limit: 5, window: 1d")
            .is_ok()
    );
    let decisions = settings.decisions.as_ref().unwrap();
    let paths: Vec<_> = decisions
        .files
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 4);
    assert_eq!(paths[0], "tests/ratelimit/database.yaml");
}

#[test]
fn a_changed_file_of_ratelimit_is_another_version_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.yaml");
    fs::write(&path, decisions("files: [\"rates/[a-z]*.yaml\"]", "")).unwrap();
    fs::create_dir(folder.path().join("rates")).unwrap();
    let version = |text: &str| {
        fs::write(folder.path().join("rates/edge.yaml"), text).unwrap();
        config::load(&path, env).unwrap().0.version
    };
    let one = version("domain: edge\n");
    assert_ne!(one, version("domain: cloud\n"));
    assert_eq!(one, version("domain: edge\n"));
}

#[test]
fn limits_of_long_and_equal_paths_have_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.yaml");
    let limit = "rate_limit: { unit: day, requests_per_unit: 5 }";
    let long = "x".repeat(200);
    let text = format!(
        "domain: edge\ndescriptors:\n  - {{ key: a, value: \"${{b}}\", {limit} }}\n  - {{ key: a, value: \"{{b}}$\", {limit} }}\n  \
         - {{ key: a, value: {long}1, {limit} }}\n  - {{ key: a, value: {long}2, {limit} }}\n  \
         - {{ key: a_b, {limit} }}\n  - {{ key: a, value: b, {limit} }}\n  - {{ key: own, {limit} }}\n"
    );
    fs::write(folder.path().join("edge.yml"), text).unwrap();
    let own = "limits: { edge.own: { fixed_window: { limit: 1, window: 1s } } }\n";
    fs::write(&path, decisions("files: [edge.yml]", own)).unwrap();
    let (settings, _) = config::load(&path, env).unwrap_or_else(|error| panic!("{error}"));
    let names: BTreeSet<_> = settings.limits.iter().map(|limit| limit.name()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert!(names.iter().all(|name| name.len() <= 128), "{names:?}");
    assert!(names.contains("edge.a_b"));
    assert_eq!(limits(&settings, "edge", "a=${b}").len(), 1);
}

#[test]
fn ten_thousand_descriptors_are_read_in_a_moment() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("domain: edge\ndescriptors:\n");
    for number in 0..10_000 {
        text += &format!(
            "  - {{ key: user, value: u{number}, rate_limit: {{ unit: day, requests_per_unit: 5 }} }}\n"
        );
    }
    fs::write(folder.path().join("edge.yml"), text).unwrap();
    let mut text = String::from("files: [edge.yml], domains: { all: [");
    for number in 0..10_000 {
        text += &format!("{{ match: {{ user: u{number}, path: \"*\" }}, limits: [] }},");
    }
    let path = folder.path().join("gateway.yaml");
    fs::write(&path, decisions(&(text + "] }"), "")).unwrap();
    let started = Instant::now();
    let (settings, _) = config::load(&path, env).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(limits(&settings, "edge", "user=u9999").len(), 1);
    assert!(target(&settings, "all", "path=/ user=u9999").is_some());
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// The commented block of the shipped reference works if its marks are removed.
#[test]
fn the_commented_decisions_of_the_reference_are_right_too() {
    let reference = fs::read_to_string("../../gateway.yaml").unwrap();
    let block: String = reference
        .lines()
        .skip_while(|line| *line != "# decisions:")
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or_default()))
        .collect();
    let block = block.replace("[ratelimit/*.yaml]", "[\"tests/ratelimit/*.yaml\"]");
    let text = reference.replace("\nadmin:", &format!("\n{block}admin:"));
    let limit = "otp-per-ip";
    let (settings, _) = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let limits = limits(
        &settings,
        "edge",
        "generic_key=login remote_address=192.0.2.1",
    );
    assert!(limits[0].starts_with(limit), "{limits:?}");
}
