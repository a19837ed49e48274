//! A page in Chinese says what the English one says: it has the same blocks, as many headings, and leads to the same
//! pages.

use std::collections::BTreeSet;

use super::markdown::Document;
use super::{documents, none};

const ENDING: &str = ".zh-CN.md";

/// The page that a translation stands for.
pub(super) fn original_of(document: &Document) -> Option<Document> {
    let name = document.path.file_name()?.to_str()?.strip_suffix(ENDING)?;
    Some(Document::read(document.path.with_file_name(format!("{name}.md"))))
}

#[test]
fn a_translation_has_the_commands_the_headings_and_the_links_of_its_original() {
    let mut complaints = Vec::new();
    let mut translations = 0;
    for document in documents() {
        let Some(original) = original_of(&document) else { continue };
        translations += 1;
        let mut complain = |what: &str| complaints.push(format!("{}: {what}", document.name()));
        if document.blocks != original.blocks {
            complain("its blocks are others");
        }
        if document.anchors.len() != original.anchors.len() {
            complain("it has more headings or fewer");
        }
        for target in pages(&document).symmetric_difference(&pages(&original)) {
            complain(&format!("one of the two does not lead to {target}"));
        }
        let back = (first_link(&document), first_link(&original));
        if back != (file_name(&original), file_name(&document)) {
            complain("one of the two does not begin with a link to the other");
        }
    }
    none(&complaints);
    assert!(translations > 0);
}

/// The pages that a document leads to, each by its English name, without those of the document itself.
fn pages(document: &Document) -> BTreeSet<String> {
    let own = file_name(document).replace(ENDING, ".md");
    let page = |target: &String| target.split('#').next().unwrap().replace(ENDING, ".md");
    let targets = document.links.iter().map(|(_, target)| page(target));
    targets.filter(|page| !page.is_empty() && *page != own).collect()
}

fn first_link(document: &Document) -> String {
    document.links.first().map(|(_, target)| target.clone()).unwrap_or_default()
}

fn file_name(document: &Document) -> String {
    document.path.file_name().unwrap().to_string_lossy().into_owned()
}
