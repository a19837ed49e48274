//! The map of a crate: the Markdown table in the documentation of its `lib.rs`.

use std::collections::BTreeSet;

/// First line of the table.
const HEADER: &str = "| module | what it is | imports |";

/// One row: modules that know as much as each other.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) modules: Vec<String>,
    /// Whether the description begins with "Pure".
    pub(crate) is_pure: bool,
    /// The modules of the crate that these import; `None` where the map says "all above".
    pub(crate) imports: Option<BTreeSet<String>>,
}

/// The rows, from the module that knows least to the one that knows most.
pub(crate) fn parse(root: &str) -> Vec<Row> {
    let documentation = root.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
    let table = documentation.skip_while(|line| *line != HEADER).skip(2);
    table.take_while(|line| line.starts_with('|')).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [modules, what, imports] = cells[..] else { panic!("three cells, please: {line}") };
    Row {
        modules: quoted(modules),
        is_pure: what.starts_with("Pure"),
        imports: (imports != "all above").then(|| {
            let named = quoted(imports);
            assert!(
                imports == "nothing" || !named.is_empty(),
                "modules or `nothing`, please: {line}"
            );
            named.into_iter().collect()
        }),
    }
}

/// Every word between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn a_row_is_read_with_its_links() {
    let rows = parse(
        "//! | module | what it is | imports |\n//! | --- | --- | --- |\n//! | [`a`], `b` | Pure rules | `c`, `d` |\n//! | `e` | x | all above |\n//!\n",
    );
    assert_eq!(rows[0].modules, ["a", "b"]);
    assert!(rows[0].is_pure);
    assert_eq!(rows[0].imports, Some(BTreeSet::from(["c".to_owned(), "d".to_owned()])));
    assert_eq!((rows.len(), &rows[1].imports), (2, &None));
}
