//! The maps in the `lib.rs` of each crate are true.
//!
//! A map is a table of the crate's modules, from the one that knows least to the one that knows most. This test reads
//! the sources with `syn` and compares: a module imports only modules above it in the table, so no circle of modules
//! can arise, and a newcomer can trust the table. The crate `core/` names nothing that reads a clock, a disk or a
//! socket. Paths that documents and comments name exist in the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod circles;
mod documents;
mod sources;
mod table;

use sources::{Crate, ROOT};
use table::Row;

/// What `core/` may not name of `std` and `ring`, though `core/Cargo.toml` lets it.
const IMPURE: [&str; 10] = [
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
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn crates() -> [Crate; 5] {
    let directories = ["core/src", "src", "raft/src", "storage/src", "clients/rust/src"];
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
fn modules_import_only_from_rows_above_theirs() {
    let mut complaints = Vec::new();
    for source in crates() {
        let mut below = BTreeSet::new();
        for Row { modules } in source.rows() {
            for module in &modules {
                for upward in source.imports_of(module).difference(&below) {
                    complaints.push(format!(
                        "{source}: {module} imports {upward}, which is not above it in the map"
                    ));
                }
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
fn no_modules_of_a_folder_import_each_other_in_a_circle() {
    let mut complaints = Vec::new();
    for source in crates() {
        for folder in source.folders() {
            for circle in circles::of(&source.imports_in(&folder)) {
                complaints.push(format!("{source}: {}", circle.join(" -> ")));
            }
        }
    }
    none(&complaints);
}

#[test]
fn the_core_names_nothing_that_reads_a_clock_a_disk_or_a_socket() {
    let core = Crate::read(&repository().join("core/src"));
    let mut complaints = Vec::new();
    for module in core.top_modules() {
        for foreign in core.foreign_crates_of(&module) {
            let (name, item) = foreign.split_once("::").unwrap_or((&foreign, ""));
            let is_impure = IMPURE.iter().any(|part| item.starts_with(part));
            if ["std", "ring"].contains(&name) && is_impure {
                complaints.push(format!("{core}: {module} names {foreign}"));
            }
        }
    }
    none(&complaints);
}

#[test]
fn paths_that_documents_name_exist() {
    none(&documents::missing_paths(repository()));
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
