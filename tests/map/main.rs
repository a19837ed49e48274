//! The maps in `src/lib.rs`, `raft/src/lib.rs`, `storage/src/lib.rs` and `clients/rust/src/lib.rs` are true.
//!
//! Each crate's map is a table of its modules, from the one that knows least to the one that knows
//! most, with what each imports. This test reads the sources with `syn` and compares. So a circle
//! of modules cannot arise unseen, a pure module stays pure, and a newcomer can trust the table.
//! Paths that documents and comments name must exist in the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod circles;
mod documents;
mod sources;
mod table;

use sources::{Crate, ROOT};
use table::Row;

/// Crates that a pure module may name: nothing that reads a clock, a disk or a socket. (Of `jiff` these modules take
/// the calendar and the time zones that are built in; of `ring` they take HMAC.)
const PURE_CRATES: [&str; 9] =
    ["std", "core", "alloc", "serde", "thiserror", "aes", "jiff", "ring", "siphasher"];
/// Parts of `std`, and of `ring`, that a pure module may not name.
const IMPURE_STD: [&str; 10] = [
    "rand",
    "fs",
    "net::Tcp",
    "net::Udp",
    "net::ToSocketAddrs",
    "thread",
    "process",
    "env",
    "time::Instant",
    "time::SystemTime",
];
/// Most lines of a source file that gives no reason for more in its head.
const FILE_LINES_MAX: usize = 400;
/// What introduces that reason.
const LONG_ON_PURPOSE: &str = "long on purpose";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn crates() -> [Crate; 4] {
    let directories = ["src", "raft/src", "storage/src", "clients/rust/src"];
    directories.map(|at| Crate::read(&repository().join(at)))
}

/// Fails with all complaints at once.
#[track_caller]
fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_module_has_one_row_of_the_map() {
    let mut complaints = Vec::new();
    for source in crates() {
        let mut mapped: Vec<_> = source.rows().into_iter().flat_map(|row| row.modules).collect();
        let mut declared: Vec<_> = source.top_modules();
        mapped.sort();
        declared.sort();
        if mapped != declared {
            complaints.push(format!("{source}: the map has {mapped:?}, the crate {declared:?}"));
        }
    }
    none(&complaints);
}

#[test]
fn modules_import_what_the_map_says_and_only_from_rows_above_theirs() {
    let mut complaints = Vec::new();
    for source in crates() {
        let mut below = BTreeSet::new();
        for Row { modules, imports, .. } in source.rows() {
            let mut imported = BTreeSet::new();
            for module in &modules {
                let used = source.imports_of(module);
                for upward in used.difference(&below) {
                    complaints.push(format!(
                        "{source}: {module} imports {upward}, which is not above it in the map"
                    ));
                }
                imported.extend(used);
            }
            if imports.as_ref().is_some_and(|mapped| *mapped != imported) {
                complaints.push(format!(
                    "{source}: {modules:?} imports {imported:?}; the map says {imports:?}"
                ));
            }
            below.extend(modules);
        }
    }
    none(&complaints);
}

#[test]
fn nothing_imports_from_the_root_of_its_crate() {
    let mut complaints = Vec::new();
    for source in crates() {
        for (file, imports) in source.files() {
            if file != ROOT && imports.contains(ROOT) {
                complaints.push(format!("{source}: {file} names an item of the crate's root"));
            }
        }
    }
    none(&complaints);
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut complaints = Vec::new();
    for source in crates() {
        for circle in circles::of(source.files()) {
            complaints.push(format!("{source}: {}", circle.join(" -> ")));
        }
    }
    none(&complaints);
}

#[test]
fn pure_modules_name_no_crate_that_could_do_anything() {
    let mut complaints = Vec::new();
    for source in crates() {
        let rows = source.rows();
        let pure: BTreeSet<_> =
            rows.iter().filter(|row| row.is_pure).flat_map(|row| row.modules.clone()).collect();
        for module in &pure {
            for foreign in source.foreign_crates_of(module) {
                let (name, item) = foreign.split_once("::").unwrap_or((&foreign, ""));
                if !PURE_CRATES.contains(&name)
                    || IMPURE_STD.iter().any(|part| item.starts_with(part))
                {
                    complaints
                        .push(format!("{source}: {module} is said to be pure and names {foreign}"));
                }
            }
            for impure in source.imports_of(module).difference(&pure) {
                complaints
                    .push(format!("{source}: {module} is said to be pure and imports {impure}"));
            }
        }
    }
    none(&complaints);
}

#[test]
fn paths_that_documents_name_exist() {
    none(&documents::missing_paths(repository()));
}

#[test]
fn a_long_file_says_why_it_is_long() {
    let mut complaints = Vec::new();
    for file in documents::files(repository(), &["rs"]) {
        let text = fs::read_to_string(repository().join(&file)).unwrap();
        let lines = text.lines().count();
        let head = text.lines().take_while(|line| line.starts_with("//!")).collect::<String>();
        if lines > FILE_LINES_MAX && !head.to_lowercase().contains(LONG_ON_PURPOSE) {
            complaints.push(format!(
                "{file}: {lines} lines, and no reason in its head ({LONG_ON_PURPOSE:?})"
            ));
        }
    }
    none(&complaints);
}

impl Crate {
    /// The rows of the map in this crate's `lib.rs`.
    fn rows(&self) -> Vec<Row> {
        let root = fs::read_to_string(self.directory().join("lib.rs")).expect("a crate has a root");
        let rows = table::parse(&root);
        assert!(!rows.is_empty(), "{self}: lib.rs has no map");
        rows
    }
}

/// The name of a file as `git` prints it.
fn relative(path: &Path) -> String {
    path.strip_prefix(repository())
        .unwrap_or(path)
        .components()
        .collect::<PathBuf>()
        .display()
        .to_string()
}
