//! `tidegate client`: shows and changes the budgets and the override of one client of a running gateway.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, ValueEnum};
use http::Method;
use tidegate_overrides::api::{Verb, Wanted};
use tidegate_status::client::Report;
use tidegate_top::{client_table, escaped};

use crate::remote::Failure;
use crate::remote::change::Change;
use crate::remote::port::{self, AdminPort, Call, Target};

/// The arguments: a client, and an action.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// The client: api_key:NAME, user_id:ID, client_cert:NAME or an address. An override may also be for a network, such as 10.0.0.0/8.
    name: String,
    /// The action.
    task: Task,
    /// The plan, after `plan`; limits, each with its numbers such as 'capacity: 500, refill: 100/s', after `set`.
    #[arg(value_name = "PLAN | LIMIT NUMBERS", required_if_eq_any([("task", "plan"), ("task", "set")]))]
    values: Vec<String>,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    gateway: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    /// Prints the remaining units of each limit.
    Show,
    /// Resets all budgets of the client, then prints them.
    Reset,
    /// Gives the client the quotas of a plan, on all gateways.
    Plan,
    /// Gives the client other numbers at up to 8 limits, on all gateways.
    Set,
    /// Exempts the client from all limits, on all gateways.
    Exempt,
    /// Answers the client with 403, on all gateways.
    Block,
    /// Ends the override of the client.
    Clear,
}

/// Calls the gateway at `--admin`, or the gateway of this configuration, and prints its answer.
///
/// # Errors
///
/// The arguments contradict each other, no gateway answers, or the gateway refuses.
pub(crate) fn run(config: &Path, question: &Question) -> Result<(), Failure> {
    question.fits()?;
    let port = question.gateway.port(config)?;
    match question.task {
        Task::Show | Task::Reset => question.budgets(&port),
        Task::Plan | Task::Set | Task::Exempt | Task::Block => question.set(&port),
        Task::Clear => question.change.clear(&port, &question.name),
    }
}

impl Question {
    /// Refuses arguments that would have no effect for the action.
    fn fits(&self) -> Result<(), Failure> {
        let sets = matches!(
            self.task,
            Task::Plan | Task::Set | Task::Exempt | Task::Block
        );
        let changes = sets || self.task == Task::Clear;
        let has_more = match self.task {
            Task::Plan => self.values.len() > 1,
            Task::Set => false,
            _ => !self.values.is_empty(),
        };
        let more = has_more.then_some("another value");
        match more.or_else(|| self.change.unfit(sets, changes)) {
            Some(what) => Err(Failure::usage(format!(
                "{what} has no effect with this action; see tidegate client --help"
            ))),
            None => Ok(()),
        }
    }

    fn budgets(&self, port: &AdminPort) -> Result<(), Failure> {
        let name = escaped(&self.name);
        let call = match self.task {
            Task::Reset => Call::new(Method::POST, format!("/clients/{name}/reset")),
            _ => Call::get(format!("/clients/{name}")),
        };
        let report: Report = port::ask(port, call)?;
        crate::remote::print(&client_table(&report, self.task == Task::Reset));
        Ok(())
    }

    fn set(&self, port: &AdminPort) -> Result<(), Failure> {
        let action = match self.task {
            Task::Exempt => Some(Verb::Exempt),
            Task::Block => Some(Verb::Block),
            _ => None,
        };
        let reason = self.change.reason.clone().unwrap_or_default();
        let plan = self.values.first().filter(|_| self.task == Task::Plan);
        let lasting = self.change.lasting.clone();
        let mut wanted = Wanted::new(action, plan.cloned(), lasting, reason);
        wanted.limits = self.limits()?;
        self.change.set(port, &self.name, &wanted)
    }

    /// Returns the limits that follow `set` on the command line, with their numbers.
    fn limits(&self) -> Result<Option<BTreeMap<String, String>>, Failure> {
        if self.task != Task::Set {
            return Ok(None);
        }
        let mut limits = BTreeMap::new();
        for pair in self.values.chunks(2) {
            let [limit, numbers] = pair else {
                return Err(Failure::usage(
                    "after `set`, each limit is followed by its numbers, such as burst 'capacity: 500, refill: 100/s'",
                ));
            };
            if limits.insert(limit.clone(), numbers.clone()).is_some() {
                return Err(Failure::usage(format!("the limit {limit} is here twice")));
            }
        }
        Ok(Some(limits))
    }
}
