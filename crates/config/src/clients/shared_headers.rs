//! Client sources that read the same header. A source that rejects unknown credentials also rejects the credentials of the other sources.

use crate::yaml::{Problem, Spanned};
use tidegate_identity::ClientSource;

use crate::check::Check;
use crate::clients::WrittenSource;

/// Warns of the first source that rejects credentials, if another source reads the same header. The order of the two sources does not
/// matter.
pub(crate) fn shared_headers(
    check: &mut Check<'_>,
    written: &[Spanned<WrittenSource>],
    sources: &[ClientSource],
) {
    let rejecting = written.iter().zip(sources).find_map(|(written, source)| {
        let header = source.header().filter(|_| source.rejects())?;
        let same = sources.iter().filter(|it| it.header() == Some(header));
        (same.count() > 1).then_some((written, header))
    });
    let Some((Spanned { value, place }, header)) = rejecting else {
        return;
    };
    let (key, token) = (value.api_key.as_ref(), value.jwt.as_ref());
    let unknown = key.and_then(|key| Some(key.unknown.as_ref()?.place));
    let invalid = token.and_then(|token| Some(token.invalid.as_ref()?.place));
    let place = unknown.or(invalid).unwrap_or(*place);
    let message = format!("this also rejects the credentials of another source of `{header}`");
    check.warn(Problem::new(place, message).note(
        "each source sees all credentials of its header: give each source a header of its own, or write `fall_through`",
    ));
}
