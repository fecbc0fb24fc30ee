//! Reads query parameters that describe the request to check: `route`, `client` and `per`.

use tidegate_doors::Check;

/// The reason why a query is no check: the `error` of the problem details, and a text.
pub(crate) type BadQuery = (&'static str, String);

/// Adds a parameter that names a value of a request: `route`, `client` or `per`. Returns false for other parameters.
pub(crate) fn add_value(check: &mut Check, name: &str, value: &str) -> Result<bool, BadQuery> {
    let is_new = match name {
        "route" => check.route.replace(value.into()).is_none(),
        "client" => check.client.replace(value.into()).is_none(),
        "per" => {
            let pair = value.split_once('=');
            let (part, value) = pair.ok_or_else(|| bad("`per` has the form PART=VALUE"))?;
            check.per.insert(part.into(), value.into()).is_none()
        }
        _ => return Ok(false),
    };
    once(is_new).map(|()| true)
}

/// Refuses a parameter that is there twice.
pub(crate) fn once(is_new: bool) -> Result<(), BadQuery> {
    match is_new {
        true => Ok(()),
        false => Err(bad("a parameter is there twice")),
    }
}

pub(crate) fn bad(why: &str) -> BadQuery {
    ("bad_check", why.to_owned())
}
