//! Reads the data of events in an event stream that arrives in parts (`text/event-stream`, by the rules of the HTML standard).

use memchr::memchr2;

/// The only field that is read.
const DATA: &[u8] = b"data";
/// The byte order mark that may begin the stream.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A piece of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// More data of an event.
    Data(&'a [u8]),
    /// The event has ended.
    End,
}

/// A reader of events. It stores no line.
#[derive(Debug)]
pub(crate) struct Events {
    place: Place,
    /// Whether the last byte was a carriage return. A line feed after it belongs to the same line end.
    is_return: bool,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// At the beginning of the stream. Holds the number of bytes of the byte order mark that were read.
    Mark(usize),
    /// In the name of a field. Holds the number of bytes that match `data`.
    Name(usize),
    /// After the colon. One space may follow.
    Colon,
    Data,
    /// In another field, or in a comment.
    Other,
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self {
            place: Place::Mark(0),
            is_return: false,
        }
    }

    /// Reads the next part of the stream.
    pub(crate) fn read(&mut self, part: &[u8], mut sink: impl FnMut(Piece<'_>)) {
        let mut rest = part;
        while let Some((&byte, after)) = rest.split_first() {
            if std::mem::take(&mut self.is_return) && byte == b'\n' {
                rest = after;
                continue;
            }
            if let Place::Data | Place::Other = self.place {
                let end = memchr2(b'\r', b'\n', rest);
                let (line, next) = rest.split_at(end.unwrap_or(rest.len()));
                if let Place::Data = self.place
                    && !line.is_empty()
                {
                    sink(Piece::Data(line));
                }
                rest = next;
                let Some((&byte, after)) = rest.split_first() else {
                    return;
                };
                self.end_line(byte, &mut sink);
                rest = after;
                continue;
            }
            if let b'\r' | b'\n' = byte {
                self.end_line(byte, &mut sink);
                rest = after;
                continue;
            }
            self.place = match (self.place, byte) {
                (Place::Mark(at), _) if BYTE_ORDER_MARK.get(at) == Some(&byte) => {
                    Place::Mark(at + 1)
                }
                // The stream has no byte order mark, or the mark is complete.
                (Place::Mark(0 | 3), _) => {
                    self.place = Place::Name(0);
                    continue;
                }
                (Place::Name(4), b':') => Place::Colon,
                (Place::Name(at), _) if DATA.get(at) == Some(&byte) => Place::Name(at + 1),
                (Place::Colon, b' ') => Place::Data,
                (Place::Colon, _) => {
                    self.place = Place::Data;
                    continue;
                }
                _ => Place::Other,
            };
            rest = after;
        }
    }

    /// Ends a line. `byte` is the line end.
    fn end_line(&mut self, byte: u8, sink: &mut impl FnMut(Piece<'_>)) {
        match self.place {
            Place::Mark(0 | 3) | Place::Name(0) => sink(Piece::End),
            // The data lines of an event are joined by line feeds.
            Place::Data => sink(Piece::Data(b"\n")),
            _ => {}
        }
        self.place = Place::Name(0);
        self.is_return = byte == b'\r';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of each event that has some, whatever the parts in which it comes.
    fn data(text: &str) -> Vec<String> {
        let read = |parts: &mut dyn Iterator<Item = &[u8]>| {
            let (mut events, mut all) = (Events::new(), vec![Vec::new()]);
            for part in parts {
                events.read(part, |piece| match piece {
                    Piece::Data(data) => all.last_mut().unwrap().extend(data),
                    Piece::End => all.push(Vec::new()),
                });
            }
            all
        };
        let whole = read(&mut std::iter::once(text.as_bytes()));
        assert_eq!(whole, read(&mut text.as_bytes().chunks(1)), "{text:?}");
        let full = whole.into_iter().filter(|data| !data.is_empty());
        full.map(|data| String::from_utf8(data).unwrap()).collect()
    }

    #[test]
    fn only_data_is_read_and_lines_of_an_event_are_one_text() {
        for (text, expected) in [
            ("data: 1\n\ndata: 2\n\n", &["1\n", "2\n"][..]),
            ("data: 1\r\n\r\ndata: 2\r\n\r\n", &["1\n", "2\n"]),
            ("data: 1\r\rdata: 2\r\r", &["1\n", "2\n"]),
            ("data:1\ndata:  2\n\n", &["1\n 2\n"]),
            (
                "data: 1\r\ndata: 2\r\n\r\ndata: 3\r\n\r\n",
                &["1\n2\n", "3\n"],
            ),
            ("data: 1\rdata: 2\r\r", &["1\n2\n"]),
            ("event: x\nid: 7\ndata: 1\nretry: 9\n\n", &["1\n"]),
            (": data: 0\ndata: 1\n: ping\n\n", &["1\n"]),
            ("dat: 0\ndatax: 0\nData: 0\n data: 0\ndata\ndata:\n\n", &[]),
            ("\u{feff}data: 1\n\n\u{feff}data: 2\n\n", &["1\n"]),
            ("data: 1", &["1"]),
            ("\n\n\r\n\r\n", &[]),
            ("", &[]),
        ] {
            assert_eq!(data(text), expected, "{text:?}");
        }
    }
}
