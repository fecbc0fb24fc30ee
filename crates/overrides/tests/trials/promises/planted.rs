//! Each checker finds a planted fault, and finds none in a history that just keeps its promise.

use tidegate_core::Micros;

use super::{CLOCK, ENDS, LISTED, REFUSED, SET, broken};
use crate::case::{Condition, Ends};
use crate::history::{
    Answer, Bounds, Change, Entry, FOREVER, History, Life, Look, Span, Step, Trouble,
};

const MS: Micros = 1_000;
const START: Micros = 1_700_000_000_000_000;
const HOUR: i64 = 3_600_000_000;

const fn at(ms: u64) -> Micros {
    START + ms * MS
}

const fn span(begin: u64, end: u64) -> Span {
    Span {
        begin: at(begin),
        end: at(end),
    }
}

/// The override of a change that was made at that time, in ms.
const fn entry(change: u64, made: u64, ends: Option<u64>) -> Entry {
    Entry {
        change,
        version: at(made),
        ends: match ends {
            Some(ends) => Some(at(ends)),
            None => None,
        },
    }
}

/// A change at the first gateway, answered a ms later.
const fn change(id: u64, made: u64, sets: Option<Ends>, answer: Answer) -> Change {
    Change {
        id,
        gateway: 0,
        subject: 0,
        condition: Condition::Any,
        sets,
        span: span(made, made + 1),
        answer,
    }
}

/// An override that was set, and its change.
const fn set(id: u64, made: u64, ends: Option<u64>) -> (Entry, Change) {
    let entry = entry(id, made, ends);
    let sets = match ends {
        Some(ends) => Ends::After(ends - made),
        None => Ends::Never,
    };
    let answer = Answer::Set {
        version: entry.version,
        ends: entry.ends,
        before: None,
    };
    (entry, change(id, made, Some(sets), answer))
}

/// Two gateways that show this for three seconds; each reads Redis all the time.
fn history(changes: &[Change], shows: impl Fn(usize, u64) -> Option<Entry>) -> History {
    let mut history = History {
        subjects: 1,
        changes: changes.to_vec(),
        converged: Some(at(3_000)),
        bounds: Bounds {
            reach: 700 * MS,
            heard: 350 * MS,
            clock: 250 * MS,
        },
        ..History::default()
    };
    for gateway in 0..2 {
        history.lives.push(Life {
            gateway,
            span: Span {
                begin: at(0),
                end: FOREVER,
            },
        });
        for ms in (2..3_000).step_by(20) {
            let shown = shows(gateway, ms);
            history.looks.push(Look {
                gateway,
                span: span(ms, ms),
                enforced: vec![shown],
                listed: vec![shown],
                heard: Some(20 * MS),
            });
        }
    }
    history
}

/// The promises that a history breaks.
fn names(history: &History) -> Vec<&'static str> {
    let mut names: Vec<_> = broken(history).iter().map(|it| it.promise).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn a_change_is_in_force_where_it_was_made_at_once_and_elsewhere_soon() {
    let (first, change) = set(1, 100, None);
    let after = |here: u64, there: u64| {
        let shows = |gateway, ms| (ms > [here, there][gateway]).then_some(first);
        names(&history(std::slice::from_ref(&change), shows))
    };
    assert_eq!(after(101, 700), [""; 0]);
    assert_eq!(after(150, 700), [SET.name]);
    assert_eq!(after(101, 1_000), [SET.name]);
    // A gateway that does not reach Redis need not have it.
    let mut away = history(std::slice::from_ref(&change), |gateway, ms| {
        (gateway == 0 && ms > 101 || ms > 2_000).then_some(first)
    });
    assert_eq!(names(&away), [SET.name]);
    away.troubles.push(Trouble {
        gateway: Some(1),
        kind: "gateway cut off",
        span: span(300, 1_500),
    });
    assert_eq!(names(&away), [""; 0]);
}

#[test]
fn gateways_that_never_agree_are_found() {
    let mut history = history(&[], |_, _| None);
    assert_eq!(names(&history), [""; 0]);
    history.converged = None;
    assert_eq!(names(&history), [SET.name]);
}

