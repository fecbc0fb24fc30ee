//! Reads single lines.

use std::sync::Arc;

use crate::entry::Entry;
use crate::error::LineError;
use crate::field::{Field, Fields};
use crate::format::Format;
use crate::lines::clf::Clf;
use crate::lines::json::Objects;
use crate::lines::{alb, clf, cloudfront, envoy, haproxy, json, pairs, template};
use crate::names::{Names, Vocabulary};
use crate::record::{Kind, Record, Values};
use crate::time::number;

/// A parser of lines of one format.
#[derive(Debug)]
pub struct Parser {
    lines: Lines,
    /// The names in each object of a line. The first object is the line itself, and has the names of all headers.
    objects: Objects,
    values: Values,
    /// The lists of fields that lines can have, the current list and earlier lists. Later lines of a log may add fields.
    fields: Vec<Arc<Fields>>,
    /// The index in `fields` of the current list.
    version: u16,
    /// The number of names in `objects` when `fields` was last updated.
    named: usize,
}

/// The most different lists of fields of one log. After a further list, the lines that follow count as lines without fields.
const MAX_VERSIONS: usize = 256;

#[derive(Debug)]
enum Lines {
    Json(Json),
    Text,
    Clf(Clf),
    /// A format whose lines always have the same form.
    Fixed(fn(&[u8], &mut Values) -> Result<(), LineError>),
    CloudFront(cloudfront::Columns),
    Template(template::Template),
}

/// The program that writes lines of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Json {
    Tidegate,
    Caddy,
    Other,
}

/// The kind of a line, and its content.
#[derive(Debug)]
pub enum Line<'a> {
    /// A request.
    Request(Entry<'a>),
    /// A decision of tidegate for another program that named limits and no request: by `/v1/check` or by Envoy's `RateLimitService`.
    Question,
    /// A line that is no request by its format: a comment, or a line of tidegate that is not in its access log.
    Other,
    /// The number of requests that the log reports as lost here.
    Lost(u64),
}

impl Parser {
    /// Makes a parser for lines of this format.
    pub fn new(format: &Format) -> Self {
        Self::with_headers(format, &[])
    }

    /// Makes a parser that registers these request headers first in JSON formats, so that other headers cannot use up `MAX_HEADERS`.
    pub(crate) fn with_headers(format: &Format, headers: &[String]) -> Self {
        let mut objects = vec![Names::new(match format {
            Format::TidegateJson | Format::TidegateText => Vocabulary::Tidegate,
            Format::NginxJson => Vocabulary::Nginx,
            Format::TraefikJson => Vocabulary::Traefik,
            Format::Caddy => Vocabulary::Caddy,
            _ => Vocabulary::Listed,
        })];
        let names = &mut objects[0];
        for name in format.headers() {
            names.header(name);
        }
        if let Format::NginxJson | Format::TraefikJson | Format::Caddy = format {
            headers.iter().for_each(|name| _ = names.header(name));
        }
        let lines = match format {
            Format::TidegateJson => Lines::Json(Json::Tidegate),
            Format::NginxJson | Format::TraefikJson => Lines::Json(Json::Other),
            Format::Caddy => {
                let headers = names.of_headers();
                objects.extend([Names::new(Vocabulary::CaddyRequest), headers]);
                Lines::Json(Json::Caddy)
            }
            Format::TidegateText => Lines::Text,
            Format::Common => Lines::Clf(Clf::Common),
            Format::Combined => Lines::Clf(Clf::Combined),
            Format::VhostCombined => Lines::Clf(Clf::Vhost),
            Format::NginxMain => Lines::Clf(Clf::NginxMain),
            Format::CombinedTimed => Lines::Clf(Clf::Timed),
            Format::IngressNginx => Lines::Clf(Clf::IngressNginx),
            Format::Traefik => Lines::Fixed(clf::traefik),
            Format::Envoy => Lines::Fixed(envoy::read),
            Format::Haproxy => Lines::Fixed(haproxy::read),
            Format::Alb => Lines::Fixed(alb::read),
            Format::CloudFront => Lines::CloudFront(cloudfront::Columns::new(names)),
            // If the text does not compile, all values are skipped.
            Format::Map(text) => {
                if let Ok(mapped) = crate::map::compile(text) {
                    objects = mapped;
                }
                Lines::Json(Json::Other)
            }
            Format::Template(text) => match template::compile(text) {
                Ok((template, listed)) => {
                    objects = vec![listed];
                    Lines::Template(template)
                }
                Err(_) => Lines::Clf(Clf::Combined),
            },
        };
        Self {
            lines,
            objects,
            values: Values::default(),
            fields: vec![Arc::new(format.fields())],
            version: 0,
            named: 0,
        }
    }

    /// Reads a line. `line` has no line feed.
    ///
    /// # Errors
    ///
    /// The line does not have this format.
    pub fn line<'a>(&'a mut self, line: &'a [u8]) -> Result<Line<'a>, LineError> {
        Ok(match self.read(line)? {
            Kind::Request => Line::Request(self.entry(line, self.record())),
            Kind::Question => Line::Question,
            Kind::Other => Line::Other,
            Kind::Lost(count) => Line::Lost(count),
        })
    }

