//! As much of JSON Schema as `results.schema.json` uses (draft 2020-12).

use serde_json::Value;

/// The parts of `value` that are not as `schema` requires, each with its place.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, schema, value, "", &mut faults);
    faults
}

const KNOWN: [&str; 13] = [
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "enum",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
];

fn check(root: &Value, schema: &Value, value: &Value, place: &str, faults: &mut Vec<String>) {
    let Some(rules) = schema.as_object() else { return };
    for rule in rules.keys() {
        assert!(KNOWN.contains(&rule.as_str()), "this check does not know {rule}");
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("a reference has a target");
        check(root, target, value, place, faults);
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        faults.push(format!("{place}: {value} is none of {allowed:?}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|kind| is(value, kind)) {
        faults.push(format!("{place}: {value} is no {types:?}"));
        return;
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                faults.push(format!("{place}: {name} is missing"));
            }
        }
        for (name, value) in object {
            let place = format!("{place}/{name}");
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => faults.push(format!("{place}: not in the schema")),
                (Value::Null, other) => check(root, other, value, &place, faults),
                (known, _) => check(root, known, value, &place, faults),
            }
        }
    }
    if let Some(array) = value.as_array() {
        let count = array.len() as u64;
        let (least, most) = (schema["minItems"].as_u64(), schema["maxItems"].as_u64());
        if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
            faults.push(format!("{place}: {count} items"));
        }
        for (index, value) in array.iter().enumerate() {
            check(root, &schema["items"], value, &format!("{place}/{index}"), faults);
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}
