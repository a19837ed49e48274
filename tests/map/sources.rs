//! Which file of a crate names which other, as the compiler would resolve it.
//!
//! Counted are `use` lines, paths in code, and paths inside the arguments of macros. Left out is
//! what only tests compile. An item that a module re-exports counts as that module's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The name of a crate's root among its modules.
pub(crate) const ROOT: &str = "crate";

/// A path from the root of the crate.
type ModulePath = Vec<String>;

/// The sources of one crate, without its tests.
pub(crate) struct Crate {
    directory: PathBuf,
    /// Files by module path, and the modules that each imports. `http::query` is a name.
    files: BTreeMap<String, BTreeSet<String>>,
    /// What each file names of other crates, as `std::fs`.
    foreign: BTreeMap<String, BTreeSet<String>>,
}

impl fmt::Display for Crate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::relative(&self.directory))
    }
}

impl Crate {
    pub(crate) fn read(directory: &Path) -> Self {
        let mut modules = BTreeMap::new();
        collect(&directory.join("lib.rs"), &[], &mut modules);
        let names: BTreeSet<_> = modules.keys().cloned().collect();
        let (mut files, mut foreign) = (BTreeMap::new(), BTreeMap::new());
        for (module, file) in &modules {
            let mut reader = Reader::new(module.clone(), &names);
            reader.visit_file(file);
            files.insert(name(module), reader.imports);
            foreign.insert(name(module), reader.foreign);
        }
        Self { directory: directory.to_owned(), files, foreign }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Every file, by its module's name, with the modules whose files it names.
    pub(crate) fn files(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.files
    }

    /// The modules that `lib.rs` declares.
    pub(crate) fn top_modules(&self) -> Vec<String> {
        let tops: BTreeSet<_> = self.files.keys().map(|file| top(file)).collect();
        tops.into_iter().filter(|top| *top != ROOT).map(str::to_owned).collect()
    }

    /// The other top modules that a top module's files name.
    pub(crate) fn imports_of(&self, module: &str) -> BTreeSet<String> {
        let files = self.files.iter().filter(|(file, _)| top(file) == module);
        let named = files.flat_map(|(_, imports)| imports).map(|import| top(import));
        named.filter(|top| ![module, ROOT].contains(top)).map(str::to_owned).collect()
    }

    /// The modules that have modules of their own.
    pub(crate) fn folders(&self) -> BTreeSet<String> {
        let parents = self.files.keys().filter_map(|file| file.rsplit_once("::"));
        parents.map(|(parent, _)| parent.to_owned()).collect()
    }

    /// The modules directly in a folder, each with the others there that it imports, its own modules included.
    pub(crate) fn imports_in(&self, folder: &str) -> BTreeMap<String, BTreeSet<String>> {
        let inside = |file: &String| {
            let within = file.strip_prefix(folder)?.strip_prefix("::")?;
            Some(format!("{folder}::{}", top(within)))
        };
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, named) in &self.files {
            let Some(module) = inside(file) else { continue };
            let others = named.iter().filter_map(inside).filter(|other| *other != module);
            let others: Vec<String> = others.collect();
            imports.entry(module).or_default().extend(others);
        }
        imports
    }

    /// What a top module's files name of other crates.
    pub(crate) fn foreign_crates_of(&self, module: &str) -> BTreeSet<String> {
        let files = self.foreign.iter().filter(|(file, _)| top(file) == module);
        files.flat_map(|(_, names)| names.iter().cloned()).collect()
    }
}

fn name(module: &[String]) -> String {
    if module.is_empty() { ROOT.to_owned() } else { module.join("::") }
}

fn top(file: &str) -> &str {
    file.split("::").next().unwrap_or(file)
}

