//! The text forms of keys.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Key, Limit};

/// The limits of an iteration, by their IDs.
pub(crate) struct LimitIds<'l>(HashMap<&'l str, &'l Arc<Limit>>);

impl<'l> LimitIds<'l> {
    pub(crate) fn of(limits: &'l [Arc<Limit>]) -> Self {
        Self(limits.iter().map(|limit| (limit.id(), limit)).collect())
    }

    /// Reads a Redis key (`Charge::redis_key`), also a key of holds or of a block. `None` for keys of other limits.
    pub(crate) fn read(&self, prefix: &str, key: &str) -> Option<(Arc<Limit>, Key)> {
        let rest = key.strip_prefix(prefix)?.strip_prefix(":{")?;
        let (tag, id) = rest.split_once("}:")?;
        let id = [":held", ":block", ":counted"]
            .iter()
            .find_map(|ending| id.strip_suffix(ending))
            .unwrap_or(id);
        let of = |id: &str, rest| {
            let key = Key {
                tag: bytes(tag)?,
                rest,
            };
            Some(((*self.0.get(id)?).clone(), key))
        };
        of(id, [0; 16]).or_else(|| {
            let (id, rest) = id.rsplit_once(':')?;
            of(id, bytes(rest)?)
        })
    }
}

impl Key {
    /// Returns the text form of the key: 32 hexadecimal digits for the client, and with other values a colon and 32 more.
    pub fn text(&self) -> String {
        let hex = |bytes: [u8; 16]| format!("{:032x}", u128::from_be_bytes(bytes));
        match self.rest == [0; 16] {
            true => hex(self.tag),
            false => format!("{}:{}", hex(self.tag), hex(self.rest)),
        }
    }

    /// Reads the text form of a key. `None` for another text.
    pub fn read(text: &str) -> Option<Self> {
        let (tag, rest) = match text.split_once(':') {
            Some((tag, rest)) => (tag, bytes(rest)?),
            None => (text, [0; 16]),
        };
        Some(Self {
            tag: bytes(tag)?,
            rest,
        })
    }
}

/// Reads 32 hexadecimal digits.
fn bytes(text: &str) -> Option<[u8; 16]> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let key = |tag, rest| Key {
            tag: [tag; 16],
            rest: [rest; 16],
        };
        for key in [key(0, 0), key(1, 0), key(255, 7)] {
            assert_eq!(Key::read(&key.text()), Some(key));
        }
        for text in [
            "",
            ":",
            "12",
            &"g".repeat(32),
            &"+".repeat(32),
            &"1".repeat(33),
        ] {
            assert_eq!(Key::read(text), None, "{text}");
        }
    }
}
