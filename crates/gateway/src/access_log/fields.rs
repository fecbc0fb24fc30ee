//! The names of the fields of a line, for the test of the documents.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use http::{HeaderValue, Request};
use tracing::span::{Attributes, Id, Record as Values};
use tracing::{Event, Metadata, Subscriber};

use super::Record;
use crate::request_id::RequestId;

/// Notes the fields of events, those without a value included.
#[derive(Clone, Default)]
struct Fields(Arc<Mutex<Vec<&'static str>>>);

impl Subscriber for Fields {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Values<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let names = event.metadata().fields().iter().map(|field| field.name());
        self.0.lock().unwrap().extend(names);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

pub(crate) fn names() -> Vec<&'static str> {
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let id = RequestId(HeaderValue::from_static("id"));
    let record = Record::new(&Request::new(()), &id, None, peer, peer);
    let fields = Fields::default();
    tracing::subscriber::with_default(fields.clone(), || record.write());
    let names = fields.0.lock().unwrap();
    names.clone()
}
