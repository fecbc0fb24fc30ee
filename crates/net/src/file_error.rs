//! Reasons why a file could not be read, as texts for logs and messages.

use std::io::ErrorKind;

/// Returns the text that follows "cannot be read:".
pub fn reason(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::NotFound => "there is no such file".into(),
        ErrorKind::PermissionDenied => "this user has no permission".into(),
        ErrorKind::IsADirectory => "it is a directory".into(),
        ErrorKind::NotADirectory => "a part of the path is not a directory".into(),
        ErrorKind::Unsupported => "it is not a regular file".into(),
        other => other.to_string(),
    }
}