#[test]
fn a_replaced_override_does_not_come_back() {
    let (first, block) = set(1, 100, None);
    let (second, short) = set(2, 500, Some(700));
    let shows = |back: u64| {
        let shows = move |gateway: usize, ms: u64| match ms {
            _ if ms >= back => Some(first),
            102..500 if gateway == 0 || ms > 150 => Some(first),
            500..700 if gateway == 0 || ms > 550 => Some(second),
            500..700 => Some(first),
            _ => None,
        };
        names(&history(&[block.clone(), short.clone()], shows))
    };
    assert_eq!(shows(FOREVER), [""; 0]);
    assert_eq!(shows(2_000), [ENDS.name]);
    let answer = Answer::Cleared {
        version: at(500),
        before: None,
    };
    let clear = change(3, 500, None, answer);
    let cleared = |back: u64| {
        let shows = move |_, ms: u64| (102..500).contains(&ms) || ms >= back;
        let shows = |gateway, ms| shows(gateway, ms).then_some(first);
        names(&history(&[block.clone(), clear.clone()], shows))
    };
    assert_eq!(cleared(FOREVER), [""; 0]);
    assert_eq!(cleared(600), [ENDS.name]);
}

#[test]
fn an_override_of_before_a_loss_may_come_back_if_no_gateway_has_read_its_successor() {
    let (first, block) = set(1, 100, None);
    let (_, mut lost) = set(2, 500, None);
    lost.gateway = 2;
    let shows = |gateway, ms| (gateway == 0 && ms > 101 || ms > 200).then_some(first);
    let mut history = history(&[block, lost], shows);
    history.lives.push(Life {
        gateway: 2,
        span: span(0, 600),
    });
    history.looks.push(Look {
        gateway: 2,
        span: span(10, 10),
        enforced: vec![None],
        listed: vec![None],
        heard: Some(20 * MS),
    });
    assert_eq!(names(&history), [SET.name]);
    history.losses.push(span(450, 800));
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn a_refused_change_is_not_made_later() {
    let failed = |sets| Change {
        span: span(100, 250),
        ..change(1, 100, sets, Answer::Failed("no answer".to_owned()))
    };
    for (made, found) in [(240, &[][..]), (400, &[REFUSED.name])] {
        let late = entry(1, made, None);
        let shows = |_, ms| (ms > made).then_some(late);
        let history = history(&[failed(Some(Ends::Never))], shows);
        assert_eq!(names(&history), found);
    }
    let (second, exempt) = set(2, 300, None);
    let clears = |cleared: u64| {
        let shows = move |_, ms: u64| (301..cleared).contains(&ms).then_some(second);
        names(&history(&[failed(None), exempt.clone()], shows))
    };
    assert_eq!(clears(FOREVER), [""; 0]);
    assert_eq!(clears(600), [REFUSED.name]);
}

#[test]
fn versions_follow_the_order_of_changes() {
    let (_, first) = set(1, 500, None);
    let (second, mut older) = set(2, 400, None);
    older.span = span(600, 601);
    let history = history(&[first, older], |_, ms| (ms > 601).then_some(second));
    assert!(names(&history).contains(&SET.name));
}

#[test]
fn an_override_is_in_force_until_redis_clock_is_at_its_end() {
    let (entry, short) = set(1, 100, Some(700));
    let until = |end: u64| {
        let shows = move |_, ms: u64| (101..end).contains(&ms).then_some(entry);
        names(&history(std::slice::from_ref(&short), shows))
    };
    assert_eq!(until(700), [""; 0]);
    assert_eq!(until(800), [""; 0]);
    assert_eq!(until(1_200), [CLOCK.name]);
    assert_eq!(until(300), [SET.name]);
    // A gateway that was paused ends it when it runs again.
    let shows = |_, ms: u64| (101..1_160).contains(&ms).then_some(entry);
    let mut paused = history(std::slice::from_ref(&short), shows);
    let is_paused = |look: &Look| span(300, 1_100).meets(&look.span);
    paused.looks.retain(|look| !is_paused(look));
    assert_eq!(names(&paused), [CLOCK.name]);
    for gateway in 0..2 {
        paused.troubles.push(Trouble {
            gateway: Some(gateway),
            kind: crate::history::PAUSED,
            span: span(300, 1_100),
        });
    }
    assert_eq!(names(&paused), [""; 0]);
}

#[test]
fn a_clock_that_is_set_back_brings_an_override_back() {
    let (entry, long) = set(1, 100, Some(60_000));
    let from = |back: u64| {
        let shows = move |_, ms: u64| (101..550).contains(&ms) || ms > back;
        let shows = |gateway, ms| shows(gateway, ms).then_some(entry);
        let mut history = history(std::slice::from_ref(&long), shows);
        for (begin, ahead) in [(500, HOUR), (1_000, 0)] {
            let span = span(begin, begin + 1);
            history.steps.push(Step { span, ahead });
        }
        names(&history)
    };
    assert_eq!(from(1_100), [""; 0]);
    assert_eq!(from(FOREVER), [CLOCK.name]);
    // While the clock is ahead, it has ended.
    assert_eq!(from(850), [CLOCK.name]);
}

/// An answer of Redis is seen before the overrides that it changes are.
#[test]
fn a_step_of_the_clock_is_applied_soon_after_a_gateway_has_heard_of_it() {
    let (entry, long) = set(1, 100, Some(60_000));
    let from = |back: u64| {
        let shows = move |_, ms: u64| ((101..550).contains(&ms) || ms > back).then_some(entry);
        let mut history = history(std::slice::from_ref(&long), shows);
        for (begin, ahead) in [(500, HOUR), (1_000, 0)] {
            let span = span(begin, begin + 1);
            history.steps.push(Step { span, ahead });
        }
        let silence = span(1_000, 1_400);
        for look in &mut history.looks {
            if look.span.meets(&silence) {
                look.heard = Some(look.span.begin - at(980));
            }
        }
        names(&history)
    };
    assert_eq!(from(1_450), [""; 0]);
    assert_eq!(from(1_800), [CLOCK.name]);
}

/// The end of an override that was never shown follows from the time at which it was set: here, before the step or behind it.
#[test]
fn a_refused_change_may_have_been_made_and_over_behind_a_step_of_the_clock() {
    let (entry, forever) = set(1, 100, None);
    let failed = Change {
        span: span(500, 650),
        ..change(
            2,
            500,
            Some(Ends::After(100)),
            Answer::Failed(String::new()),
        )
    };
    let until = |gone: u64| {
        let shows = move |_, ms: u64| (101..gone).contains(&ms).then_some(entry);
        let mut history = history(&[forever.clone(), failed.clone()], shows);
        for (begin, ahead) in [(50, HOUR), (520, 0)] {
            let span = span(begin, begin + 1);
            history.steps.push(Step { span, ahead });
        }
        names(&history)
    };
    assert_eq!(until(560), [""; 0]);
    assert_eq!(until(300), [SET.name]);
}

#[test]
fn the_listed_overrides_are_the_enforced_ones() {
    let (entry, block) = set(1, 100, None);
    let lacks = |until: u64| {
        let mut history = history(std::slice::from_ref(&block), |_, ms| {
            (ms > 101).then_some(entry)
        });
        for look in &mut history.looks {
            if (at(1_000)..at(until)).contains(&look.span.begin) {
                look.listed = vec![None];
            }
        }
        names(&history)
    };
    assert_eq!(lacks(1_200), [""; 0]);
    assert_eq!(lacks(1_400), [LISTED.name]);
}

/// The page of promises has each sentence.
#[test]
fn the_documentation_has_the_promises() {
    let page = include_str!("../../../../../docs/promises.md");
    for promise in [SET, ENDS, REFUSED, CLOCK, LISTED] {
        let row = format!("| `{}` | {} |", promise.name, promise.words);
        assert!(page.contains(&row), "docs/promises.md lacks: {row}");
    }
}
