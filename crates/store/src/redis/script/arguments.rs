//! The words that are passed to a script.

use std::sync::Arc;

use tidegate_core::{Block, Micros, Quota};

use crate::Charge;

/// What is passed to a script: per charge the algorithm, the cost, the limit's ways, and the quota's numbers
/// (lua/README.md).
#[derive(Debug)]
pub(in crate::redis) struct Arguments {
    words: Arc<[String]>,
    // Those of a calendar are known when the time of the call is; each with its place among the words.
    calendars: Vec<(usize, Quota)>,
}

impl Arguments {
    /// What is needed to decide.
    pub(in crate::redis) fn of(charges: &[Charge<'_>]) -> Self {
        let mut words = Vec::with_capacity(charges.len() * 9);
        let mut calendars = Vec::new();
        for charge in charges {
            add(&mut words, &mut calendars, charge);
        }
        Self {
            words: words.into(),
            calendars,
        }
    }

    /// The words at `now` on Redis's clock of a call about one charge that has been decided, and these behind them.
    pub(in crate::redis) fn followed_by(&self, words: &[String], now: Micros) -> Vec<String> {
        let own = self.at(now);
        let mut all = Vec::with_capacity(own.len() + words.len());
        all.extend_from_slice(&own);
        all.extend_from_slice(words);
        all
    }

    /// The words of a decision at `now` on Redis's clock.
    pub(in crate::redis) fn at(&self, now: Micros) -> Arc<[String]> {
        if self.calendars.is_empty() {
            return self.words.clone();
        }
        let mut words = self.words.to_vec();
        fill_in(&mut words, &self.calendars, now);
        words.into()
    }
}

fn fill_in(words: &mut [String], calendars: &[(usize, Quota)], now: Micros) {
    for (place, quota) in calendars {
        for (word, number) in words[*place..].iter_mut().zip(&*quota.numbers(now)) {
            *word = number.to_string();
        }
    }
}

fn add(words: &mut Vec<String>, calendars: &mut Vec<(usize, Quota)>, charge: &Charge<'_>) {
    let (limit, quota) = (charge.limit, charge.limit.quota());
    words.push(quota.algorithm().to_owned());
    words.push(charge.cost.to_string());
    words.push(u8::from(limit.is_observed()).to_string());
    // Below 0 if refused requests prolong it.
    words.push(match limit.block() {
        None => "0".to_owned(),
        Some(Block {
            span,
            extend: false,
        }) => span.to_string(),
        Some(Block { span, extend: true }) => format!("-{span}"),
    });
    words.push(limit.reserves().unwrap_or(0).to_string());
    if quota.calendar().is_some() {
        calendars.push((words.len(), *quota));
    }
    add_numbers(words, quota);
}

/// A quota's numbers; those of a calendar are only places for them.
pub(in crate::redis) fn add_numbers(words: &mut Vec<String>, quota: &Quota) {
    words.extend(quota.numbers(0).iter().map(u64::to_string));
}
