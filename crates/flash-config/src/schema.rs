//! The JSON Schema of the file, for editors.

use serde_json::{Map, Value, json};

use crate::{Key, Keys, Kind, Named, Stands};

/// A key that names a place.
const PLACE_NAME: &str = "^(/.|\\*.|= */)";

/// The schema of all keys, as JSON. It says less than the parser: an editor does not know what a flag's value means.
pub fn schema(keys: &Keys) -> String {
    let standing = |stands| {
        let here: Vec<&Key> = keys.iter().filter(|key| key.stands >= stands).collect();
        let mut properties = properties(here.iter().copied());
        for key in here.into_iter().filter(|key| key.may_be_taken_back()) {
            for name in [&key.name].into_iter().chain(&key.aliases) {
                let one = properties[name].take();
                let description = one["description"].clone();
                properties[name] = json!({ "anyOf": [one, { "const": false }], "description": description });
            }
        }
        properties
    };
    let mut of_site = standing(Stands::Site);
    let place = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": standing(Stands::Place),
    });
    let names = or_list(json!({ "type": "string", "minLength": 1 }));
    of_site.insert("names".into(), names);
    let site = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["root"],
        "properties": of_site,
        "patternProperties": { PLACE_NAME: place },
    });
    let mut properties = properties(keys.iter());
    properties.insert("include".into(), or_list(json!({ "type": "string", "minLength": 1 })));
    let places = json!({
        "type": "object",
        "additionalProperties": false,
        "patternProperties": { PLACE_NAME: place },
    });
    properties.insert("place".into(), places);
    properties.insert("site".into(), json!({ "type": "object", "additionalProperties": site }));
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of the Flash web server",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    format!("{schema:#}\n")
}

fn properties<'k>(keys: impl Iterator<Item = &'k Key>) -> Map<String, Value> {
    let names = |key: &'k Key| [&key.name].into_iter().chain(&key.aliases);
    keys.flat_map(|key| names(key).map(|name| (name.clone(), property(key)))).collect()
}

fn property(key: &Key) -> Value {
    let one = form(&key.kind);
    let mut property = if key.takes_list() { or_list(one) } else { one };
    property["description"] = key.help.clone().into();
    if let Some(default) = &key.default {
        let number = default.parse::<u64>().ok().filter(|_| key.kind == Kind::Number);
        property["default"] = number.map_or_else(|| default.clone().into(), Value::from);
    }
    property
}

fn form(kind: &Kind) -> Value {
    match kind {
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::SwitchOr { words, names } => {
            let file = json!({ "type": "string", "minLength": 1 });
            let files: Map<String, Value> = names.iter().map(|name| (name.clone(), file.clone())).collect();
            let table = json!({
                "type": "object",
                "additionalProperties": false,
                "required": names,
                "properties": files,
            });
            json!({ "anyOf": [
                { "type": "boolean" },
                { "enum": words },
                table,
                { "type": "array", "items": table },
            ] })
        }
        Kind::Names(names) => json!({ "anyOf": [{ "const": "off" }, table(names)] }),
        Kind::Tables(names) => json!({ "type": "object", "additionalProperties": table(names) }),
        Kind::SecretFile => secret(&["file", "credential"]),
        Kind::Number => json!({ "type": "integer", "minimum": 0 }),
        Kind::Bytes => json!({ "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^[0-9]+(B|[Kk]|KB|KiB|[Mm]|MB|MiB|[Gg]|GB|GiB)?$" },
        ] }),
        Kind::Duration => json!({ "anyOf": [
            { "const": 0 },
            { "type": "string", "pattern": "^(0|[0-9]+(ms|s|m|min|h|d))$" },
        ] }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Log | Kind::ErrorLog | Kind::Address => json!({ "type": "string" }),
        Kind::Text => {
            json!({ "anyOf": [{ "type": "string" }, secret(&["env", "file", "credential"])] })
        }
        Kind::Folder | Kind::File | Kind::FileOrOff => json!({ "type": "string", "minLength": 1 }),
        Kind::FileOrLines => json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "items": { "type": "string" } },
        ] }),
        Kind::Redirect => json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["to"],
                "properties": { "to": { "type": "string" }, "status": { "enum": [301, 302, 303, 307, 308] } },
            },
        ] }),
        Kind::Table { value, is_list, .. } => {
            let one = form(value);
            let value = if *is_list { or_list(one) } else { one };
            json!({ "type": "object", "additionalProperties": value })
        }
    }
}

fn table(names: &[Named]) -> Value {
    let one = |named: &Named| match (&named.kind, named.is_list) {
        // A list of names is enough where none has anything to say.
        (Kind::Tables(_), _) => {
            let text = or_list(json!({ "type": "string", "minLength": 1 }));
            json!({ "anyOf": [form(&named.kind), text] })
        }
        (Kind::Names(names), _) => table(names),
        (kind, true) => or_list(form(kind)),
        (kind, false) => form(kind),
    };
    let properties: Map<String, Value> = names.iter().map(|named| (named.name.into(), one(named))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn secret(names: &[&str]) -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let properties: Map<String, Value> = names.iter().map(|name| ((*name).into(), text.clone())).collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": properties,
    })
}

fn or_list(one: Value) -> Value {
    json!({ "anyOf": [one, { "type": "array", "items": one }] })
}
