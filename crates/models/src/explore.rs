//! Visits all states of a model, or searches for a counterexample.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker as _, Expectation, HasDiscoveries, Model};

/// The most states that the checker may generate for a model, counted with repetitions. A larger model would take too long for a test.
const MOST: usize = 10_000_000;

/// Visits all states. Each `always` property must hold in all of them, and each `sometimes` property in at least one.
///
/// # Panics
///
/// If a property fails, or if there are fewer than `least` states, which means that the model has shrunk by mistake.
pub(crate) fn holds<M>(model: M, least: usize)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let (name, started) = (format!("{model:?}"), Instant::now());
    let checker = model.checker().target_state_count(MOST).spawn_bfs().join();
    for property in checker.model().properties() {
        let path = checker.discovery(property.name);
        match (property.expectation, path) {
            (Expectation::Sometimes, None) => panic!("{name}: never happens: {}", property.name),
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                panic!("{name}: does not hold: {}\n{path}", property.name)
            }
            _ => {}
        }
    }
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let took = started.elapsed();
    let is_explored = checker.state_count() < MOST;
    assert!(is_explored, "{name}: not explored to its end");
    eprintln!("{name}: {states} states, {depth} steps deep, all explored in {took:.1?}");
    assert!(states >= least, "{name}: only {states} states");
}

/// Finds a counterexample to a property, and prints the shortest one.
///
/// # Panics
///
/// If the property holds in all states.
pub(crate) fn fails<M>(model: M, property: &'static str)
where
    M: Model + Clone + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let name = format!("{model:?}");
    let mut shortest: Option<Vec<M::Action>> = None;
    loop {
        let only = [property].into_iter().collect();
        let mut builder = model.clone().checker();
        builder = builder.finish_when(HasDiscoveries::AllOf(only));
        if let Some(steps) = &shortest {
            // The next search visits only shorter paths, because it leaves out states at the maximum depth.
            builder = builder.target_max_depth(steps.len() + 1);
        }
        let checker = builder.spawn_bfs().join();
        match checker.discovery(property) {
            Some(path) => shortest = Some(path.into_actions()),
            None => break,
        }
    }
    let Some(steps) = shortest else {
        panic!("{name}: no counterexample to \"{property}\"");
    };
    eprintln!("{name}: a counterexample to \"{property}\":");
    for step in steps {
        eprintln!("    {step:?}");
    }
}
