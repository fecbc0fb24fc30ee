//! A change of one override: its arguments, and the call to the admin port.

use clap::Args;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method};
use serde_json::json;
use tidegate_overrides::Kept;
use tidegate_overrides::api::{Shown, Wanted};
use tidegate_top::{clean, escaped};

use crate::remote::Failure;
use crate::remote::port::{self, AdminPort, Call};

/// The arguments of a change: the end of the override, the reason, and a condition.
#[derive(Debug, Args)]
pub(crate) struct Change {
    /// The time for which an override is in force, such as 30m, 24h or 7d, or `never` if it has no end.
    #[arg(long = "for", value_name = "TIME", required_if_eq_any([("task", "plan"), ("task", "set"), ("task", "exempt"), ("task", "block")]))]
    pub(crate) lasting: Option<String>,
    /// The reason, which the log and the status page show.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Changes the override only if it has this version, which `overrides list --json` shows. With `none`, only if there is no override.
    #[arg(long, value_name = "VERSION", value_parser = expected)]
    expect: Option<Expected>,
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

impl Change {
    /// Returns an argument that has no effect, given whether the action sets an override, and whether it changes one.
    pub(crate) fn unfit(&self, sets: bool, changes: bool) -> Option<&'static str> {
        let unfit = [
            ("--for", self.lasting.is_some() && !sets),
            ("--reason", self.reason.is_some() && !changes),
            ("--expect", self.expect.is_some() && !changes),
        ];
        let unfit = unfit.into_iter().find(|(_, is_unfit)| *is_unfit);
        unfit.map(|(argument, _)| argument)
    }

    /// Sets the override of a name, and prints it.
    pub(crate) fn set(&self, port: &AdminPort, name: &str, wanted: &Wanted) -> Result<(), Failure> {
        let shown: Shown = port::ask(port, self.call(Method::PUT, name).with(wanted)?)?;
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

    /// Clears the override of a name, and prints the override that was in force.
    pub(crate) fn clear(&self, port: &AdminPort, name: &str) -> Result<(), Failure> {
        let reason = json!({ "reason": self.reason.clone().unwrap_or_default() });
        let shown: Shown = port::ask(port, self.call(Method::DELETE, name).with(&reason)?)?;
        let text = format!("{}: {} is cleared", shown.name, shown.does());
        crate::remote::print(&(clean(&text) + "\n"));
        Ok(())
    }

    /// Returns the call that changes the override of a name.
    fn call(&self, method: Method, name: &str) -> Call {
        let mut call = Call::new(method, format!("/overrides/{}", escaped(name)));
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
