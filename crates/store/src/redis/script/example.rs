//! Scripts as Redis gets them, for readers: each with a call that runs it on keys of no client.

use std::collections::BTreeMap;

use tidegate_core::Quota;
use tidegate_redis::{Word, sha1, with_deadline};

use super::arguments::{Arguments, Holding};
use super::caller::FORGET;
use super::caller::reading::COUNTS;
use super::{ALGORITHMS, BLOCK, COMBINATIONS, HOLD, Task, number, number_of_quotas, text};
use crate::{Charge, Key, Limit, Mode};

/// A script, with the keys and the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptExample {
    /// The task, such as `decide`, and behind a colon the algorithms and options whose parts the script has.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// The SHA-1 of the text, by which Redis finds the script.
    pub sha1: String,
    /// The keys of the call: keys of a client whose hash is 0.
    pub keys: Vec<String>,
    /// The arguments of the call. Its deadline never passes.
    pub arguments: Vec<String>,
}

/// Returns the scripts that requests under all of these limits need, by name, if one Redis server has all keys.
pub fn examples(limits: &[&Limit], key_prefix: &str) -> BTreeMap<String, ScriptExample> {
    let charges: Vec<Charge<'_>> = limits.iter().map(|limit| charge(limit)).collect();
    let in_mode = |mode| charges.iter().filter(move |it| it.limit.mode() == mode);
    let of = Examples { key_prefix };
    let mut scripts = Vec::new();
    let exact: Vec<Charge<'_>> = in_mode(Mode::Exact).copied().collect();
    scripts.extend(of.decisions(&exact));
    for leased in in_mode(Mode::Leased) {
        scripts.push(of.lease(leased));
    }
    for synced in in_mode(Mode::Synced) {
        scripts.push(of.exchange(synced));
    }
    scripts.extend(charges.first().map(|first| of.forget(first)));
    scripts.extend(charges.first().map(|first| of.counts(first)));
    let scripts = scripts.into_iter();
    scripts.map(|it| (it.name.clone(), it)).collect()
}

const fn charge(limit: &Limit) -> Charge<'_> {
    Charge {
        limit,
        key: Key {
            tag: [0; 16],
            rest: [0; 16],
        },
        cost: 1,
        origin: None,
    }
}

/// Makes examples with this prefix of keys.
struct Examples<'p> {
    key_prefix: &'p str,
}

