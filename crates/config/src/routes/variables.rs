//! Warns of text that other proxies interpret, but this gateway takes literally: variables in headers, wildcards in values.

use crate::yaml::{Place, Problem};

use crate::check::Check;

/// The first characters of variables in nginx, Envoy, HAProxy, Caddy and templates.
const VARIABLES: [&str; 25] = [
    "$remote_addr",
    "$binary_remote_addr",
    "$proxy_add_x_forwarded_for",
    "$http_",
    "$host",
    "$scheme",
    "$request_id",
    "$request_uri",
    "$uri",
    "$server_name",
    "$ssl_",
    "$cookie_",
    "$arg_",
    "$(",
    "%REQ(",
    "%RESP(",
    "%REQUEST_ID%",
    "%DOWNSTREAM_",
    "%UPSTREAM_",
    "%PROTOCOL%",
    "%[",
    "{{",
    "{http.",
    "{remote",
    "{client_ip}",
];

/// Warns of a variable in the value of a header. The warning does not show the value, which may be a secret.
pub(crate) fn no_variables(check: &mut Check<'_>, value: &[u8], place: Option<Place>) {
    let value = String::from_utf8_lossy(value);
    if let Some(sign) = VARIABLES.iter().find(|sign| value.contains(**sign)) {
        let message = format!("`{sign}` is sent as it is: headers have no variables");
        check.warn(Problem::new(place, message).without_line().note(
            "write the text itself, or ${NAME} for a variable of the environment; the gateway sends the client's address in X-Forwarded-For",
        ));
    }
}

/// Warns of a wildcard or an expression in a value that requests must have.
pub(crate) fn no_wildcard(check: &mut Check<'_>, value: &str, place: Option<Place>) {
    // `*/*` and `text/*` are values of Accept.
    let is_wildcard = value == "*" || (value.ends_with('*') && !value.contains(['/', ' ']));
    if is_wildcard || value.contains(".*") {
        let problem = Problem::new(place, "`*` is compared letter by letter").without_line();
        check.warn(
            problem.note("no wildcards or expressions are known here: write the whole value"),
        );
    }
}
