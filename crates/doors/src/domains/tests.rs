use super::*;

fn target(rule: usize) -> Target {
    Target {
        rules: vec![rule],
        ..Target::default()
    }
}

/// Makes an entry from lines such as `user=*`.
fn entry(text: &str, rule: usize) -> Entry {
    let keys = text.split_whitespace().map(|part| {
        let (key, value) = part.split_once('=').unwrap();
        (key.into(), ValuePattern::new(value))
    });
    Entry::new(keys.collect(), target(rule))
}

fn list(entries: &[&str]) -> Domain {
    let mut list = DomainList::default();
    for (rule, text) in entries.iter().enumerate() {
        list.add(entry(text, rule)).unwrap();
    }
    Domain::List(list)
}

/// Returns the rule of a descriptor that is written as `key=value key=value`.
fn rule(domain: &Domain, descriptor: &str) -> Option<usize> {
    let entries: Vec<_> = descriptor
        .split_whitespace()
        .map(|part| part.split_once('=').unwrap())
        .collect();
    domain.target(&entries).map(|target| target.rules[0])
}

#[test]
fn a_descriptor_needs_exactly_the_keys_of_an_entry_in_any_order() {
    let domain = list(&["user=* path=/login", "user=*"]);
    assert_eq!(rule(&domain, "user=a path=/login"), Some(0));
    assert_eq!(rule(&domain, "path=/login user=a"), Some(0));
    assert_eq!(rule(&domain, "user=a"), Some(1));
    assert_eq!(rule(&domain, "user="), Some(1));
    for other in [
        "path=/login",
        "user=a path=/",
        "user=a path=/login x=y",
        "user=a user=a",
        "",
    ] {
        assert_eq!(rule(&domain, other), None, "{other}");
    }
}

#[test]
fn the_first_entry_that_matches_counts() {
    let domain = list(&["a=1 b=*", "a=foo* b=2", "a=* b=2", "a=* b=*"]);
    assert_eq!(rule(&domain, "a=1 b=2"), Some(0));
    assert_eq!(rule(&domain, "a=foo-bar b=2"), Some(1));
    assert_eq!(rule(&domain, "a=foo b=2"), Some(1));
    assert_eq!(rule(&domain, "a=f b=2"), Some(2));
    assert_eq!(rule(&domain, "a=f b=3"), Some(3));
}

#[test]
fn keys_and_values_are_not_confused_with_their_separators() {
    let domain = list(&["a=1:b c=2", "a=1 c=b2"]);
    assert_eq!(rule(&domain, "a=1:b c=2"), Some(0));
    assert_eq!(rule(&domain, "a=1 c=b2"), Some(1));
    assert_eq!(rule(&domain, "a=1: c=b2"), None);
}

#[test]
fn an_entry_that_an_earlier_entry_hides_is_refused() {
    for (earlier, later) in [
        ("a=1", "a=1"),
        ("a=*", "a=1"),
        ("a=*", "a=foo*"),
        ("a=foo*", "a=foo-bar*"),
        ("a=foo*", "a=foo"),
        ("a=* b=2", "b=2 a=1"),
        ("a=f* b=*", "b=foo* a=foo"),
    ] {
        let mut list = DomainList::default();
        list.add(entry("x=1", 0)).unwrap();
        list.add(entry(earlier, 1)).unwrap();
        assert_eq!(list.add(entry(later, 2)), Err(1), "{earlier} {later}");
    }
    for (earlier, later) in [
        ("a=1", "a=*"),
        ("a=foo*", "a=f*"),
        ("a=1 b=*", "a=* b=1"),
        ("a=*", "a=* b=*"),
        ("a=*", "b=*"),
    ] {
        let mut list = DomainList::default();
        list.add(entry(earlier, 0)).unwrap();
        assert_eq!(list.add(entry(later, 1)), Ok(()), "{earlier} {later}");
    }
}

#[test]
fn a_random_list_decides_like_a_scan() {
    let mut seed = 7_u64;
    let mut below = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % bound
    };
    let values = ["*", "1", "2", "1*", "12", "12*", "*"];
    for _ in 0..300 {
        let (mut list, mut scanned) = (DomainList::default(), Vec::new());
        for at in 0..20 {
            let value = |at: u64| values[at as usize];
            let (a, b) = (value(below(7)), value(below(7)));
            let text = match below(3) {
                0 => format!("a={a}"),
                _ => format!("a={a} b={b}"),
            };
            let patterns: Vec<_> = text
                .split(' ')
                .map(|part| ValuePattern::new(&part[2..]))
                .collect();
            let hides = |(_, earlier): &(usize, Vec<ValuePattern>)| {
                earlier.len() == patterns.len()
                    && earlier
                        .iter()
                        .zip(&patterns)
                        .all(|(one, other)| one.covers(other))
            };
            let is_hidden = scanned.iter().any(hides);
            assert_eq!(list.add(entry(&text, at)).is_err(), is_hidden, "{text}");
            if !is_hidden {
                scanned.push((at, patterns));
            }
        }
        let domain = Domain::List(list);
        for a in ["1", "2", "12", "123", "3"] {
            let matches = |patterns: &[ValuePattern], values: &[&str]| {
                patterns.len() == values.len()
                    && patterns
                        .iter()
                        .zip(values)
                        .all(|(pattern, value)| pattern.matches(value))
            };
            let scan = |values: &[&str]| {
                let first = scanned
                    .iter()
                    .find(|(_, patterns)| matches(patterns, values));
                first.map(|(at, _)| *at)
            };
            assert_eq!(rule(&domain, &format!("a={a}")), scan(&[a]));
            for b in ["1", "12", "3"] {
                assert_eq!(rule(&domain, &format!("b={b} a={a}")), scan(&[a, b]));
            }
        }
    }
}

