//! Leaf's pages for people, `/cache` and `/db`; and `/openapi`, which leads to the description of the interface.
//!
//! They are self-contained HTML without scripts. Every value is escaped, because a tag may be any
//! text.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use serde_json::Value;

use super::ops::OPENAPI;
use super::problem::Problem;
use crate::limits::{HTML_ROWS_MAX, PAGE_BYTES_MAX};
use crate::service::{Consistency, TagService};
use crate::text::timestamp::rfc3339;

/// The headers of a page without a script: a browser loads nothing for it, treats it as nothing else, and never shows
/// it in a frame of another page.
pub(super) const HTML_HEADERS: [(HeaderName, &str); 3] = [
    (CONTENT_TYPE, "text/html;charset=UTF-8"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

type Html = ([(HeaderName, &'static str); 3], String);

/// Leaf's `/cache`: what this node holds of each tag.
pub(super) async fn cache(State(service): State<Arc<TagService>>) -> Html {
    let buffers = service.buffers().await;
    let more = buffers.len() > HTML_ROWS_MAX;
    let columns =
        ["name", "init", "next", "pos", "value0", "max0", "step0", "value1", "max1", "step1"];
    let rows = buffers.iter().take(HTML_ROWS_MAX).map(|(name, view)| {
        let [first, second] = view.segments;
        [
            escape(name.as_str()),
            view.initialized.to_string(),
            view.next_ready.to_string(),
            view.position.to_string(),
            first.value.to_string(),
            first.max.to_string(),
            first.step.to_string(),
            second.value.to_string(),
            second.max.to_string(),
            second.step.to_string(),
        ]
    });
    html("cache", &table(columns, rows, more))
}

/// Leaf's `/db`: each tag's row, as far as this node has applied the log.
pub(super) async fn db(State(service): State<Arc<TagService>>) -> Result<Html, Problem> {
    let page = service.page("", None, HTML_ROWS_MAX, |_| true, Consistency::Stale).await?;
    let rows = page.rows.iter().map(|view| {
        let name = escape(view.tag.as_str());
        let shape =
            view.shape.as_deref().map(|shape| escape(&shape.to_string())).unwrap_or_default();
        let (max, step, description) =
            (view.max_id.to_string(), view.step.to_string(), escape(&view.description));
        [name, max, step, rfc3339(view.updated_at_ms), description, shape]
    });
    let columns = ["tag", "max", "step", "update", "description", "shape"];
    Ok(html("db", &table(columns, rows, page.next.is_some())))
}

/// `/openapi`: the interface at a glance, and where programs find it described. It reveals nothing of the cluster.
pub(super) async fn interface() -> Html {
    html("Interface", &INTERFACE)
}

/// What `/openapi` shows: first steps, and every path of the description with its summary.
static INTERFACE: LazyLock<String> = LazyLock::new(|| {
    let mut body = String::from(FIRST_STEPS);
    let document: Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    for part in document["tags"].as_array().into_iter().flatten() {
        let (name, about) = (text(&part["name"]), text(&part["description"]));
        push(&mut body, format_args!("<h2>{}</h2>\n<div><table class=\"paths\">", escape(about)));
        let paths = document["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            let operations = item.as_object().into_iter().flatten();
            operations.map(move |(method, operation)| (path, method, operation))
        });
        for (path, method, operation) in operations {
            let summary = text(&operation["summary"]);
            if operation["tags"][0] == name && !summary.starts_with("The same as ") {
                let (method, path) = (method.to_uppercase(), escape(path));
                let summary = escape(&summary.replace('`', ""));
                let row = format_args!(
                    "<tr><td>{method}</td><td><code>{path}</code></td><td>{summary}</td></tr>\n"
                );
                push(&mut body, row);
            }
        }
        body.push_str("</table></div>\n");
    }
    body
});

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const FIRST_STEPS: &str = "\
<pre><code># Make a tag, and take three ids of it\n\
curl -X POST http://localhost:8080/v1/tags -H 'Content-Type: application/json' -d '{\"tag\":\"orders\"}'\n\
# answers {\"tag\":\"orders\",\"max_id\":\"1\",\"step\":1000, and more\n\
curl 'http://localhost:8080/v1/segment/orders?count=3'\n\
# answers {\"tag\":\"orders\",\"ids\":[\"1\",\"2\",\"3\"]}\n\
# With an auth file\n\
curl -H \"Authorization: Bearer $TOKEN\" http://localhost:8080/v1/segment/orders\n\
# answers {\"tag\":\"orders\",\"ids\":[\"4\"]}\n\
# Types for TypeScript; most languages have a generator that reads the same file\n\
npx openapi-typescript http://localhost:8080/openapi.json -o mintleaf.d.ts</code></pre>\n\
<p><a href=\"/openapi.json\">/openapi.json</a> describes parameters, bodies and errors of these paths, for programs and \
viewers of OpenAPI 3.1.</p>\n";

/// A table of the first rows, up to [`PAGE_BYTES_MAX`]; `more` is true when there are others behind them.
fn table<const N: usize>(
    columns: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    mut more: bool,
) -> String {
    let mut shown = 0;
    let head = columns.map(|column| format!("<th>{column}</th>")).concat();
    let mut out = format!("<div><table><thead><tr>{head}</tr></thead><tbody>\n");
    for row in rows {
        let cells = row.map(|cell| format!("<td>{cell}</td>")).concat();
        if out.len() + cells.len() > PAGE_BYTES_MAX {
            more = true;
            break;
        }
        shown += 1;
        push(&mut out, format_args!("<tr>{cells}</tr>\n"));
    }
    out.push_str("</tbody></table></div>");
    if more {
        push(
            &mut out,
            format_args!("<p>The first {shown} tags. The <a href=\"/\">console</a> finds all.</p>"),
        );
    }
    out
}

fn html(title: &str, body: &str) -> Html {
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style>\
         <nav><a href=\"/\">Console</a> <a href=\"/cache\">/cache</a> <a href=\"/db\">/db</a> <a href=\"/openapi\">Interface</a></nav>\
         <h1>{title}</h1>\n{body}\n</html>\n"
    );
    (HTML_HEADERS, page)
}

const STYLE: &str = "\
    :root{color-scheme:light dark}\
    body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:70rem;padding:0 1rem}\
    nav a{margin-right:1rem}\
    a{color:#0b7d57;color:light-dark(#0b7d57,#5ad9a8)}\
    pre{padding:.8rem 1rem;border-radius:8px;background:#8882;white-space:pre-wrap;overflow-wrap:anywhere}\
    h2{font-size:1.1rem;margin:1.6rem 0 .3rem}\
    div{overflow-x:auto}\
    table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
    th,td{text-align:right;padding:.25rem .75rem;border-bottom:1px solid #8884;white-space:nowrap}\
    th:first-child,td:first-child{text-align:left}\
    td:first-child{white-space:pre}\
    th:nth-child(5):nth-last-child(2),th:nth-child(6):last-child,td:nth-child(5):nth-last-child(2),td:nth-child(6):last-child{text-align:left;white-space:pre}\
    .paths td{text-align:left;vertical-align:top}\
    .paths td:first-child{padding-left:0;min-width:4rem}\
    .paths td:last-child{white-space:normal;width:100%}\
    @media(max-width:40rem){.paths tr,.paths td:last-child{display:block}.paths tr{padding:.3rem 0;border-bottom:1px solid #8884}\
    .paths td{display:inline-block;border:0;padding:0;white-space:normal;overflow-wrap:anywhere}}";

/// Makes text safe between tags and in quoted attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
    out
}

/// Appends text; writing to a `String` cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_interface_names_every_path_of_its_description() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.len() > 20, "{}", paths.len());
        for path in paths.keys() {
            assert!(INTERFACE.contains(&format!("<code>{path}</code>")), "{path}");
        }
    }

    #[test]
    fn markup_in_tags_is_escaped() {
        assert_eq!(
            escape("<img src=x onerror='a(\"b\")'>&订"),
            "&lt;img src=x onerror=&#39;a(&quot;b&quot;)&#39;&gt;&amp;订"
        );
    }

    #[test]
    fn tables_say_when_rows_are_missing() {
        let row = ["a".to_owned(), "1".to_owned()];
        let whole = table(["tag", "max"], std::iter::once(row.clone()), false);
        assert!(whole.contains("<tr><td>a</td><td>1</td></tr>"), "{whole}");
        assert!(!whole.contains("The first"));
        assert!(table(["tag", "max"], std::iter::once(row), true).contains("first 1 tags"));
    }

    #[test]
    fn a_table_ends_where_it_would_grow_too_large() {
        let rows = std::iter::repeat_with(|| [escape(&"<".repeat(128))]);
        let page = table(["tag"], rows, false);
        assert!((PAGE_BYTES_MAX - 2_000..PAGE_BYTES_MAX + 2_000).contains(&page.len()));
        assert!(page.contains("<p>The first 4"), "{}", &page[page.len() - 200..]);
    }
}
