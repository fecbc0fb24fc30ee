//! The interface of trials to the runner.

use std::fmt;
use std::sync::Arc;

use super::name::Name;
use super::servers::Servers;

/// A trial that ran and was judged.
pub trait Trial: Send + Sized + 'static {
    /// Sums over many trials.
    type Figures: Figures<Self>;

    /// Runs the trial of this name, and judges the result.
    fn run(name: Name, servers: Arc<Servers>) -> impl Future<Output = Self> + Send;

    /// Returns a trial that ended with a panic, which is a finding.
    fn panicked(name: &Name, panic: String) -> Self;

    /// Returns the name of the trial.
    fn name(&self) -> &Name;

    /// Returns the indices of the parts that ran, without the parts left out. The runner ignores the seed in the result.
    fn parts(&self) -> Name;

    /// Returns the names of the promises that the trial broke, in the order of its breaches.
    fn broken(&self) -> Vec<&'static str>;

    /// Drops the breaches of all promises but this one.
    fn keep_only(&mut self, promise: &'static str);

    /// Returns each breach in one line.
    fn lines(&self) -> Vec<String>;

    /// Returns the case, its breaches, and the history around the first breach.
    fn report(&self) -> String;
}

/// Sums over many trials.
pub trait Figures<T>: Default + fmt::Display + Send {
    /// Adds a trial.
    fn add(&mut self, trial: &T);
}

/// Runs a trial and judges it.
pub(super) async fn judged<T: Trial>(name: &Name, servers: &Arc<Servers>) -> T {
    let running = tokio::spawn(T::run(name.clone(), Arc::clone(servers)));
    match running.await {
        Ok(trial) => trial,
        Err(panic) => T::panicked(name, panic.to_string()),
    }
}
