//! What the documents name is there, and what there is, the documents name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::commands::{faults, help_of};
use super::{document, none, root, user_documents};
use crate::harness::{Finished, eventually, mintleaf, secs};

/// Words of code of a document that are made of these characters and begin so.
fn words<'a>(
    code: &'a [String],
    begins: &'a str,
    others: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let is_part = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    let words = code.iter().flat_map(move |code| code.split(move |c| !is_part(c)));
    words
        .filter(move |word| word.starts_with(begins) && word.len() > begins.len())
        .map(str::to_owned)
}

#[test]
fn every_metric_is_documented_and_every_documented_one_is_there() {
    let dev = mintleaf().dev_with_nodes(3);
    // Errors are counted from the first one on.
    assert_eq!(dev.api().try_get("/v1/tags/nobody").unwrap().status, 404);
    // The leader alone knows who lags, and a node takes a moment to hear of all clocks.
    let page = eventually("all metrics to be there", secs(15), || {
        let pages =
            (1..=3).map(|id| Some(dev.node(id).try_get("/metrics").ok()?.text().to_owned()));
        let page = pages.collect::<Option<String>>()?;
        let late = ["mintleaf_peer_lag_entries{", "mintleaf_peer_clock_offset_seconds{"];
        late.into_iter().all(|name| page.contains(name)).then_some(page)
    });
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let mut there: BTreeSet<String> =
        samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect();
    // What is deprecated is on the page that Prometheus asks for.
    let asked_for = dev.api().get_as("/metrics", "application/openmetrics-text");
    assert!(asked_for.header("content-type").starts_with("application/openmetrics-text"));
    let samples = asked_for.text().lines().filter(|line| !line.starts_with('#'));
    there.extend(samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()));
    let ends = ["_bucket", "_sum", "_count"];
    let histograms: Vec<String> =
        there.iter().filter_map(|name| name.strip_suffix("_bucket")).map(str::to_owned).collect();
    there.retain(|name| !ends.iter().any(|end| name.ends_with(end)));
    there.extend(histograms);

    let mut complaints = Vec::new();
    for document in user_documents() {
        for name in words(&document.code, "mintleaf_", "_").filter(|name| !there.contains(name)) {
            complaints.push(format!("{}: there is no metric {name}", document.name()));
        }
    }
    let families = families(&page);
    let about = rows("docs/metrics.md");
    // Metrics of one kind with one meaning share a row.
    let about: BTreeMap<&str, &[String]> = about
        .iter()
        .filter(|row| row.len() == 3)
        .flat_map(|row| row[0].split(", ").map(|name| (name.trim_matches('`'), &row[1..])))
        .collect();
    for (name, family) in &families {
        let Some([kind, meaning]) = about.get(name.as_str()) else {
            complaints.push(format!("docs/metrics.md lacks {name}"));
            continue;
        };
        let mut parts = kind.split(", ");
        let kind = parts.next().unwrap_or_default();
        let labels: BTreeSet<String> =
            parts.map(|label| label.trim_matches('`').to_owned()).collect();
        let unknown = family.labels.difference(&labels).collect::<Vec<_>>();
        let is_about = kind == family.kind && unknown.is_empty();
        if !is_about || meaning.is_empty() {
            complaints.push(format!(
                "docs/metrics.md says {kind} {labels:?} of {name}: it is {family:?}"
            ));
        }
    }
    let gone = about.keys().filter(|name| {
        let is_one = name.starts_with("mintleaf_") || name.starts_with("process_");
        is_one && !families.contains_key(**name)
    });
    complaints.extend(gone.map(|name| format!("docs/metrics.md: there is no metric {name}")));
    none(&complaints);
}

/// A metric as the page shows it, under the name that a query has.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
}

/// The metrics of a page in the text format, by name.
fn families(page: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
            let known = ["", "_bucket", "_sum", "_count"]
                .into_iter()
                .filter_map(|end| name.strip_suffix(end))
                .find(|name| families.contains_key(*name));
            let family =
                families.get_mut(known.unwrap_or_else(|| panic!("no type of {line}"))).unwrap();
            let labels =
                rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).unwrap_or_default();
            let names = labels.0.split(',').filter_map(|label| Some(label.split_once('=')?.0));
            family.labels.extend(names.filter(|name| *name != "le").map(str::to_owned));
        }
    }
    families
}

#[test]
fn commands_and_flags_within_the_text_are_known() {
    let mut helps = String::new();
    for commands in [
        &["serve"][..],
        &["dev"],
        &["next"],
        &["cert", "ca"],
        &["cert", "node"],
        &["tag", "create"],
        &["tag", "list"],
        &["tag", "update"],
        &["tag", "delete"],
        &["decode"],
        &["doctor"],
        &["cluster", "add"],
        &["token", "new"],
        &["audit"],
        &["backup"],
        &["import"],
        &["inspect"],
        &["restore"],
    ] {
        helps += &help_of("mintleaf", commands);
    }
    let scripts = scripts();
    for script in &scripts {
        helps += &help_of(script, &[]);
    }
    let known: BTreeSet<&str> =
        helps.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).collect();
    let mut complaints = Vec::new();
    for document in user_documents() {
        for code in &document.code {
            complaints.extend(
                faults(code).into_iter().map(|fault| format!("{}: {fault}", document.name())),
            );
        }
        // Flags that stand for themselves, and variables.
        let alone: Vec<String> =
            document.code.iter().filter(|code| code.starts_with("--")).cloned().collect();
        let names = words(&alone, "--", "-").chain(words(&document.code, "MINTLEAF_", "_"));
        for name in names.filter(|name| !known.contains(name.as_str())) {
            complaints.push(format!("{}: nothing knows {name}", document.name()));
        }
    }
    none(&complaints);
}

