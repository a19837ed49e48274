//! Schemas in words: a type, its bounds, and the fields of an object.

use serde_json::Value;

use super::words::{fields, members, prose, text};
use crate::http::pages::escape;

/// Longest pattern that a person can make use of.
const PATTERN_CHARS_MAX: usize = 40;

/// What a value of this schema is, in a few words.
pub(super) fn in_words(schema: &Value) -> String {
    if let Some(name) = text(&schema["$ref"]).rsplit('/').next().filter(|name| !name.is_empty()) {
        let name = escape(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>{}", default(schema));
    }
    let choices = members(&schema["oneOf"]);
    if !choices.is_empty() {
        return choices.iter().map(one_choice).collect::<Vec<_>>().join(" or ");
    }
    if let Some(value) = schema.get("const") {
        return format!("<code>{}</code>", escape(&value.to_string()));
    }
    let values: Vec<String> = members(&schema["enum"])
        .iter()
        .map(|value| format!("<code>{}</code>", escape(text(value))))
        .collect();
    if !values.is_empty() {
        return values.join(" or ") + &default(schema);
    }
    let name = match &schema["type"] {
        Value::Array(types) => types.iter().map(text).collect::<Vec<_>>().join(" or "),
        one => text(one).to_owned(),
    };
    let items = match schema.get("items") {
        Some(items) => format!(" of {}", in_words(items)),
        None => String::new(),
    };
    [name, items, bounds(schema), default(schema)].concat()
}

/// One of several schemas: an object with its fields, because nothing else distinguishes it from the others.
fn one_choice(schema: &Value) -> String {
    let own = fields(&schema["properties"])
        .map(|(name, field)| format!("<code>{}</code> {}", escape(name), in_words(field)));
    let own = own.collect::<Vec<_>>().join(", ");
    if own.is_empty() { in_words(schema) } else { format!("({own})") }
}

fn bounds(schema: &Value) -> String {
    let mut bounds = String::new();
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(low), Some(high)) => bounds += &format!(" from {low} to {high}"),
        (Some(low), None) => bounds += &format!(" of {low} or more"),
        _ => {}
    }
    if let Some(most) = schema.get("maxLength") {
        bounds += &format!(", up to {most} characters");
    }
    if let Some(most) = schema.get("maxItems") {
        bounds += &format!(", up to {most}");
    }
    let format = text(&schema["format"]);
    if !format.is_empty() {
        bounds += &format!(", {format}");
    }
    let pattern = text(&schema["pattern"]);
    if (1..=PATTERN_CHARS_MAX).contains(&pattern.len()) {
        bounds += &format!(", <code>{}</code>", escape(pattern));
    }
    bounds
}

fn default(schema: &Value) -> String {
    match schema.get("default") {
        Some(value) => format!(" ({} if absent)", escape(&value.to_string())),
        None => String::new(),
    }
}

/// Writes a named schema: what it is, what it means, and its fields.
pub(super) fn write(out: &mut String, schema: &Value) {
    *out += &format!("<p>{}. {}</p>\n", in_words(schema), prose(&schema["description"]));
    write_fields(out, schema);
}

/// Writes the fields of an object, if it is one.
pub(super) fn write_fields(out: &mut String, schema: &Value) {
    let needed = members(&schema["required"]);
    let mut rows = fields(&schema["properties"]).peekable();
    if rows.peek().is_none() {
        return;
    }
    out.push_str("<div><table>\n");
    for (name, field) in rows {
        let is_needed = needed.iter().any(|needed| needed == name);
        *out += &format!(
            "<tr><th><code>{}</code></th><td>{}{}</td><td>{}</td></tr>\n",
            escape(name),
            in_words(field),
            if is_needed { "" } else { ", may be absent" },
            prose(&field["description"]),
        );
        let items = &field["items"];
        if items.get("properties").is_some() {
            out.push_str("<tr><td></td><td colspan=\"2\">");
            write_fields(out, items);
            out.push_str("</td></tr>\n");
        }
    }
    out.push_str("</table></div>\n");
}
