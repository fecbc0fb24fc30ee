//! Counts the headers of a head in one pass. One pass is cheaper than a lookup of each header: a lookup takes about the time in which a
//! pass counts six headers.

use http::header::{CONNECTION, CONTENT_LENGTH, FORWARDED, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The most elements of each header in [`LISTS`]. A request has at most 100 headers (`MAX_HEADERS` of the gateway), so a list with more
/// elements is useless. A head with a longer list is refused, because the gateway searches the headers for each element.
const MAX_ELEMENTS: usize = 100;

/// The headers whose list elements are counted.
static LISTS: [HeaderName; 3] = [CONNECTION, TE, UPGRADE];

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The counts of the head of a request or of an answer.
#[derive(Debug, Default)]
pub struct HeadCount<'a> {
    /// The total length of all names and values, in bytes.
    pub bytes: usize,
    /// The header `Host`.
    pub host: HeaderLines<'a>,
    /// The header `Content-Length`.
    pub content_length: HeaderLines<'a>,
    /// The header `Transfer-Encoding`.
    pub transfer_encoding: HeaderLines<'a>,
    /// Whether there is `X-Forwarded-For`.
    pub has_x_forwarded_for: bool,
    /// Whether there is `Forwarded`.
    pub has_forwarded: bool,
    /// The number of elements of each header in [`LISTS`].
    elements: [usize; LISTS.len()],
}

/// The lines of one header.
#[derive(Debug, Default)]
pub struct HeaderLines<'a> {
    /// The value of the first line.
    pub first: Option<&'a HeaderValue>,
    /// The number of lines.
    pub count: usize,
}

impl<'a> HeadCount<'a> {
    /// Counts the headers of a head.
    pub fn of(headers: &'a HeaderMap) -> Self {
        let mut head = Self::default();
        for (name, value) in headers {
            head.bytes += name.as_str().len() + value.len();
            if *name == HOST {
                head.host.add(value);
            } else if *name == CONTENT_LENGTH {
                head.content_length.add(value);
            } else if *name == TRANSFER_ENCODING {
                head.transfer_encoding.add(value);
            } else if let Some(list) = LISTS.iter().position(|list| list == name) {
                head.elements[list] += 1 + count_commas(value.as_bytes());
            } else if *name == X_FORWARDED_FOR {
                head.has_x_forwarded_for = true;
            } else if *name == FORWARDED {
                head.has_forwarded = true;
            }
        }
        head
    }

    /// Whether any of the headers whose elements are counted has too many elements.
    pub fn has_long_list(&self) -> bool {
        self.elements.iter().any(|count| *count > MAX_ELEMENTS)
    }
}

impl<'a> HeaderLines<'a> {
    fn add(&mut self, value: &'a HeaderValue) {
        self.first.get_or_insert(value);
        self.count += 1;
    }

    /// Returns the value of the header, if the header has exactly one line.
    pub fn only(&self) -> Option<&'a HeaderValue> {
        self.first.filter(|_| self.count == 1)
    }
}

fn count_commas(line: &[u8]) -> usize {
    line.iter().filter(|byte| **byte == b',').count()
}
