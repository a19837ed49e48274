//! A directory of backups, filled by a job that runs each night.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{create, inspected, restored, run};
use crate::harness::mintleaf;

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_night_adds_a_backup_in_silence_and_the_latest_of_the_cluster_are_kept() {
    let mut dev = mintleaf().dev();
    create(dev.api(), "orders", 1);
    let dir = dev.dir().join("backups");
    let shown = format!("{}/", dir.display());
    let night = |keep: &[&str], url: &str| run(&[&["backup", &shown, "--url", url], keep].concat());
    for _ in 0..2 {
        let done = night(&["--keep", "3"], &dev.url());
        assert_eq!((done.code, &*done.stdout, &*done.stderr), (Some(0), "", ""), "{done:?}");
    }
    let two = names(&dir);
    let cluster = inspected(&dir.join(&two[0]))["cluster_id"].as_str().unwrap().to_owned();
    for name in &two {
        assert!(name.starts_with(&format!("mintleaf-{cluster}-20")), "{name}");
        assert!(name.ends_with("Z.backup"), "{name}");
    }
    let other = two[0].replace(&cluster, &"0".repeat(32));
    fs::write(dir.join(&other), "").unwrap();
    fs::write(dir.join("notes"), "").unwrap();
    let done = night(&["--keep", "1", "--json"], &dev.url());
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(told["removed"], serde_json::json!([two[1], two[0]]), "{done:?}");
    let left = names(&dir);
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.contains(&other) && left.contains(&"notes".to_owned()), "{left:?}");
    assert!(told["file"].as_str().unwrap().ends_with(&left[1]), "{told} {left:?}");
    assert_eq!(inspected(&dir.join(&left[1]))["tags"], 1);
    restored(
        &dir.join(&left[1]),
        &dev.dir().join("restored"),
        1,
        &["--advance-all-by", "1", "--stopped-at", "now"],
    );

    // A night without a backup removes nothing, and says so.
    dev.process().kill();
    let failed = night(&["--keep", "1"], &dev.url());
    assert!(failed.code == Some(1) && !failed.stderr.is_empty(), "{failed:?}");
    assert_eq!(names(&dir), left);
}

#[test]
fn only_a_directory_has_backups_to_keep_and_only_its_last_part_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file").display().to_string();
    let refused = run(&["backup", &file, "--keep", "3", "--url", "http://127.0.0.1:9"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("--keep needs"), "{refused:?}");
    // A file system that is not mounted is not replaced by the disk below it.
    let missing = dir.path().join("mnt/backups/").display().to_string();
    let refused = run(&["backup", &missing, "--url", "http://127.0.0.1:9"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("cannot make"), "{refused:?}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
    let zero = run(&["backup", &missing, "--keep", "0"]);
    assert_eq!(zero.code, Some(2), "{zero:?}");
}