/// Parses a file and, recursively, the files of the modules that it declares.
fn collect(file: &Path, module: &[String], modules: &mut BTreeMap<ModulePath, syn::File>) {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let is_root = ["lib.rs", "mod.rs"].iter().any(|root| file.ends_with(root));
    let children = if is_root { file.with_file_name("") } else { file.with_extension("") };
    for item in &parsed.items {
        let Item::Mod(child) = item else { continue };
        if child.content.is_some() || is_test(&child.attrs) {
            continue;
        }
        let name = child.ident.to_string();
        let candidates =
            [children.join(&name).with_extension("rs"), children.join(&name).join("mod.rs")];
        let path =
            candidates.iter().find(|path| path.exists()).expect("a declared module has a file");
        collect(path, &[module, &[name]].concat(), modules);
    }
    modules.insert(module.to_vec(), parsed);
}

/// Whether an item exists in test builds only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let condition = list.tokens.to_string();
                    condition == "test"
                        || condition.starts_with("all (test")
                        || condition.starts_with("all(test")
                })
    })
}

/// Walks one file.
struct Reader<'a> {
    /// The module whose names are resolved at the moment: the file's, or an inline one in it.
    module: ModulePath,
    /// Length of the path of the file's own module.
    file_depth: usize,
    modules: &'a BTreeSet<ModulePath>,
    /// Other modules of the crate that the file names.
    imports: BTreeSet<String>,
    /// What it names of other crates.
    foreign: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn new(module: ModulePath, modules: &'a BTreeSet<ModulePath>) -> Self {
        let file_depth = module.len();
        Self { module, file_depth, modules, imports: BTreeSet::new(), foreign: BTreeSet::new() }
    }

    /// Notes where a path leads. A path that begins with neither a keyword, a child nor a crate
    /// names something that is imported already, or local.
    fn note(&mut self, path: &[String], is_use: bool) {
        let Some((first, rest)) = path.split_first() else { return };
        let mut base = self.module.clone();
        let absolute = match first.as_str() {
            "crate" => rest.to_vec(),
            "self" => [&base[..], rest].concat(),
            "super" => {
                base.pop();
                let more = rest.iter().take_while(|part| *part == "super").count();
                base.truncate(base.len() - more);
                [&base[..], &rest[more..]].concat()
            }
            _ if self.modules.contains(&[&base[..], &path[..1]].concat()) => {
                [&base[..], path].concat()
            }
            _ => {
                if is_use
                    || path.len() > 1 && ["std", "core", "alloc", "tokio"].contains(&first.as_str())
                {
                    self.foreign.insert(path.join("::"));
                }
                return;
            }
        };
        let target = (0..=absolute.len())
            .rev()
            .map(|n| &absolute[..n])
            .find(|path| self.modules.contains(*path));
        let target = target.expect("the root is a module").to_vec();
        if target[..] != self.module[..self.file_depth] {
            self.imports.insert(name(&target));
        }
    }

    /// Notes every leaf of a `use`.
    fn note_tree(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.note_tree(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.note_tree(tree, prefix));
            }
            UseTree::Name(leaf) => self.note(&with(prefix, &leaf.ident.to_string()), true),
            UseTree::Rename(leaf) => self.note(&with(prefix, &leaf.ident.to_string()), true),
            _ => self.note(prefix, true),
        }
    }
}

fn with(prefix: &[String], leaf: &str) -> Vec<String> {
    let leaf = (leaf != "self").then(|| leaf.to_owned());
    prefix.iter().cloned().chain(leaf).collect()
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note(&parts, false);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // Arguments of a macro are tokens, `crate :: a :: b` among them.
        let tokens = call.tokens.to_string().replace(" :: ", "::");
        let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
        for path in tokens.split(word).filter(|word| word.contains("::")) {
            let parts: Vec<_> = path.trim_matches(':').split("::").map(str::to_owned).collect();
            self.note(&parts, false);
        }
        visit::visit_macro(self, call);
    }

    // `pub(super)` and `pub(in path)` import nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    // Derives and attributes of other crates.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
