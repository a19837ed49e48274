//! Circles of imports.

use std::collections::{BTreeMap, BTreeSet};

/// One circle, as a path that ends where it began, for every file that is in any and in none of
/// those found before.
pub(crate) fn of(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut circles: Vec<Vec<String>> = Vec::new();
    for file in imports.keys() {
        if circles.iter().flatten().any(|seen| seen == file) {
            continue;
        }
        circles.extend(way_back(file, imports));
    }
    circles
}

/// The shortest way from a file over its imports back to itself.
fn way_back(start: &str, imports: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut ways = std::collections::VecDeque::from([vec![start.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in imports.get(way.last()?).into_iter().flatten() {
            let longer = [&way[..], std::slice::from_ref(next)].concat();
            if next == start {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[test]
fn a_circle_is_found_once_and_a_diamond_is_none() {
    let imports = |edges: &[(&str, &[&str])]| {
        let edge = |(from, to): &(&str, &[&str])| {
            ((*from).to_owned(), to.iter().map(|to| (*to).to_owned()).collect())
        };
        edges.iter().map(edge).collect::<BTreeMap<String, BTreeSet<String>>>()
    };
    assert!(of(&imports(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"])])).is_empty());
    let circles = of(&imports(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]));
    assert_eq!(circles, [["b", "c", "b"]]);
}