#[test]
fn every_setting_is_documented() {
    let settings = document("docs/operating/README.md");
    let documented: BTreeSet<String> = words(&settings.code, "--", "-").collect();
    let help = [help_of("mintleaf", &["serve"])];
    let known: BTreeSet<String> = words(&help, "--", "-").filter(|flag| flag != "--help").collect();
    none(
        &known
            .difference(&documented)
            .map(|flag| format!("docs/operating/README.md lacks {flag}"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_settings_file_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mintleaf.toml");
    let documents = user_documents();
    let blocks = documents.iter().flat_map(|document| &document.blocks);
    let files: Vec<_> = blocks.filter(|block| block.language == "toml").collect();
    assert!(!files.is_empty());
    for block in files {
        fs::write(&file, &block.text).unwrap();
        // Flags win over the file, so all that is wrong now is this one.
        let run = Finished::of(
            mintleaf().command().args(["serve", "--node-id", "0", "--config"]).arg(&file),
        );
        assert!(run.stderr.contains("--node-id must be 1 or more"), "{run:?}\n{}", block.text);
    }
}

#[test]
fn every_path_and_code_of_the_interface_is_documented() {
    let dev = mintleaf().dev();
    let openapi = dev.api().try_get("/openapi.json").unwrap().body;
    let openapi: serde_json::Value = serde_json::from_slice(&openapi).unwrap();
    let methods = ["get", "post", "put", "patch", "delete"];
    let mut there = BTreeSet::new();
    for (path, operations) in openapi["paths"].as_object().unwrap() {
        // Where both of these are served, all methods are one: Leaf's paths.
        let alike = operations.get("put").is_some() && operations.get("patch").is_some();
        let served = methods
            .iter()
            .filter(|method| operations.get(**method).is_some() && (!alike || **method == "get"));
        there.extend(served.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let api = document("docs/api.md");
    let begins = |code: &&String| {
        methods.iter().any(|method| code.starts_with(&format!("{} /", method.to_uppercase())))
    };
    let documented: BTreeSet<String> = api.code.iter().filter(begins).cloned().collect();
    assert_eq!(documented, there);
    let codes = openapi["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
        .as_array()
        .unwrap();
    let codes = codes.iter().map(|code| code.as_str().unwrap().to_owned());
    none(
        &codes
            .filter(|code| !api.code.contains(code))
            .map(|code| format!("docs/api.md lacks {code}"))
            .collect::<Vec<_>>(),
    );
}

/// The rows of a document's tables, cell by cell.
fn rows(name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join(name)).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_release_of_rust_and_the_version_are_named() {
    let named = |document: &str, what: &str| {
        fs::read_to_string(root().join(document)).unwrap().contains(what)
    };
    let rust = concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"));
    assert!(named("README.md", rust) && named("CONTRIBUTING.md", rust), "{rust}");
    // What is between two releases is in no section of a release yet.
    let version = env!("CARGO_PKG_VERSION");
    let section = version.strip_suffix("-dev").map_or(version, |_| "Unreleased");
    assert!(named("CHANGELOG.md", &format!("\n## {section}")), "no section {section}");
}

/// What `scripts/release` with these arguments says, in a directory that has the script.
fn release(directory: &Path, arguments: &[&str]) -> String {
    let run = Command::new(directory.join("scripts/release")).args(arguments).output().unwrap();
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(run.status.success(), "scripts/release {arguments:?}: {said}");
    said
}

#[test]
fn every_manifest_has_the_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(release(root(), &["--versions"]), format!("every manifest has {version}\n"));
}

#[test]
fn a_new_version_is_written_into_every_manifest_and_back() {
    let copy = tempfile::tempdir().unwrap();
    let cp = r#"cp --parents scripts/release Cargo.toml Cargo.lock clients/*/package.json clients/*/pyproject.toml \
        clients/go/client.go clients/java/README.md clients/java/pom.xml clients/java/*/pom.xml deploy/helm/Chart.yaml "$0""#;
    let status = Command::new("sh").args(["-c", cp]).arg(copy.path()).current_dir(root()).status();
    assert!(status.unwrap().success());
    for version in ["91.2.3", "91.3.0-dev"] {
        let said = release(copy.path(), &["--set", version]);
        assert_eq!(said, format!("every manifest has {version}\n"));
    }
    let version = env!("CARGO_PKG_VERSION");
    release(copy.path(), &["--set", version]);
    let differ = Command::new("diff").arg("-r").args([copy.path(), root()]).output().unwrap();
    let differ = String::from_utf8(differ.stdout).unwrap();
    let lines: Vec<_> = differ.lines().filter(|line| !line.starts_with("Only in")).collect();
    assert_eq!(lines, [""; 0]);
}

/// All scripts, as one calls them from the repository's directory.
fn scripts() -> Vec<String> {
    let entries = fs::read_dir(root().join("scripts")).unwrap();
    let name = |path: &Path| format!("scripts/{}", path.file_name().unwrap().display());
    entries.map(|entry| name(&entry.unwrap().path())).collect()
}
