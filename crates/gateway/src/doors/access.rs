//! Access to the listener for decisions. `/v1/ask` has rules of its own, because its `Authorization` is the client's.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::header::{AUTHORIZATION, ORIGIN};
use http::{HeaderMap, StatusCode};
use tidegate_identity::api_keys;

use crate::request::credentials;
use crate::request::problem::Problem;

/// Checks the token of a call. Refuses calls of web pages: a page must not use up the budgets of others.
pub(super) fn check(token: Option<&[u8; 32]>, headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(ORIGIN) {
        return Err(NOT_FOR_PAGES);
    }
    let Some(token) = token else {
        return Ok(());
    };
    if !headers.contains_key(AUTHORIZATION) {
        return Err(TOKEN_NEEDED);
    }
    let shown = credentials::authorization(headers).and_then(credentials::bearer);
    let sha256 = api_keys::hash(shown.ok_or(TOKEN_WRONG)?);
    // Both hashes are compared in constant time, so that the time reveals no token.
    verify_slices_are_equal(&sha256, token).map_err(|_| TOKEN_WRONG)
}

const NOT_FOR_PAGES: Problem = Problem::new(
    StatusCode::FORBIDDEN,
    "not_for_pages",
    "This listener answers programs, and no web pages.",
);
const CHALLENGE: &str = "Bearer realm=\"tidegate decisions\"";
const TOKEN_NEEDED: Problem = Problem::new(
    StatusCode::UNAUTHORIZED,
    "decisions_token_needed",
    "A call needs the token of `decisions`, in the header Authorization: Bearer TOKEN.",
)
.challenge(CHALLENGE);
const TOKEN_WRONG: Problem = Problem::new(
    StatusCode::UNAUTHORIZED,
    "decisions_token_wrong",
    "This is not the token of `decisions`.",
)
.challenge(CHALLENGE);
