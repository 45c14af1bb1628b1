//! The JSON Schema of a manifest, for editors, printed from `keys`.

use serde_json::{Map, Value as Json, json};

use super::keys::{Bounds, Entries, Key, Kind, NameRule, Need, ROOT, Table};

/// Qualified, and an instance of a template.
const ENTRY: &str = "^(::)?[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*(<.+>)?$";

const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// JSON Schema, draft 2020-12. It knows names, types and ranges; what needs more than one value
/// (expressions, cycles, what excludes what) only `Manifest::parse` knows.
pub fn json_schema() -> Json {
    let mut schema = Map::new();
    schema.insert(
        "$schema".into(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".into(), json!("kiln manifest"));
    schema.extend(table_schema(&ROOT));
    Json::Object(schema)
}

fn table_schema(table: &Table) -> Map<String, Json> {
    let mut schema = object(json!({ "type": "object", "description": table.doc }));
    let properties: Map<String, Json> = table
        .keys
        .iter()
        .map(|key| (key.name.to_string(), Json::Object(key_schema(key))))
        .collect();
    let required: Vec<&str> = table
        .keys
        .iter()
        .filter(|k| k.need == Need::Always)
        .map(|k| k.name)
        .collect();
    let either: Vec<Json> = table
        .keys
        .iter()
        .filter_map(|k| match k.need {
            Need::Unless(other) => {
                Some(json!({ "anyOf": [{ "required": [k.name] }, { "required": [other] }] }))
            }
            Need::Always | Need::Never => None,
        })
        .collect();
    schema.insert("properties".into(), Json::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    if !either.is_empty() {
        schema.insert("allOf".into(), json!(either));
    }
    match &table.entries {
        None => schema.insert("additionalProperties".into(), json!(false)),
        Some(entries) => {
            schema.insert("propertyNames".into(), names_schema(entries));
            let entry = described(kinds_schema(entries.kinds), entries.doc);
            schema.insert("additionalProperties".into(), Json::Object(entry))
        }
    };
    schema
}

fn key_schema(key: &Key) -> Map<String, Json> {
    let mut schema = described(kinds_schema(key.kinds), key.doc);
    if key.need == Need::Always {
        return schema;
    }
    let default = key.default.and_then(|d| serde_json::from_str(d).ok());
    if let Some(default) = default {
        schema.insert("default".into(), default);
    }
    schema
}

/// The sentence of the key, unless the schema has one of its own (a table's).
fn described(mut schema: Map<String, Json>, doc: &str) -> Map<String, Json> {
    schema.entry("description").or_insert_with(|| json!(doc));
    schema
}

fn names_schema(entries: &Entries) -> Json {
    match entries.names {
        NameRule::Identifier | NameRule::Parameter => json!({ "pattern": IDENTIFIER }),
        NameRule::Label => json!({ "pattern": "^[A-Za-z0-9_-]+$" }),
    }
}

fn kinds_schema(kinds: &[Kind]) -> Map<String, Json> {
    match kinds {
        [one] => kind_schema(one),
        many => {
            let options: Vec<Json> = many
                .iter()
                .map(|kind| Json::Object(kind_schema(kind)))
                .collect();
            object(json!({ "anyOf": options }))
        }
    }
}

fn kind_schema(kind: &Kind) -> Map<String, Json> {
    object(match kind {
        Kind::Text | Kind::Expression => json!({ "type": "string", "minLength": 1 }),
        Kind::Path => json!({ "type": "string", "minLength": 1, "not": { "pattern": "^[/\\\\]" } }),
        Kind::Label => json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]+$" }),
        Kind::Entry => json!({ "type": "string", "pattern": ENTRY }),
        Kind::Function(example) => {
            let pattern = match example.contains(".cu:") {
                true => "^.+:(::)?[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*(<.+>)?$",
                false => "^.+:[A-Za-z_][A-Za-z0-9_]*$",
            };
            json!({ "type": "string", "pattern": pattern })
        }
        Kind::Word(words) => json!({ "enum": words }),
        Kind::Whole { least, most } => {
            let mut schema = object(json!({ "type": "integer" }));
            if *least != i64::MIN {
                schema.insert("minimum".into(), json!(least));
            }
            if *most != i64::MAX {
                schema.insert("maximum".into(), json!(most));
            }
            return schema;
        }
        Kind::Number(bounds) => return number_schema(bounds),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Scalar => json!({ "type": ["boolean", "integer", "number", "string"] }),
        Kind::List { items, least, most } => {
            let items = Json::Object(kinds_schema(items));
            let mut schema = object(json!({ "type": "array", "items": items }));
            if *least > 0 {
                schema.insert("minItems".into(), json!(least));
            }
            if *most != usize::MAX {
                schema.insert("maxItems".into(), json!(most));
            }
            return schema;
        }
        Kind::Table(table) => return table_schema(table),
    })
}

fn number_schema(bounds: &Bounds) -> Map<String, Json> {
    let mut schema = object(json!({ "type": "number" }));
    if bounds.low != f64::MIN {
        let word = match bounds.low_included {
            true => "minimum",
            false => "exclusiveMinimum",
        };
        schema.insert(word.into(), json!(bounds.low));
    }
    if bounds.high != f64::MAX {
        let word = match bounds.high_included {
            true => "maximum",
            false => "exclusiveMaximum",
        };
        schema.insert(word.into(), json!(bounds.high));
    }
    schema
}

fn object(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A validator for the part of JSON Schema used here, patterns aside.
    fn is_valid(schema: &Json, value: &Json) -> bool {
        let Some(schema) = schema.as_object() else {
            return schema.as_bool() == Some(true);
        };
        schema.iter().all(|(word, rule)| match word.as_str() {
            "type" => match rule {
                Json::Array(types) => types.iter().any(|t| has_type(t, value)),
                one => has_type(one, value),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "anyOf" => rule.as_array().unwrap().iter().any(|s| is_valid(s, value)),
            "allOf" => rule.as_array().unwrap().iter().all(|s| is_valid(s, value)),
            "minimum" => number(value).is_none_or(|x| x >= number(rule).unwrap()),
            "maximum" => number(value).is_none_or(|x| x <= number(rule).unwrap()),
            "exclusiveMinimum" => number(value).is_none_or(|x| x > number(rule).unwrap()),
            "exclusiveMaximum" => number(value).is_none_or(|x| x < number(rule).unwrap()),
            "minLength" => value.as_str().is_none_or(|s| !s.is_empty()),
            "minItems" => value
                .as_array()
                .is_none_or(|a| a.len() as f64 >= number(rule).unwrap()),
            "maxItems" => value
                .as_array()
                .is_none_or(|a| a.len() as f64 <= number(rule).unwrap()),
            "items" => value
                .as_array()
                .is_none_or(|a| a.iter().all(|item| is_valid(rule, item))),
            "required" => rule
                .as_array()
                .unwrap()
                .iter()
                .all(|key| value.get(key.as_str().unwrap()).is_some()),
            "properties" => rule
                .as_object()
                .unwrap()
                .iter()
                .all(|(key, schema)| value.get(key).is_none_or(|inner| is_valid(schema, inner))),
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                value.as_object().is_none_or(|entries| {
                    entries
                        .iter()
                        .all(|(key, inner)| known.contains_key(key) || is_valid(rule, inner))
                })
            }
            "$schema" | "title" | "description" | "default" | "pattern" | "propertyNames"
            | "not" => true,
            other => panic!("`{other}` is not known to this validator"),
        })
    }

    fn has_type(name: &Json, value: &Json) -> bool {
        match name.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64(),
            "number" => value.is_number(),
            other => panic!("type {other}"),
        }
    }

    fn number(value: &Json) -> Option<f64> {
        value.as_f64()
    }

    fn as_json(text: &str) -> Json {
        let table: toml::Table = toml::from_str(text).unwrap();
        serde_json::to_value(table).unwrap()
    }

    const EXAMPLES: [&str; 4] = [
        include_str!("tests/saxpy.toml"),
        include_str!("tests/matmul.toml"),
        include_str!("tests/attention.toml"),
        include_str!("tests/hopper.toml"),
    ];

    #[test]
    fn examples_are_valid() {
        let schema = json_schema();
        for example in EXAMPLES {
            assert!(is_valid(&schema, &as_json(example)), "{example}");
        }
    }

    #[test]
    fn mistakes_are_not() {
        let schema = json_schema();
        let refused = [
            ("/kernel/sorce", json!("a.c")),
            ("/kernal", json!({})),
            ("/kernel/entry", json!(7)),
            ("/shapes/target/N", json!(0)),
            ("/shapes/target/use", json!("train")),
            ("/arguments/x/dtype", json!("int")),
            ("/arguments/x/colour", json!("red")),
            ("/tunables/BLOCK", json!(4)),
            ("/measure", json!({ "precision": 1.0 })),
            ("/measure", json!({ "energy": "yes" })),
            ("/arguments/x", json!({ "shape": ["N"] })),
            ("/arguments/x", json!({ "tma": "y", "box": [] })),
            ("/gates", json!({ "occupancy": { "limit": 101 } })),
        ];
        for (path, value) in refused {
            let mut manifest = as_json(EXAMPLES[0]);
            let (parent, key) = path.rsplit_once('/').unwrap();
            let table = manifest.pointer_mut(parent).unwrap();
            table.as_object_mut().unwrap().insert(key.into(), value);
            assert!(!is_valid(&schema, &manifest), "{path}");
        }
        let mut manifest = as_json(EXAMPLES[0]);
        manifest["kernel"].as_object_mut().unwrap().remove("source");
        assert!(!is_valid(&schema, &manifest));
    }

    #[test]
    fn every_table_refuses_unknown_keys_or_describes_them() {
        fn visit(schema: &Json) {
            if schema["type"] == "object" {
                assert!(schema.get("additionalProperties").is_some());
                assert!(schema.get("description").is_some());
            }
            match schema {
                Json::Object(map) => map.values().for_each(visit),
                Json::Array(items) => items.iter().for_each(visit),
                _ => {}
            }
        }
        visit(&json_schema());
    }

    #[test]
    fn defaults_are_valid_values() {
        fn visit(table: &Table) {
            for key in table.keys {
                let schema = Json::Object(kinds_schema(key.kinds));
                if let Some(default) = key.default {
                    let value = serde_json::from_str(default).unwrap();
                    assert!(is_valid(&schema, &value), "{}", key.name);
                }
                for kind in key.kinds {
                    if let Kind::Table(inner) = kind {
                        visit(inner);
                    }
                }
            }
        }
        visit(&ROOT);
    }
}
