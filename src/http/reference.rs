//! `GET /openapi`: the description of the interface as a page for people.
//!
//! Made from `openapi.json` once, without scripts, and from nothing but this binary: it can be read without a network,
//! and saved. It reveals nothing of the cluster, so it is open to all.

mod schema;
mod words;

use std::fmt::Write;
use std::sync::LazyLock;

use axum::http::HeaderName;
use serde_json::Value;

use super::ops::OPENAPI;
use super::pages::{HTML_HEADERS, escape};
use words::{fields, members, prose, text};

/// The description's words for a method that Leaf treats as GET.
const SAME_AS_GET: &str = "The same as GET: Leaf looks at no method";

static PAGE: LazyLock<String> = LazyLock::new(|| {
    // A unit test reads the same bytes.
    let document = serde_json::from_str(OPENAPI).unwrap_or_default();
    Page { document: &document, out: String::new() }.whole()
});

/// The page.
pub(super) async fn page() -> ([(HeaderName, &'static str); 3], &'static str) {
    (HTML_HEADERS, &PAGE)
}

/// A page that is being written.
struct Page<'a> {
    document: &'a Value,
    out: String,
}

/// One method of one path.
struct Operation<'a> {
    method: String,
    path: &'a str,
    /// What all methods of the path share, and what this one adds.
    shared: &'a Value,
    own: &'a Value,
    /// Methods with the same answer.
    others: Vec<String>,
}

impl<'a> Page<'a> {
    fn whole(mut self) -> String {
        let info = &self.document["info"];
        self.push(format_args!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>Mintleaf: the interface</title><style>{STYLE}</style>\
             <h1>Mintleaf: the interface</h1><p>{}</p><p>For programs: <a href=\"/openapi.json\"><code>/openapi.json</code></a></p>\n",
            prose(&info["description"])
        ));
        let groups = members(&self.document["tags"]);
        for group in groups {
            self.contents(group);
        }
        for group in groups {
            self.push(format_args!("<h2>{}</h2>\n", prose(&group["description"])));
            for operation in self.operations(group) {
                self.operation(&operation);
            }
        }
        self.out.push_str("<h2>What is sent and answered</h2>\n");
        for (name, schema) in fields(&self.document["components"]["schemas"]) {
            self.push(format_args!("<h3 id=\"schema-{0}\">{0}</h3>\n", escape(name)));
            schema::write(&mut self.out, schema);
        }
        self.out.push_str("</html>\n");
        self.out
    }

    /// The operations of a group, by path.
    fn operations(&self, group: &Value) -> Vec<Operation<'a>> {
        let mut found = Vec::new();
        for (path, shared) in fields(&self.document["paths"]) {
            let methods = || fields(shared).filter(|(name, _)| *name != "parameters");
            let repeats = |own: &Value| own["summary"] == SAME_AS_GET;
            for (method, own) in methods().filter(|(_, own)| !repeats(own)) {
                let is_of_group = members(&own["tags"]).contains(&group["name"]);
                let others = methods().filter(|(_, other)| method == "get" && repeats(other));
                let others = others.map(|(method, _)| method.to_uppercase()).collect();
                let method = method.to_uppercase();
                if is_of_group {
                    found.push(Operation { method, path, shared, own, others });
                }
            }
        }
        found
    }

    fn contents(&mut self, group: &Value) {
        self.push(format_args!("<p>{}:", prose(&group["description"])));
        for Operation { method, path, own, .. } in self.operations(group) {
            let id = text(&own["operationId"]);
            self.push(format_args!(
                " <a href=\"#{id}\"><code>{method} {}</code></a>",
                escape(path)
            ));
        }
        self.out.push_str("</p>\n");
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        let Operation { method, path, shared, own, others } = operation;
        self.push(format_args!(
            "<h3 id=\"{}\"><code>{method} {}</code></h3><p><b>{}.</b> {}",
            text(&own["operationId"]),
            escape(path),
            prose(&own["summary"]),
            prose(&own["description"]),
        ));
        if !others.is_empty() {
            self.push(format_args!(" {} are answered alike.", others.join(", ")));
        }
        self.out.push_str("</p>\n");
        let parameters: Vec<&Value> =
            [*shared, *own].into_iter().flat_map(|at| members(&at["parameters"])).collect();
        if !parameters.is_empty() {
            self.out.push_str("<div><table>\n");
            parameters.into_iter().for_each(|parameter| self.parameter(parameter));
            self.out.push_str("</table></div>\n");
        }
        for (media_type, content) in fields(&own["requestBody"]["content"]) {
            self.push(format_args!("<p>Body, <code>{}</code>: ", escape(media_type)));
            self.out.push_str(&schema::in_words(&content["schema"]));
            self.out.push_str("</p>\n");
            schema::write_fields(&mut self.out, &content["schema"]);
        }
        self.out.push_str("<div><table>\n");
        for (status, answer) in fields(&own["responses"]) {
            self.answer(status, answer);
        }
        self.out.push_str("</table></div>\n");
    }

    fn parameter(&mut self, parameter: &Value) {
        let parameter = self.resolved(parameter);
        let needed = if parameter["required"] == true { ", needed" } else { "" };
        self.push(format_args!(
            "<tr><th><code>{}</code></th><td>{}{needed}</td><td>{}</td><td>{}</td></tr>\n",
            escape(text(&parameter["name"])),
            text(&parameter["in"]),
            schema::in_words(&parameter["schema"]),
            prose(&parameter["description"]),
        ));
    }

    fn answer(&mut self, status: &str, answer: &Value) {
        let answer = self.resolved(answer);
        self.push(format_args!(
            "<tr><th>{status}</th><td>{}</td><td>",
            prose(&answer["description"])
        ));
        for (at, (media_type, content)) in fields(&answer["content"]).enumerate() {
            let separator = if at == 0 { "" } else { "<br>" };
            let schema = schema::in_words(&content["schema"]);
            self.push(format_args!("{separator}<code>{}</code>: {schema}", escape(media_type)));
        }
        self.out.push_str("</td></tr>\n");
    }

    /// What a reference refers to; anything else is itself.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let target = value["$ref"].as_str().and_then(|at| self.document.pointer(at.get(1..)?));
        target.unwrap_or(value)
    }

    /// Appends text; writing to a `String` cannot fail.
    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(text);
    }
}

const STYLE: &str = "\
    :root{color-scheme:light dark}\
    body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:70rem;padding:0 1rem}\
    div{overflow-x:auto}\
    h3{margin-top:2.5rem}\
    code{font-size:.95em}\
    table{border-collapse:collapse}\
    th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884}\
    th{white-space:nowrap}";

#[cfg(test)]
mod tests;
