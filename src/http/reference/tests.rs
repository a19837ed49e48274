//! The page, compared with the description that it is made from.

use serde_json::{Value, json};

use super::*;

#[test]
fn every_operation_parameter_status_and_schema_is_on_the_page() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    for (path, item) in fields(&document["paths"]) {
        for (method, own) in fields(item).filter(|(name, _)| *name != "parameters") {
            let listed = format!("<code>{} {path}</code></h3>", method.to_uppercase());
            let is_alike = own["summary"] == SAME_AS_GET;
            assert_ne!(PAGE.contains(&listed), is_alike, "{method} {path}");
        }
    }
    for (name, _) in fields(&document["components"]["schemas"]) {
        assert!(PAGE.contains(&format!("<h3 id=\"schema-{name}\">")), "{name}");
    }
    assert!(
        PAGE.contains("POST, PUT are answered alike")
            || PAGE.contains("PATCH, POST, PUT are answered alike")
    );
}

#[test]
fn every_link_leads_somewhere_on_the_page() {
    let links = PAGE.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut count = 0;
    for link in links {
        count += 1;
        assert!(PAGE.contains(&format!("id=\"{link}\"")), "{link}");
    }
    assert!(count > 100, "{count}");
}

#[test]
fn nothing_comes_from_elsewhere_and_nothing_runs() {
    for foreign in ["<script", "src=", "http://", "https://", "url(", "@import"] {
        assert!(!PAGE.contains(foreign), "{foreign}");
    }
}

#[test]
fn schemas_are_told_in_words() {
    let words = |schema: Value| schema::in_words(&schema);
    assert_eq!(
        words(json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 2})),
        "integer from 1 to 9 (2 if absent)"
    );
    assert_eq!(
        words(json!({"type": ["string", "null"], "maxLength": 3})),
        "string or null, up to 3 characters"
    );
    assert_eq!(
        words(json!({"$ref": "#/components/schemas/Tag"})),
        "<a href=\"#schema-Tag\">Tag</a>"
    );
    assert_eq!(prose(&json!("a `<b>` c")), "a <code>&lt;b&gt;</code> c");
}
