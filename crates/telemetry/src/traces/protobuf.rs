//! Writes Protocol Buffers: the few kinds of fields that spans have.
//!
//! OTLP is a stable format of some dozen fields. A library for it brings a compiler of messages, or the SDK of OpenTelemetry.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn tag(&mut self, field: u32, kind: u32) {
        self.raw_varint(u64::from(field << 3 | kind));
    }

    fn raw_varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A whole number.
    pub(super) fn number(&mut self, field: u32, number: u64) {
        self.tag(field, 0);
        self.raw_varint(number);
    }

    /// A number of eight bytes.
    pub(super) fn fixed64(&mut self, field: u32, number: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A number of four bytes.
    pub(super) fn fixed32(&mut self, field: u32, number: u32) {
        self.tag(field, 5);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Bytes, or text.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.raw_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A message within this one.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Fields that were written before.
    pub(super) fn fields(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A field that was read, if its kind is one that answers of collectors have.
enum Content<'a> {
    Number(u64),
    /// A text or a message.
    Bytes(&'a [u8]),
    Other,
}

/// The first text or message of this field number.
pub(super) fn find(message: &[u8], field: u32) -> Option<&[u8]> {
    fields(message).find_map(|(number, content)| match content {
        Content::Bytes(bytes) if number == u64::from(field) => Some(bytes),
        _ => None,
    })
}

/// The first whole number of this field number.
pub(super) fn find_number(message: &[u8], field: u32) -> Option<u64> {
    fields(message).find_map(|(number, content)| match content {
        Content::Number(value) if number == u64::from(field) => Some(value),
        _ => None,
    })
}

/// The fields of a message with their numbers, up to the first that is not well-formed.
fn fields(message: &[u8]) -> impl Iterator<Item = (u64, Content<'_>)> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let tag = varint(&mut rest)?;
        let content = match tag & 7 {
            0 => Content::Number(varint(&mut rest)?),
            1 => {
                rest = rest.get(8..)?;
                Content::Other
            }
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (content, behind) = rest.split_at_checked(length)?;
                rest = behind;
                Content::Bytes(content)
            }
            5 => {
                rest = rest.get(4..)?;
                Content::Other
            }
            _ => return None,
        };
        Some((tag >> 3, content))
    })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_format_has_them() {
        let mut message = Message::default();
        message.number(1, 300);
        message.fixed64(2, 1);
        message.fixed32(3, 1);
        message.message(4, |inner| inner.bytes(5, b"ab"));
        let bytes = message.into_bytes();
        let expected = [
            &[0x08, 0xac, 0x02][..],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x1d, 1, 0, 0, 0],
            &[0x22, 4, 0x2a, 2, b'a', b'b'],
        ];
        assert_eq!(bytes, expected.concat());
        let inner = find(&bytes, 4).unwrap();
        assert_eq!(find(inner, 5), Some(&b"ab"[..]));
        assert_eq!(find(&bytes, 6), None);
        assert_eq!(find_number(&bytes, 1), Some(300));
        assert_eq!(find_number(&bytes, 4), None);
        for cut in 1..bytes.len() {
            // What breaks off is never read beyond its end.
            let _ = find(&bytes[..cut], 4);
        }
    }
}
