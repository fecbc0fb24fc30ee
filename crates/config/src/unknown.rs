//! Finds all unknown keys of a file. Reading a text as a [`File`](crate::file::File) reports the first mistake only, so this module
//! searches for the other unknown keys.

use crate::yaml::{Keys, Place, Problem, Source};
use serde_json::Value;

use crate::hints;

/// Returns `first`, the mistake at which reading stopped. If it is an unknown key, adds all other unknown keys. `schema` has the allowed
/// keys.
pub(crate) fn beside(first: Problem, source: &Source<'_>, schema: &Value) -> Vec<Problem> {
    let mut problems = unknown_keys(source, schema);
    let start = |problem: &Problem| problem.place.map(|place| (place.line, place.column));
    let all = problems.len();
    problems.retain(|problem| start(problem) != start(&first));
    // If `first` is not an unknown key, `first` is reported alone. For example, `first` may be a wrong indentation that makes correct keys
    // unknown.
    if problems.len() == all {
        return vec![first];
    }
    problems.push(first);
    problems
}

/// Returns all unknown keys, or none if the text is not YAML.
fn unknown_keys(source: &Source<'_>, schema: &Value) -> Vec<Problem> {
    let Ok(keys) = crate::yaml::read::<Keys>(source, |_, _| None) else {
        return Vec::new();
    };
    let mut walk = Walk {
        schema,
        source,
        unknown: Vec::new(),
    };
    walk.check(&keys, &[schema]);
    walk.unknown
}

/// A search for keys that the schema does not have.
struct Walk<'a> {
    schema: &'a Value,
    source: &'a Source<'a>,
    unknown: Vec<Problem>,
}

impl<'a> Walk<'a> {
    /// Adds to `unknown` each key in `keys` that no schema in `schemas` allows.
    fn check(&mut self, keys: &Keys, schemas: &[&'a Value]) {
        let mut all = Vec::new();
        for schema in schemas {
            self.resolve(schema, &mut all);
        }
        match keys {
            Keys::Single | Keys::Nothing => {}
            Keys::List(elements) => {
                let items: Vec<_> = all.iter().filter_map(|it| it.get("items")).collect();
                for element in elements {
                    self.check(element, &items);
                }
            }
            Keys::Map(entries) => {
                let named = all.iter().filter_map(|it| it.get("additionalProperties"));
                let named: Vec<_> = named.filter(|it| it.is_object()).collect();
                let properties = all
                    .iter()
                    .filter_map(|it| it.get("properties")?.as_object());
                let properties: Vec<_> = properties.collect();
                for (key, value) in entries {
                    let own = properties.iter().filter_map(|it| it.get(&key.value));
                    let mut fitting: Vec<_> = own.collect();
                    fitting.extend(&named);
                    // If no schema allows a map here, the mistake is the map itself, and its keys are not reported.
                    if fitting.is_empty() && !properties.is_empty() {
                        let allowed = properties.iter().flat_map(|it| it.keys());
                        let allowed: Vec<_> = allowed.map(String::as_str).collect();
                        self.add(&key.value, key.place, &allowed);
                    }
                    self.check(value, &fitting);
                }
            }
        }
    }

    /// Adds to `all` a schema, its alternatives, and the schemas that it refers to.
    fn resolve(&self, schema: &'a Value, all: &mut Vec<&'a Value>) {
        let name = schema.get("$ref").and_then(Value::as_str);
        let definition = name.and_then(|name| self.schema.pointer(name.strip_prefix('#')?));
        if let Some(definition) = definition {
            self.resolve(definition, all);
        }
        let alternatives = schema.get("anyOf").and_then(Value::as_array);
        for alternative in alternatives.into_iter().flatten() {
            self.resolve(alternative, all);
        }
        all.push(schema);
    }

    fn add(&mut self, key: &str, place: Option<Place>, allowed: &[&str]) {
        let problem = crate::yaml::unknown_key(place, key, allowed, self.source);
        self.unknown.push(match hints::unknown_key(key, allowed) {
            Some(note) => problem.meaning(note),
            None => problem,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the places of all unknown keys.
    fn unknown(text: &str) -> Vec<(usize, usize)> {
        let source = Source::new("gateway.yaml", text);
        let problems = unknown_keys(&source, &crate::schema());
        let places = problems.iter().filter_map(|problem| problem.place);
        places.map(|place| (place.line, place.column)).collect()
    }

    #[test]
    fn the_keys_of_the_reference_are_known() {
        let text = include_str!("../../../gateway.yaml");
        assert_eq!(unknown(text), []);
    }

    #[test]
    fn names_and_keys_in_the_place_of_a_value_are_no_unknown_keys() {
        for text in [
            "limits: { any-name: { token_bucket: { capacity: 1, refill: 1/s } } }",
            "listen: [127.0.0.1:80, { address: 127.0.0.1:81 }]",
            "max_connections: { a: 1 }",
            "routes: { a: 1 }",
            "1: 2\n- 3",
        ] {
            assert_eq!(unknown(text), [], "{text}");
        }
    }

    #[test]
    fn unknown_keys_are_found_at_every_depth() {
        let text =
            "lisen: 1\nadmin: { tokne: a }\nroutes:\n- path: /\n  x: &a { y: 1 }\n- { z: *a }\n";
        assert_eq!(unknown(text), [(1, 1), (2, 10), (5, 3), (6, 5)]);
    }
}
