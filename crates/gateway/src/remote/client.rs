//! `tidegate client`: shows and changes the budgets and the override of one client of a running gateway.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, ValueEnum};
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method};
use serde_json::json;
use tidegate_overrides::Kept;
use tidegate_overrides::api::{Shown, Verb, Wanted};
use tidegate_status::client::Report;
use tidegate_top::{clean, client_table, escaped};

use crate::remote::Failure;
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
    /// The time for which an override is in force, such as 30m, 24h or 7d, or `never` if it has no end.
    #[arg(long = "for", value_name = "TIME", required_if_eq_any([("task", "plan"), ("task", "set"), ("task", "exempt"), ("task", "block")]))]
    lasting: Option<String>,
    /// The reason, which the log and the status page show.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Changes the override only if it has this version, which `overrides list --json` shows. With `none`, only if there is no override.
    #[arg(long, value_name = "VERSION", value_parser = expected)]
    expect: Option<Expected>,
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

/// The override that must be in force. Otherwise the gateway refuses the change.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Nothing,
    Version(u64),
}

fn expected(text: &str) -> Result<Expected, String> {
    match (text, text.parse::<u64>()) {
        ("none", _) => Ok(Expected::Nothing),
        (_, Ok(version)) => Ok(Expected::Version(version)),
        _ => Err("a version is a number; `none` stands for no override".to_owned()),
    }
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
        Task::Clear => question.clear(&port),
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
        let unfit = [
            (
                "another value",
                match self.task {
                    Task::Plan => self.values.len() > 1,
                    Task::Set => false,
                    _ => !self.values.is_empty(),
                },
            ),
            ("--for", self.lasting.is_some() && !sets),
            ("--reason", self.reason.is_some() && !changes),
            ("--expect", self.expect.is_some() && !changes),
        ];
        match unfit.iter().find(|(_, is_unfit)| *is_unfit) {
            Some((what, _)) => Err(Failure::usage(format!(
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
        let reason = self.reason.clone().unwrap_or_default();
        let plan = self.values.first().filter(|_| self.task == Task::Plan);
        let mut wanted = Wanted::new(action, plan.cloned(), self.lasting.clone(), reason);
        wanted.limits = self.limits()?;
        let shown: Shown = port::ask(port, self.call(Method::PUT).with(&wanted)?)?;
        let text = format!("{}: {} until {}", shown.name, shown.does(), shown.until);
        let mut text = clean(&text) + "\n";
        if let Some(note) = &shown.note {
            text.push_str(&clean(&format!("note: {}: {note}", shown.name)));
            text.push('\n');
        }
        // Gateways of earlier versions do not send the field `kept`.
        text.push_str(shown.kept.map_or("", note));
        crate::remote::print(&text);
        Ok(())
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

    fn clear(&self, port: &AdminPort) -> Result<(), Failure> {
        let reason = json!({ "reason": self.reason.clone().unwrap_or_default() });
        let shown: Shown = port::ask(port, self.call(Method::DELETE).with(&reason)?)?;
        let text = format!("{}: {} is cleared", shown.name, shown.does());
        crate::remote::print(&(clean(&text) + "\n"));
        Ok(())
    }

    /// Returns the call that changes the client's override.
    fn call(&self, method: Method) -> Call {
        let mut call = Call::new(method, format!("/overrides/{}", escaped(&self.name)));
        let header: Option<(HeaderName, HeaderValue)> = match self.expect {
            None => None,
            Some(Expected::Nothing) => Some((IF_NONE_MATCH, HeaderValue::from_static("*"))),
            Some(Expected::Version(version)) => HeaderValue::try_from(format!("\"{version}\""))
                .ok()
                .map(|value| (IF_MATCH, value)),
        };
        call.headers.extend(header);
        call
    }
}

/// Returns a note if the overrides are lost when the gateway's process ends, and otherwise an empty text.
pub(crate) const fn note(kept: Kept) -> &'static str {
    match kept {
        Kept::Redis | Kept::File => "",
        Kept::Process => {
            "note: overrides of this gateway end with its process; `overrides_file` names a file to keep them in\n"
        }
    }
}