fn leaf(rule: usize) -> Node {
    Node::new(Some(target(rule)))
}

fn tree(entries: &[(&str, Option<&str>)]) -> Domain {
    let mut root = Node::default();
    for (rule, (key, value)) in entries.iter().enumerate() {
        assert!(root.add(key, *value, leaf(rule)));
    }
    Domain::Tree(root)
}

#[test]
fn a_value_takes_precedence_over_a_pattern_and_a_pattern_over_a_key_alone() {
    let domain = tree(&[
        ("path", None),
        ("path", Some("/api/*")),
        ("path", Some("/api/v1")),
        ("path", Some("/api/v1*")),
    ]);
    assert_eq!(rule(&domain, "path=/api/v1"), Some(2));
    assert_eq!(rule(&domain, "path=/api/v2"), Some(1));
    // The first pattern of the file counts, not the longest.
    assert_eq!(rule(&domain, "path=/api/v12"), Some(1));
    assert_eq!(rule(&domain, "path=/other"), Some(0));
    assert_eq!(rule(&domain, "path="), Some(0));
    assert_eq!(rule(&domain, "other=/api/v1"), None);
}

#[test]
fn asterisks_may_stand_anywhere_in_a_value() {
    let domain = tree(&[
        ("mid", Some("bar*b")),
        ("multi", Some("foo*bar*baz")),
        ("any", Some("*")),
        ("any", None),
        ("ends", Some("*aa*aa")),
    ]);
    for (descriptor, expected) in [
        ("mid=barb", Some(0)),
        ("mid=bar-x-b", Some(0)),
        ("mid=bar", None),
        ("mid=barbc", None),
        ("multi=foo-barbaz", Some(1)),
        ("multi=foo1bar2baz", Some(1)),
        ("multi=foobaz", None),
        ("multi=foo-barba", None),
        // The start and the end of a value must not share characters.
        ("ends=aaa", None),
        ("ends=aaaa", Some(4)),
        ("any=", Some(2)),
        ("any=x", Some(2)),
    ] {
        assert_eq!(rule(&domain, descriptor), expected, "{descriptor}");
    }
}

#[test]
fn a_limit_counts_only_at_the_end_of_a_descriptor_and_in_the_order_of_the_tree() {
    let mut user = leaf(0);
    user.add("path", Some("/login"), leaf(1));
    user.add("path", None, Node::default());
    let mut root = Node::default();
    root.add("user", None, user);
    // This node has no limit and no children: it exempts its descriptor.
    root.add("user", Some("root"), Node::default());
    let domain = Domain::Tree(root);
    assert_eq!(rule(&domain, "user=a"), Some(0));
    assert_eq!(rule(&domain, "user=a path=/login"), Some(1));
    assert_eq!(rule(&domain, "path=/login user=a"), None);
    assert_eq!(rule(&domain, "user=a path=/"), None);
    assert_eq!(rule(&domain, "user=a path=/login more=1"), None);
    assert_eq!(rule(&domain, "user=root"), None);
    // There is no way back from `root` to the key alone.
    assert_eq!(rule(&domain, "user=root path=/login"), None);
    assert_eq!(rule(&domain, ""), None);
}

#[test]
fn a_second_node_of_one_key_and_value_is_noticed() {
    let mut root = Node::default();
    for value in [None, Some("a"), Some("a*")] {
        assert!(root.add("k", value, Node::default()));
        assert!(!root.add("k", value, Node::default()));
    }
}

#[test]
fn thousands_of_values_are_looked_up_without_a_scan() {
    let mut list = DomainList::default();
    let mut root = Node::default();
    for number in 0..20_000 {
        list.add(entry(&format!("a=* b={number}"), number)).unwrap();
        root.add("b", Some(&number.to_string()), leaf(number));
    }
    let domains = [Domain::List(list), Domain::Tree(root)];
    let started = std::time::Instant::now();
    for number in (0..20_000).rev() {
        assert_eq!(rule(&domains[0], &format!("b={number} a=x")), Some(number));
        assert_eq!(rule(&domains[1], &format!("b={number}")), Some(number));
    }
    // A scan would compare 400 million entries.
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn domains_have_names() {
    let mut domains = Domains::default();
    assert!(domains.add("edge", tree(&[])));
    assert!(!domains.add("edge", tree(&[])));
    assert!(domains.of("edge").is_some() && domains.of("other").is_none());
    assert_eq!(domains.names().collect::<Vec<_>>(), ["edge"]);
}
