//! The map of a crate: the Markdown table in the documentation of its `lib.rs`.

/// First line of the table.
const HEADER: &str = "| module | what it is |";

/// One row: modules that know as much as each other.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) modules: Vec<String>,
}

/// The rows, from the module that knows least to the one that knows most.
pub(crate) fn parse(root: &str) -> Vec<Row> {
    let documentation = root.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
    let table = documentation.skip_while(|line| *line != HEADER).skip(2);
    table.take_while(|line| line.starts_with('|')).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [modules, _] = cells[..] else { panic!("two cells, please: {line}") };
    Row { modules: quoted(modules) }
}

/// Every word between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn a_row_is_read_with_its_links() {
    let rows =
        parse("//! | module | what it is |\n//! | --- | --- |\n//! | [`a`], `b` | Rules |\n//!\n");
    assert_eq!((rows.len(), &rows[0].modules[..]), (1, &["a".to_owned(), "b".to_owned()][..]));
}