    /// Reads a line into the record.
    pub(crate) fn read(&mut self, line: &[u8]) -> Result<Kind, LineError> {
        let Self {
            lines,
            objects,
            values,
            ..
        } = self;
        values.record = Record::default();
        let Some(names) = objects.first_mut() else {
            return Ok(Kind::Other);
        };
        let kind = match lines {
            Lines::Json(by) => {
                let seen = json::read(line, objects, values)?;
                let lost = seen.lost.and_then(|span| number(span.bytes(line)));
                let log = seen.target.bytes(line);
                match (by, lost) {
                    (Json::Tidegate, Some(lost)) => Kind::Lost(lost),
                    (Json::Tidegate, None) if log != b"access" => Kind::Other,
                    // Caddy writes a second line for a request that failed. This line must not count as another request.
                    (Json::Caddy, _) if !is_access_of_caddy(log, &values.record) => Kind::Other,
                    _ => Kind::Request,
                }
            }
            Lines::Text => pairs::read(line, names, values)?,
            Lines::Clf(form) => {
                clf::read(line, *form, values)?;
                clf::lost(line, &values.record).map_or(Kind::Request, Kind::Lost)
            }
            Lines::Fixed(read) => read(line, values).map(|()| Kind::Request)?,
            Lines::CloudFront(columns) => {
                if columns.rename(line, names) {
                    let fields = columns.fields(names);
                    self.change_fields(fields);
                    return Ok(Kind::Other);
                }
                columns.read(line, values)?
            }
            Lines::Template(template) => template.read(line, values).map(|()| Kind::Request)?,
        };
        if kind == Kind::Request {
            let finished = values.record.finish();
            finished.map_err(|what| LineError::at(0, what))?;
            if is_question(line, &self.values.record) {
                return Ok(Kind::Question);
            }
            self.note_fields();
            self.values.record.version = self.version;
        }
        Ok(kind)
    }

    /// Adds the fields of this line, if its format does not define them.
    fn note_fields(&mut self) {
        let mut fields;
        match self.lines {
            // Lines omit fields without a value. A known name alone does not show that requests have a field: the name may come from a line
            // that is no request.
            Lines::Json(Json::Tidegate) | Lines::Text | Lines::Clf(Clf::NginxMain | Clf::Timed) => {
                let seen = self.values.record.seen();
                if self.fields().includes(seen) {
                    return;
                }
                fields = self.fields().clone();
                fields.add_all(seen);
            }
            // A known name shows that the log has a field, even if the member has no value.
            Lines::Json(_) => {
                let named = self.objects.iter().map(Names::count).sum();
                if self.named == named {
                    return;
                }
                self.named = named;
                fields = self.fields().clone();
                Names::add_fields(&self.objects, &mut fields);
            }
            _ => return,
        }
        self.change_fields(fields);
    }

    /// Sets the fields that lines can have, from this line on.
    fn change_fields(&mut self, fields: Fields) {
        let is_full = self.fields.len() >= MAX_VERSIONS;
        let fields = if is_full { Fields::default() } else { fields };
        let place = self.fields.iter().position(|other| **other == fields);
        let version = place.unwrap_or(self.fields.len());
        if place.is_none() {
            self.fields.push(Arc::new(fields));
        }
        self.version = version as u16;
    }

    /// Returns a request that was read from this line.
    pub(crate) fn entry<'a>(&'a self, line: &'a [u8], record: &'a Record) -> Entry<'a> {
        Entry {
            line,
            record,
            fields: self.fields_of(record.version),
            headers: self.objects.first().map_or(&[], Names::headers),
        }
    }

    /// Returns the fields that lines can have, by the format and the lines so far.
    pub fn fields(&self) -> &Fields {
        self.fields_of(self.version)
    }

    fn fields_of(&self, version: u16) -> &Fields {
        &self.fields[usize::from(version)]
    }

    pub(crate) const fn record(&self) -> &Record {
        &self.values.record
    }

    /// Begins again with the first line, and keeps the fields found so far. For a CloudFront log, resets the fields, because the first
    /// lines name them again.
    pub(crate) fn rewind(&mut self) {
        let fields = match (&mut self.lines, self.objects.first_mut()) {
            (Lines::CloudFront(columns), Some(names)) => {
                *columns = cloudfront::Columns::new(names);
                Arc::new(columns.fields(names))
            }
            _ => self.fields[usize::from(self.version)].clone(),
        };
        self.fields = vec![fields];
        self.version = 0;
    }
}

/// Whether a line of tidegate is about a question that describes no request. The method and the path of such a line belong to the call that
/// asked. A line with the door `ask` has the values of the request that a proxy asked about.
fn is_question(line: &[u8], record: &Record) -> bool {
    let door = record.texts[Field::Door as usize].bytes(line);
    matches!(door, b"check" | b"rate_limit_service")
}

/// Whether a line of Caddy belongs to an access log.
fn is_access_of_caddy(logger: &[u8], record: &Record) -> bool {
    let is_request = record.texts[Field::Method as usize] != Default::default();
    is_request && (logger.is_empty() || logger.starts_with(b"http.log.access"))
}
