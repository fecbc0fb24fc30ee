use tidegate_identity::ClientPlans;
use tidegate_tower::NumberReader;

use super::InvalidWish::{Action, Time, TimeForm};
use super::OverrideAction::{Block, Exempt};
use super::*;
use crate::name::read_name;

/// Returns a configuration with the plans `gold` and `free`, and with a limit `it` that accepts a single number.
fn defined() -> Overrides {
    let read = |limit: &str, text: &str| match (limit, text.parse::<u64>()) {
        ("it", Ok(_)) => Ok(None),
        _ => Err(format!("{limit}: {text}")),
    };
    Overrides {
        plans: ClientPlans::new(["gold", "free"]),
        numbers: NumberReader::new(read),
        ..Overrides::default()
    }
}

fn numbers(text: &str) -> OverrideAction {
    set(&BTreeMap::from([("it".to_owned(), text.to_owned())]))
}

fn read(json: &str) -> Result<Wish, InvalidWish> {
    let wanted: Wanted = serde_json::from_str(json).unwrap();
    let subject = read_name("user_id:42", 64).unwrap();
    wanted.wish(subject, Expected::Any, "ops", &defined())
}

fn day() -> Ends {
    Ends::After(Duration::from_secs(24 * 60 * 60))
}

#[test]
fn what_is_wished_for_is_read() {
    let plan = || OverrideAction::Plan("gold".into());
    let end = Ends::At(1_795_854_600_000_000);
    for (json, action, ends) in [
        (r#"{"plan":"gold","for":"24h"}"#, plan(), day()),
        (
            r#"{"action":"plan","plan":"gold","for":"1d"}"#,
            plan(),
            day(),
        ),
        (r#"{"action":"block","for":"never"}"#, Block, Ends::Never),
        (
            r#"{"action":"exempt","until":"never"}"#,
            Exempt,
            Ends::Never,
        ),
        (r#"{"limits":{"it":"9"},"for":"24h"}"#, numbers("9"), day()),
        (
            r#"{"action":"set","limits":{"it":"9"},"for":"24h"}"#,
            numbers("9"),
            day(),
        ),
        (
            r#"{"action":"block","until":"2026-11-28T08:30:00Z"}"#,
            Block,
            end,
        ),
    ] {
        let wish = read(json).unwrap();
        let Intent::Set(setting) = wish.intent else {
            panic!("{json}");
        };
        assert_eq!((setting.action, wish.ends), (action, ends), "{json}");
        assert_eq!(&*setting.by, "ops");
    }
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let unknown = InvalidWish::UnknownPlan("gold, free".to_owned());
    for (json, error) in [
        (r#"{"for":"24h"}"#, Action),
        (r#"{"action":"plan","for":"24h"}"#, Action),
        (r#"{"action":"block","plan":"gold","for":"24h"}"#, Action),
        (r#"{"plan":"golden","for":"24h"}"#, unknown),
        (r#"{"action":"set","for":"24h"}"#, Action),
        (
            r#"{"action":"block","limits":{"it":"9"},"for":"24h"}"#,
            Action,
        ),
        (r#"{"plan":"gold","limits":{"it":"9"},"for":"24h"}"#, Action),
        (
            r#"{"limits":{},"for":"24h"}"#,
            InvalidWish::Setting(InvalidSetting::Numbers),
        ),
        (
            r#"{"limits":{"it":"9","other":"9"},"for":"24h"}"#,
            InvalidWish::Numbers("other: 9".to_owned()),
        ),
        (r#"{"action":"block"}"#, Time),
        (r#"{"action":"block","for":"1h","until":"never"}"#, Time),
        (r#"{"action":"block","for":""}"#, TimeForm),
        (r#"{"action":"block","for":"0s"}"#, TimeForm),
        (r#"{"action":"block","for":"-1h"}"#, TimeForm),
        (r#"{"action":"block","for":"11years"}"#, TimeForm),
        (r#"{"action":"block","until":"tomorrow"}"#, TimeForm),
        (
            r#"{"action":"block","until":"9999-01-01T00:00:00Z"}"#,
            TimeForm,
        ),
        (
            r#"{"action":"block","until":"1970-01-01T00:00:00Z"}"#,
            TimeForm,
        ),
        (
            "{\"action\":\"block\",\"for\":\"1h\",\"reason\":\"a\\nb\"}",
            InvalidWish::Setting(InvalidSetting::Control),
        ),
    ] {
        assert_eq!(read(json).unwrap_err(), error, "{json}");
    }
    for json in [r#"{"action":"dance"}"#, r#"{"acton":"block"}"#, "7"] {
        assert!(serde_json::from_str::<Wanted>(json).is_err(), "{json}");
    }
}

#[test]
fn what_is_shown_can_be_set_again() {
    let of = |name: &str, action, ends| Override {
        subject: read_name(name, 64).unwrap(),
        version: 1_795_854_600_123_456,
        ends,
        setting: Arc::new(Setting::new(action, "why", "ops").unwrap()),
    };
    let all = [
        of("api_key:acme", OverrideAction::Plan("gold".into()), None),
        of("user_id:42", Exempt, Some(1_795_854_600_000_001)),
        of("user_id:43", numbers("9"), None),
        of("10.0.0.0/8", Block, Some(1_795_854_600_000_000)),
    ];
    let list = ShownList::of(&all[..3], true, 4, Kept::File);
    assert_eq!((list.count, list.next.as_deref()), (4, Some("user_id:43")));
    assert_eq!(list.overrides[1].until, "2026-11-28T08:30:00.000001Z");
    let text = serde_json::to_string(&list).unwrap();
    let wanted: WantedList = serde_json::from_str(&text).unwrap();
    for (wanted, it) in wanted.overrides.iter().zip(&all) {
        let subject = read_name(wanted.name.as_deref().unwrap(), 64).unwrap();
        assert_eq!(subject, it.subject);
        let wish = wanted.wish(subject, Expected::Any, "ops", &defined());
        let wish = wish.unwrap();
        assert_eq!(wish.ends, it.ends.map_or(Ends::Never, Ends::At));
        assert!(matches!(wish.intent, Intent::Set(setting) if setting == *it.setting));
    }
    let rest = ShownList::of(&all[3..], false, 4, Kept::File);
    assert_eq!((rest.count, rest.next), (4, None));
    assert_eq!(rest.overrides[0].name, "10.0.0.0/8");
}
