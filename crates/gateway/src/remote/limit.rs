//! `tidegate limit`: shows and resets budgets of one limit of a running gateway, lists the limit's keys, and sets other numbers for it.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, ValueEnum};
use http::Method;
use tidegate_overrides::api::Wanted;
use tidegate_status::limit::LimitReport;
use tidegate_top::{escaped, limit_table};

use crate::remote::Failure;
use crate::remote::change::Change;
use crate::remote::port::{self, AdminPort, Call, Target};

/// The number of keys after which `keys` stops, and prints the cursor of the next keys.
const ENOUGH: usize = 100;
/// The most calls of one `keys`: a call may return no key of the limit, although other keys follow.
const MOST_CALLS: usize = 1_000;

/// The arguments: a limit, an action, and the values of a request that name a key.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// The limit's name.
    name: String,
    /// The action.
    task: Task,
    /// The limit's numbers, after `set`, such as 'capacity: 500, refill: 100/s'.
    #[arg(required_if_eq("task", "set"))]
    numbers: Option<String>,
    #[command(flatten)]
    change: Change,
    /// The client, such as api_key:NAME, user_id:ID, client_cert:NAME or an address.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// The client's address.
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<String>,
    /// The route, for a limit that is counted per route. Default: all routes.
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// The request's method.
    #[arg(long)]
    method: Option<String>,
    /// The request's host.
    #[arg(long)]
    host: Option<String>,
    /// A header of the request. Repeat this option and the options below for more values.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// A cookie of the request.
    #[arg(long = "cookie", value_name = "NAME=VALUE")]
    cookies: Vec<String>,
    /// A claim of the client's token.
    #[arg(long = "claim", value_name = "NAME=VALUE")]
    claims: Vec<String>,
    /// A value of the path, by the name in the route's pattern.
    #[arg(long = "path", value_name = "NAME=VALUE")]
    path: Vec<String>,
    /// A parameter of the query.
    #[arg(long = "query", value_name = "NAME=VALUE")]
    query: Vec<String>,
    /// An entry of a descriptor.
    #[arg(long = "descriptor", value_name = "NAME=VALUE")]
    descriptor: Vec<String>,
    /// The key, as `keys` prints it, in place of the values.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The position from which `keys` goes on.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gateway: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    /// Prints the used, held and remaining units of a key.
    Show,
    /// Resets a key under all plans, then prints its units.
    Reset,
    /// Prints keys of the limit, each with its units.
    Keys,
    /// Gives the limit other numbers, on all gateways.
    Set,
    /// Gives the limit the numbers of the configuration again.
    Clear,
}

/// Calls the gateway at `--admin`, or the gateway of this configuration, and prints its answer.
///
/// # Errors
///
/// The arguments contradict each other, no gateway answers, or the gateway refuses.
pub(crate) fn run(config: &Path, question: &Question) -> Result<(), Failure> {
    let query = question.query()?;
    let port = question.gateway.port(config)?;
    let report = match question.task {
        Task::Show => port::ask(&port, Call::get(question.path("", &query)))?,
        Task::Reset => {
            let call = Call::new(Method::POST, question.path("/reset", &query));
            port::ask(&port, call)?
        }
        Task::Keys => question.keys(&port)?,
        Task::Set => return question.set(&port),
        Task::Clear => return question.change.clear(&port, &question.subject()),
    };
    let text = match question.json {
        true => serde_json::to_string_pretty(&report).map_err(Failure::failed)? + "\n",
        false => limit_table(&report),
    };
    crate::remote::print(&text);
    Ok(())
}

impl Question {
    /// Returns the query that names the key.
    fn query(&self) -> Result<String, Failure> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("route", &self.route),
            ("client", &self.client),
            ("key", &self.key),
        ] {
            query.extend_pairs(value.iter().map(|value| (name, value)));
        }
        for (part, value) in [
            ("ip", &self.ip),
            ("method", &self.method),
            ("host", &self.host),
        ] {
            let values = value.iter().map(|value| ("per", format!("{part}={value}")));
            query.extend_pairs(values);
        }
        for (kind, pairs) in [
            ("header", &self.headers),
            ("cookie", &self.cookies),
            ("claim", &self.claims),
            ("path", &self.path),
            ("query", &self.query),
            ("descriptor", &self.descriptor),
        ] {
            if let Some(pair) = pairs.iter().find(|pair| !pair.contains('=')) {
                let text = format!("--{kind} {pair}: the form is NAME=VALUE");
                return Err(Failure::usage(text));
            }
            query.extend_pairs(pairs.iter().map(|pair| ("per", format!("{kind}:{pair}"))));
        }
        let query = query.finish();
        let (sets, is_keys) = (self.task == Task::Set, self.task == Task::Keys);
        let changes = sets || self.task == Task::Clear;
        let unfit = [
            (
                "a value of a request",
                !query.is_empty() && (is_keys || changes),
            ),
            ("--cursor", self.cursor.is_some() && !is_keys),
            ("--json", self.json && changes),
            ("another value", self.numbers.is_some() && !sets),
        ];
        let unfit = unfit.into_iter().find(|(_, is_unfit)| *is_unfit);
        let unfit = unfit.map(|(argument, _)| argument);
        match unfit.or_else(|| self.change.unfit(sets, changes)) {
            Some(what) => Err(Failure::usage(format!(
                "{what} has no effect with this action; see tidegate limit --help"
            ))),
            None => Ok(query),
        }
    }

    /// Returns the name of the limit's override.
    fn subject(&self) -> String {
        format!("limit:{}", self.name)
    }

    /// Sets an override with the limit's numbers.
    fn set(&self, port: &AdminPort) -> Result<(), Failure> {
        let reason = self.change.reason.clone().unwrap_or_default();
        let mut wanted = Wanted::new(None, None, self.change.lasting.clone(), reason);
        let numbers = self.numbers.clone().unwrap_or_default();
        wanted.limits = Some(BTreeMap::from([(self.name.clone(), numbers)]));
        self.change.set(port, &self.subject(), &wanted)
    }

    /// Returns the path and query of a call.
    fn path(&self, action: &str, query: &str) -> String {
        let mark = if query.is_empty() { "" } else { "?" };
        format!("/limits/{}{action}{mark}{query}", escaped(&self.name))
    }

    /// Reads keys until there are enough of them.
    fn keys(&self, port: &AdminPort) -> Result<LimitReport, Failure> {
        let page = |cursor: Option<&str>| -> Result<LimitReport, Failure> {
            let query = cursor.map(|cursor| format!("cursor={}", escaped(cursor)));
            let path = self.path("/keys", &query.unwrap_or_default());
            port::ask(port, Call::get(path))
        };
        let mut report = page(self.cursor.as_deref())?;
        for _ in 1..MOST_CALLS {
            let Some(cursor) = &report.next else {
                break;
            };
            if report.budgets.len() >= ENOUGH {
                break;
            }
            let next = page(Some(cursor))?;
            report.budgets.extend(next.budgets);
            report.next = next.next;
        }
        Ok(report)
    }
}
