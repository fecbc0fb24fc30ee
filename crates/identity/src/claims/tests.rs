use serde_json::json;

use super::*;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

/// Returns the texts of the claim with this name, in a token with these claims.
fn texts(name: &str, claims: Value) -> Option<Vec<String>> {
    let claims = Claims::of(&[name.into()], &map(claims));
    let value = claims.value(name)?;
    Some(value.members().map(str::to_owned).collect())
}

fn one(text: &str) -> Option<Vec<String>> {
    Some(vec![text.to_owned()])
}

#[test]
fn a_dot_leads_into_an_object() {
    let org = || json!({ "org": { "id": "a", "of": { "id": "b" } }, "tenant": "c" });
    assert_eq!(texts("tenant", org()), one("c"));
    assert_eq!(texts("org.id", org()), one("a"));
    assert_eq!(texts("org.of.id", org()), one("b"));
    for none in [
        "org",
        "org.of",
        "org.name",
        "tenant.id",
        "org.",
        ".id",
        "id",
    ] {
        assert_eq!(texts(none, org()), None, "{none}");
    }
}

#[test]
fn a_claim_with_the_whole_name_comes_first() {
    let name = "https://id.example/tenant";
    assert_eq!(texts(name, json!({ (name): "a" })), one("a"));
    let both = json!({ "org.id": "a", "org": { "id": "b" } });
    assert_eq!(texts("org.id", both), one("a"));
    let null = json!({ "org.id": null, "org": { "id": "b" } });
    assert_eq!(texts("org.id", null), None);
    assert_eq!(texts("a.b.c", json!({ "a": { "b.c": "d" } })), one("d"));
}

#[test]
fn a_value_is_a_text_a_whole_number_or_true_or_false() {
    let tenant = |value| texts("tenant", json!({ "tenant": value }));
    assert_eq!(tenant(json!("Acme")), one("Acme"));
    assert_eq!(tenant(json!(42)), one("42"));
    assert_eq!(tenant(json!("42")), one("42"));
    assert_eq!(tenant(json!(true)), one("true"));
    for none in [
        json!(null),
        json!(""),
        json!("a\nb"),
        json!(1.5),
        json!({}),
        json!({ "id": "a" }),
    ] {
        assert_eq!(tenant(none.clone()), None, "{none}");
    }
}

#[test]
fn an_array_is_the_set_of_its_members() {
    let groups = |value| texts("groups", json!({ "groups": value }));
    let both = Some(vec!["a".to_owned(), "b".to_owned()]);
    for array in [
        json!(["a", "b"]),
        json!(["b", "a"]),
        json!(["a", "b", "a", "a"]),
    ] {
        assert_eq!(groups(array.clone()), both, "{array}");
    }
    assert_eq!(groups(json!(["a"])), one("a"));
    assert_eq!(groups(json!([1, "1"])), one("1"));
    assert_ne!(groups(json!(["a, b"])), both);
    for none in [
        json!([]),
        json!(["a", null]),
        json!(["a", ""]),
        json!([["a"]]),
        json!(["a", { "id": "b" }]),
    ] {
        assert_eq!(groups(none.clone()), None, "{none}");
    }
    let most: Vec<_> = (0..MAX_MEMBERS).collect();
    assert_eq!(groups(json!(most)).unwrap().len(), MAX_MEMBERS);
    let more: Vec<_> = (0..=MAX_MEMBERS).collect();
    assert_eq!(groups(json!(more)), None);
}

#[test]
fn of_two_tokens_the_first_that_has_a_claim_counts() {
    let names: [Arc<str>; 2] = ["tenant".into(), "team".into()];
    let of = |claims| Claims::of(&names, &map(claims));
    let mut claims = Claims::default();
    claims.add(of(json!({ "tenant": "a" })));
    claims.add(of(json!({ "tenant": "b", "team": "c" })));
    let shown = |name| claims.value(name).map(ToString::to_string);
    assert_eq!(shown("tenant").as_deref(), Some("a"));
    assert_eq!(shown("team").as_deref(), Some("c"));
    assert_eq!(shown("other"), None);
}
