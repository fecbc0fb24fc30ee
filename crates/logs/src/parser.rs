//! Reads single lines.

use std::sync::Arc;

use crate::entry::Entry;
use crate::error::LineError;
use crate::field::Fields;
use crate::format::Format;
use crate::lines::json::Objects;
use crate::lines::{alb, clf, cloudfront, envoy, haproxy, json, pairs, template};
use crate::names::{Names, Vocabulary};
use crate::record::Record;
use crate::time::{TimeReader, number};

/// Reads lines of one format.
#[derive(Debug)]
pub struct Parser {
    lines: Lines,
    /// The names of the line; of a map the first are those of the line itself, which has all headers.
    objects: Objects,
    times: TimeReader,
    record: Record,
    /// The fields that lines can have, and could have before: a log may change, and its lines may say more and more.
    fields: Vec<Arc<Fields>>,
    /// Which of these lines can have now.
    version: u16,
    /// How many names were seen when this was found out.
    named: usize,
}

/// The most lists of fields of one log. Of a log that changes more often, nothing is known to be in its lines.
const MAX_VERSIONS: usize = 256;

#[derive(Debug)]
enum Lines {
    Json { of_tidegate: bool },
    Text,
    Clf { combined: bool },
    Traefik,
    Envoy,
    Haproxy,
    Alb,
    CloudFront(cloudfront::Columns),
    Template(template::Template),
}

/// What a line is.
#[derive(Debug)]
pub enum Line<'a> {
    /// A request.
    Request(Entry<'a>),
    /// None, by the format: a comment, or another line of tidegate's log.
    Other,
    /// So many requests are missing here, as the log itself says.
    Lost(u64),
}

/// The same, with the values in the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Other,
    Lost(u64),
}

impl Parser {
    /// Reads lines of this format.
    pub fn new(format: &Format) -> Self {
        Self::asked(format, &[])
    }

