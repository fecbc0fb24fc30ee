//! Windows of different lengths: the days or months of a time zone.
//!
//! Another crate computes the starts of the windows, because this crate has no time zones.

use crate::Micros;

/// The starts of days or months in a time zone.
#[derive(Debug, PartialEq, Eq)]
pub struct Calendar {
    name: Box<str>,
    starts: Box<[Micros]>,
}

impl Calendar {
    /// Returns a calendar of windows that start at `starts`, in strictly ascending order. `name` becomes a part of keys. Each window after
    /// the last start has the length between the last two starts. The time before the first start is one window. `None` if there are fewer
    /// than two starts, or if they do not ascend.
    pub fn new(name: impl Into<Box<str>>, starts: impl Into<Box<[Micros]>>) -> Option<Self> {
        let (name, starts) = (name.into(), starts.into());
        let ascends = starts.len() >= 2 && starts.windows(2).all(|pair| pair[0] < pair[1]);
        ascends.then_some(Self { name, starts })
    }

    /// Returns the name of the windows, which is a part of keys.
    pub const fn name(&self) -> &str {
        &self.name
    }

    /// Returns the length between the last two starts, in us. Other windows may be shorter or longer.
    pub fn nominal(&self) -> Micros {
        match *self.starts {
            [.., before, last] => last - before,
            _ => Micros::MAX,
        }
    }

    /// Returns the start and end of the window at `now`, and the end of the next window.
    pub fn windows(&self, now: Micros) -> [Micros; 3] {
        let next = self.starts.partition_point(|start| *start <= now);
        if let [end, next_end, ..] = self.starts[next..] {
            let start = next
                .checked_sub(1)
                .map_or(0, |current| self.starts[current]);
            return [start, end, next_end];
        }
        let [.., before, last] = *self.starts else {
            return [0, Micros::MAX, Micros::MAX];
        };
        let length = self.nominal();
        if now < last {
            return [before, last, last + length];
        }
        let start = last + (now - last) / length * length;
        [start, start + length, start + 2 * length]
    }
}
