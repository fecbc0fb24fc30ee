//! The iteration over the keys of all servers, in bounded steps.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::super::error::CallError;
use super::super::failure::Failure;
use super::Shards;

/// The position of an iteration over keys: a part of the keys, and a position in this part. The text form is `PART-POSITION`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The index of the part: of a server, or of a shard of a table.
    pub part: usize,
    /// The position in the part. 0 is its beginning.
    pub at: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.part, self.at)
    }
}

/// The error for a text that is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor has the form PART-POSITION, with two numbers")]
pub struct BadCursor;

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (part, at) = text.split_once('-').ok_or(BadCursor)?;
        Ok(Self {
            part: part.parse().map_err(|_| BadCursor)?,
            at: at.parse().map_err(|_| BadCursor)?,
        })
    }
}

/// A step of an iteration over keys.
#[derive(Debug)]
pub struct ScanStep {
    /// The keys that match. A key may come twice in an iteration.
    pub keys: Vec<String>,
    /// The position of the next step. `None` at the end.
    pub next: Option<Cursor>,
}

impl Shards {
    /// Returns the keys that match `pattern` among the next keys. Redis examines about `count` keys (`SCAN`). Each server has `patience`
    /// to answer.
    ///
    /// # Errors
    ///
    /// The server does not answer in time, or its ACL forbids `SCAN`.
    pub async fn scan(
        &self,
        from: Cursor,
        pattern: &str,
        count: u64,
        patience: Duration,
    ) -> Result<ScanStep, CallError> {
        let mut servers = self.all()?;
        servers.sort_by(|(one, _), (other, _)| one.cmp(other));
        let Some((_, server)) = servers.get(from.part) else {
            return Ok(ScanStep {
                keys: Vec::new(),
                next: None,
            });
        };
        let scan = server.client.scan(from.at, pattern, count, patience);
        let (at, keys) = scan.await.map_err(Failure::into_error)?;
        let next = match at {
            0 => Cursor {
                part: from.part + 1,
                at: 0,
            },
            at => Cursor { at, ..from },
        };
        Ok(ScanStep {
            keys,
            next: Some(next).filter(|next| next.part < servers.len()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_written() {
        for cursor in [
            Cursor::default(),
            Cursor {
                part: 3,
                at: u64::MAX,
            },
        ] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "a-1",
            "1-18446744073709551616",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(BadCursor), "{text}");
        }
    }
}