    /// The same, with places for these request headers, whatever others lines have.
    pub(crate) fn asked(format: &Format, asked: &[String]) -> Self {
        let mut names = Names::new(match format {
            Format::TidegateJson | Format::TidegateText => Vocabulary::Tidegate,
            Format::NginxJson => Vocabulary::Nginx,
            Format::TraefikJson => Vocabulary::Traefik,
            _ => Vocabulary::Listed,
        });
        let headers: &[&str] = match format {
            Format::Combined | Format::Traefik => &clf::HEADERS,
            Format::Envoy => &envoy::HEADERS,
            Format::Alb => &alb::HEADERS,
            _ => &[],
        };
        headers.iter().for_each(|name| {
            names.header(name);
        });
        if let Format::NginxJson | Format::TraefikJson = format {
            asked.iter().for_each(|name| _ = names.header(name));
        }
        let mut objects = Objects::new();
        let lines = match format {
            Format::TidegateJson => Lines::Json { of_tidegate: true },
            Format::NginxJson | Format::TraefikJson => Lines::Json { of_tidegate: false },
            Format::TidegateText => Lines::Text,
            Format::Common => Lines::Clf { combined: false },
            Format::Combined => Lines::Clf { combined: true },
            Format::Traefik => Lines::Traefik,
            Format::Envoy => Lines::Envoy,
            Format::Haproxy => Lines::Haproxy,
            Format::Alb => Lines::Alb,
            Format::CloudFront => Lines::CloudFront(cloudfront::Columns::new(&mut names)),
            // Texts that are wrong make no format.
            Format::Map(text) => {
                objects = crate::map::compile(text).unwrap_or_default();
                Lines::Json { of_tidegate: false }
            }
            Format::Template(text) => match template::compile(text) {
                Ok((template, listed)) => {
                    names = listed;
                    Lines::Template(template)
                }
                Err(_) => Lines::Clf { combined: true },
            },
        };
        if objects.is_empty() {
            objects.push(names);
        }
        Self {
            lines,
            objects,
            times: TimeReader::default(),
            record: Record::EMPTY,
            fields: vec![Arc::new(format.fields())],
            version: 0,
            named: 0,
        }
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    ///
    /// The line is not one of this format.
    pub fn line<'a>(&'a mut self, line: &'a [u8]) -> Result<Line<'a>, LineError> {
        Ok(match self.read(line)? {
            Kind::Request => Line::Request(self.entry(line)),
            Kind::Other => Line::Other,
            Kind::Lost(count) => Line::Lost(count),
        })
    }

    /// Reads a line into the record.
    pub(crate) fn read(&mut self, line: &[u8]) -> Result<Kind, LineError> {
        let Self {
            lines,
            objects,
            times,
            record,
            ..
        } = self;
        *record = Record::EMPTY;
        let Some(names) = objects.first_mut() else {
            return Ok(Kind::Other);
        };
        let kind = match lines {
            Lines::Json { of_tidegate } => {
                let seen = json::read(line, objects, record, times)?;
                let lost = seen.lost.and_then(|span| number(span.bytes(line)));
                match lost {
                    Some(lost) if *of_tidegate => Kind::Lost(lost),
                    _ if *of_tidegate && seen.target.bytes(line) != b"access" => Kind::Other,
                    _ => Kind::Request,
                }
            }
            Lines::Text => match pairs::read(line, names, record, times)? {
                pairs::Kind::Request => Kind::Request,
                pairs::Kind::Other => Kind::Other,
                pairs::Kind::Lost(count) => Kind::Lost(count),
            },
            Lines::Clf { combined } => {
                clf::read(line, *combined, record, times)?;
                clf::lost(line, record).map_or(Kind::Request, Kind::Lost)
            }
            Lines::Traefik => clf::traefik(line, record, times).map(|()| Kind::Request)?,
            Lines::Envoy => envoy::read(line, record, times).map(|()| Kind::Request)?,
            Lines::Haproxy => haproxy::read(line, record, times).map(|()| Kind::Request)?,
            Lines::Alb => alb::read(line, record, times).map(|()| Kind::Request)?,
            Lines::CloudFront(columns) => match columns.read(line, names, record, times)? {
                cloudfront::Kind::Request => Kind::Request,
                cloudfront::Kind::Comment => Kind::Other,
                cloudfront::Kind::Columns => {
                    let fields = columns.fields(names);
                    self.change_fields(fields);
                    return Ok(Kind::Other);
                }
            },
            Lines::Template(template) => {
                template.read(line, record, times).map(|()| Kind::Request)?
            }
        };
        if kind == Kind::Request {
            let finished = record.finish();
            finished.map_err(|what| LineError { column: 1, what })?;
            self.note_fields();
            self.record.version = self.version;
        }
        Ok(kind)
    }

    /// Notes which fields the line has, if its format does not say it.
    fn note_fields(&mut self) {
        let mut fields;
        match self.lines {
            // A line has no member for what it lacks. Names of other lines say nothing.
            Lines::Json { of_tidegate: true } | Lines::Text => {
                let seen = self.record.seen();
                if self.fields().includes(seen) {
                    return;
                }
                fields = self.fields().clone();
                fields.add_all(seen);
            }
            // A member without a value is one that the log has.
            Lines::Json { .. } => {
                let named = self.objects.iter().map(Names::count).sum();
                if self.named == named {
                    return;
                }
                self.named = named;
                fields = self.fields().clone();
                let headers = self.objects.first().map_or(&[][..], Names::headers);
                for names in &self.objects {
                    names.fields(&mut fields, headers);
                }
            }
            _ => return,
        }
        self.change_fields(fields);
    }

    /// From this line on, lines can have these fields.
    fn change_fields(&mut self, fields: Fields) {
        let is_full = self.fields.len() >= MAX_VERSIONS;
        let fields = if is_full { Fields::default() } else { fields };
        let known = self.fields.iter().position(|known| **known == fields);
        let version = known.unwrap_or(self.fields.len());
        if known.is_none() {
            self.fields.push(Arc::new(fields));
        }
        self.version = version as u16;
    }

    /// The request that was read last, of this line.
    pub(crate) fn entry<'a>(&'a self, line: &'a [u8]) -> Entry<'a> {
        self.entry_of(line, &self.record)
    }

    /// A request that was read before.
    pub(crate) fn entry_of<'a>(&'a self, line: &'a [u8], record: &'a Record) -> Entry<'a> {
        Entry {
            line,
            record,
            fields: self.fields_of(record.version),
            headers: self.objects.first().map_or(&[], Names::headers),
        }
    }

    /// The fields that lines can have, as far as the format and the lines so far say.
    pub fn fields(&self) -> &Fields {
        self.fields_of(self.version)
    }

    fn fields_of(&self, version: u16) -> &Fields {
        &self.fields[usize::from(version)]
    }

    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }

    /// Begins with the first line again. It can have all that lines had so far, unless the log says when that changes.
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
