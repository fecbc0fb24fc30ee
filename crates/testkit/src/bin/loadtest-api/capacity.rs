//! Computes the time at which a request will be done: first come, first served. Callers pass the current time, and no function waits.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    num::NonZeroUsize,
    time::{Duration, Instant},
};

/// Workers, each busy for the same time with every request, and a bounded queue before them.
#[derive(Debug)]
pub(crate) struct Capacity {
    workers: usize,
    service_time: Duration,
    queue: usize,
    /// For each worker that has had a request: when the worker will be free. The earliest time is on top.
    free_at: BinaryHeap<Reverse<Instant>>,
    /// The times at which workers begin the waiting requests, the earliest in front.
    waiting: VecDeque<Instant>,
}

impl Capacity {
    pub(crate) fn new(workers: NonZeroUsize, service_time: Duration, queue: usize) -> Self {
        Self {
            workers: workers.get(),
            service_time,
            queue,
            free_at: BinaryHeap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns when a request that arrives now will be done, or `None` if the queue is full. A request keeps its place, even if its client
    /// leaves.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Instant> {
        while self.waiting.front().is_some_and(|begin| *begin <= now) {
            self.waiting.pop_front();
        }
        let begin = if self.free_at.len() < self.workers {
            now
        } else {
            let Reverse(free) = *self.free_at.peek()?;
            free.max(now)
        };
        if begin > now {
            if self.waiting.len() >= self.queue {
                return None;
            }
            self.waiting.push_back(begin);
        }
        if self.free_at.len() == self.workers {
            self.free_at.pop();
        }
        let done = begin + self.service_time;
        self.free_at.push(Reverse(done));
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: Duration = Duration::from_millis(10);

    fn capacity(workers: usize, queue: usize) -> Capacity {
        Capacity::new(NonZeroUsize::new(workers).unwrap(), SERVICE, queue)
    }

    #[test]
    fn as_many_as_there_are_workers_are_done_at_once_and_the_others_after_them() {
        let mut capacity = capacity(2, 3);
        let now = Instant::now();
        let done: Vec<_> = (0..6)
            .map(|_| capacity.take(now).map(|done| done - now))
            .collect();
        let rounds = [1, 1, 2, 2, 3].map(|round| Some(SERVICE * round));
        assert_eq!(done[..5], rounds);
        assert_eq!(done[5], None);
    }

    #[test]
    fn a_place_is_free_again_when_its_request_is_begun() {
        let mut capacity = capacity(1, 1);
        let start = Instant::now();
        assert_eq!(capacity.take(start), Some(start + SERVICE));
        assert_eq!(capacity.take(start), Some(start + SERVICE * 2));
        let just_before = start + SERVICE - Duration::from_nanos(1);
        assert_eq!(capacity.take(just_before), None);
        assert_eq!(capacity.take(start + SERVICE), Some(start + SERVICE * 3));
    }

    #[test]
    fn under_ten_times_its_load_it_does_what_it_can_and_no_more() {
        let mut capacity = capacity(4, 100);
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let done = (0..4_000)
            .filter_map(|nth| capacity.take(start + second * nth / 4_000))
            .filter(|done| *done <= start + second)
            .count();
        // The first worker is always busy. The other three begin a moment later, so each completes one request less.
        assert_eq!(done, 100 + 3 * 99);
    }
}
