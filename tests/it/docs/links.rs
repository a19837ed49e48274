//! Relative links lead somewhere, and links into the code to what they say.

use std::fs;

use super::markdown::Document;
use super::{documents, none};

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let mut complaints = Vec::new();
    for document in documents() {
        for (text, target) in &document.links {
            if let Some(fault) = fault(&document, text, target) {
                complaints.push(format!("{}: [{text}]({target}): {fault}", document.name()));
            }
        }
    }
    none(&complaints);
}

fn fault(document: &Document, text: &str, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => document.path.clone(),
        path => document.path.parent()?.join(path),
    };
    if !path.exists() {
        return Some("there is no such file".to_owned());
    }
    if !anchor.is_empty()
        && !Document::read(path.clone()).anchors.iter().any(|known| known == anchor)
    {
        return Some("there is no such heading".to_owned());
    }
    // `[`Slot::take_some`](slot.rs)` names what stands in that file.
    let name = text.strip_prefix('`')?.strip_suffix('`')?.rsplit("::").next()?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_code = path.extension().is_some_and(|extension| extension == "rs");
    if is_code && is_name && !fs::read_to_string(path).unwrap().contains(name) {
        return Some(format!("nothing there is called {name}"));
    }
    None
}