impl Examples<'_> {
    fn decisions(&self, charges: &[Charge<'_>]) -> Vec<ScriptExample> {
        if charges.is_empty() {
            return Vec::new();
        }
        let keys: Vec<Word> = charges
            .iter()
            .flat_map(|charge| charge.keys(self.key_prefix, false))
            .collect();
        let words = Arguments::of(charges, Holding::None).at(crate::now());
        let takes_holds = charges.iter().any(|charge| charge.limit.lease().is_some());
        // Each decision takes a hold of another ID.
        let [alone, other] =
            [1, 2].map(|id| with_deadline(None, u64::from(takes_holds) * id, &words));
        // One group, with one request, whose other arguments begin at the sixth argument.
        let count = Word::from(keys.len() as u64);
        let many = [Word::from(1), Word::from(1), count, Word::from(6)];
        let many: Vec<Word> = many.into_iter().chain(other).collect();
        let script = |task| number(task, charges, Holding::None);
        let mut scripts = vec![
            example(script(Task::Decide), &keys, &alone),
            example(script(Task::DecideMany), &keys, &many),
            example(script(Task::Look), &keys, &alone),
        ];
        let held: Vec<Charge<'_>> = charges
            .iter()
            .filter(|charge| charge.limit.lease().is_some())
            .copied()
            .collect();
        if !held.is_empty() {
            let keys = held.iter().flat_map(|charge| {
                let mut keys: Vec<Word> = charge.keys(self.key_prefix, true).collect();
                // The end of a hold needs no key of a block.
                keys.truncate(if charge.limit.quota().lease().is_some() {
                    1
                } else {
                    2
                });
                keys
            });
            let keys: Vec<Word> = keys.collect();
            // The end of the hold 1, without a deadline: no unit was used.
            let end = [Word::from(1), Word::from("")].into_iter();
            let end: Vec<Word> = end.chain(held.iter().map(|_| Word::from(0))).collect();
            let words = Arguments::of(&held, Holding::None).followed_by(&end, crate::now());
            let script = number(Task::Hold, &held, Holding::None);
            scripts.push(example(script, &keys, &words));
        }
        scripts
    }

    fn lease(&self, charge: &Charge<'_>) -> ScriptExample {
        let key = charge.redis_key(self.key_prefix);
        let keys = [key.clone(), format!("{key}:slices")].map(Word::from);
        let words = Arguments::of(&[*charge], Holding::None).at(crate::now());
        let mut words = with_deadline(None, 0, &words);
        // The first call of a gateway: it asks for ten units.
        let numbers = [1, 1, 0, 0, 0, 0, 10, 5_000_000, 0];
        words.push(Word::from("gateway"));
        words.extend(numbers.map(Word::from));
        let script = number_of_quotas(Task::Lease, [charge.limit.quota()]);
        example(script, &keys, &words)
    }

    fn exchange(&self, charge: &Charge<'_>) -> ScriptExample {
        let quota = charge.limit.quota();
        let key = charge.redis_key(self.key_prefix);
        let keys = [key.clone(), format!("{key}:counted")].map(Word::from);
        let now = crate::now();
        let start = quota.counter().map_or(0, |it| now - now % it.window);
        let own = ["gateway", "1", quota.algorithm()].map(Word::from);
        // One unit in the current window, and none in the window before.
        let counts = [start, 1, 0].map(Word::from);
        let numbers = quota.numbers(now);
        let numbers = numbers.iter().copied().map(Word::from);
        let words: Vec<Word> = own.into_iter().chain(counts).chain(numbers).collect();
        let script = number_of_quotas(Task::Exchange, [quota]);
        example(script, &keys, &with_deadline(None, 0, &words))
    }

    fn forget(&self, charge: &Charge<'_>) -> ScriptExample {
        let keys = [Word::from(charge.redis_key(self.key_prefix))];
        let text = FORGET.to_owned();
        described(
            "forget".to_owned(),
            text,
            &keys,
            &with_deadline(None, 0, &[]),
        )
    }

    fn counts(&self, charge: &Charge<'_>) -> ScriptExample {
        let key = charge.redis_key(self.key_prefix);
        let keys = [key.clone(), format!("{key}:held")].map(Word::from);
        described("counts".to_owned(), COUNTS.to_owned(), &keys, &[])
    }
}

/// Describes the script with this number.
fn example(number: usize, keys: &[Word], arguments: &[Word]) -> ScriptExample {
    described(name(number), text(number), keys, arguments)
}

fn described(name: String, text: String, keys: &[Word], arguments: &[Word]) -> ScriptExample {
    let texts = |words: &[Word]| words.iter().map(|it| it.as_str().to_owned()).collect();
    ScriptExample {
        name,
        sha1: sha1(&text),
        text,
        keys: texts(keys),
        arguments: texts(arguments),
    }
}

/// Returns the name of the script with this number.
fn name(number: usize) -> String {
    let task = match Task::ALL[number / COMBINATIONS] {
        Task::Decide => "decide",
        Task::DecideMany => "decide_many",
        Task::Check => "check",
        Task::Look => "look",
        Task::Hold => "hold",
        Task::Lease => "lease",
        Task::Exchange => "exchange",
    };
    let has = |part: usize| (number % COMBINATIONS) & (1 << part) != 0;
    let algorithms = (0..ALGORITHMS.len()).filter(|part| has(*part));
    let mut parts: Vec<&str> = algorithms.map(|part| Quota::ALGORITHMS[part]).collect();
    parts.extend(has(BLOCK).then_some("block"));
    parts.extend(has(HOLD).then_some("holds"));
    format!("{task}:{}", parts.join("+"))
}
