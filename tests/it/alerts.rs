//! The dashboard and the alerts: they query metrics that exist, and every alert says what to do.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Finished, mintleaf, runs};

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The names of metrics in a text, in the form that queries use.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_one = |word: &&str| word.starts_with("mintleaf_") || word.starts_with("process_");
    let of_histogram = |word: &str| {
        let suffixes = ["_seconds_bucket", "_seconds_sum", "_seconds_count"];
        suffixes.iter().find_map(|end| word.strip_suffix(end)).map(|name| format!("{name}_seconds"))
    };
    words.filter(is_one).map(|word| of_histogram(word).unwrap_or_else(|| word.to_owned())).collect()
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_are_documented() {
    let documented = metrics_in(&read("docs/metrics.md"));
    for file in ["deploy/grafana.json", "deploy/alerts.yml"] {
        let asked = metrics_in(&read(file));
        let unknown: Vec<_> = asked.difference(&documented).collect();
        assert!(asked.len() > 20 && unknown.is_empty(), "{file}: {unknown:?}");
    }
}

#[test]
fn every_alert_is_in_the_table_that_its_runbook_url_names_and_the_table_has_no_other() {
    const TABLE: &str = "docs/operating/monitoring.md#alerts";
    let (alerts, page) = (read("deploy/alerts.yml"), read("docs/operating/monitoring.md"));
    let section = page.split_once("\n## Alerts\n").unwrap().1.split("\n## ").next().unwrap();
    let rows: BTreeSet<(&str, &str)> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(name, rest)| (name, rest.split(" | ").next().unwrap()))
        .collect();
    let tried = read("tests/alerts/rules.yml") + &read("tests/alerts/rules-of-days.yml");
    let mut rules = BTreeSet::new();
    for alert in alerts.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap();
        for part in ["expr: ", "summary: ", "description: "] {
            assert!(alert.contains(part), "{name} lacks {part}");
        }
        assert!(alert.contains(&format!("runbook_url: {TABLE}\n")), "{name}");
        assert!(tried.contains(&format!("alertname: {name}")), "{name} is not tried");
        let severity = alert.split_once("labels: {severity: ").unwrap().1;
        rules.insert((name, severity.split('}').next().unwrap()));
    }
    assert_eq!(rules, rows);
}

#[test]
fn the_dashboard_is_for_any_data_source_cluster_and_node() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana.json")).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> =
        variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            let selectors = expr.matches('{').count();
            assert_eq!(
                expr.matches("{job=\"$job\", instance=~\"$instance\"}").count(),
                selectors,
                "{expr}"
            );
        }
    }
}

#[test]
fn promtool_takes_the_rules_the_page_and_every_alert_that_fires_and_clears() {
    if !runs("promtool", &["--version"]) {
        return;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let promtool = |args: &[&str]| {
        let mut command = Command::new("promtool");
        command.args(args).current_dir(directory);
        command
    };
    for args in [
        &["check", "rules", "deploy/alerts.yml"][..],
        &["check", "config", "--syntax-only", "deploy/prometheus.yml"],
        &["test", "rules", "tests/alerts/rules.yml"],
        &["test", "rules", "tests/alerts/rules-of-days.yml"],
    ] {
        let ran = Finished::of(&mut promtool(args));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let dev = mintleaf().dev();
    assert_eq!(dev.api().try_get("/v1/tags/nobody").unwrap().status, 404);
    let page = tempfile::NamedTempFile::new().unwrap();
    fs::write(page.path(), dev.api().try_get("/metrics").unwrap().body).unwrap();
    let mut check = promtool(&["check", "metrics"]);
    let checked = Finished::of(check.stdin(Stdio::from(page.reopen().unwrap())));
    assert_eq!((checked.code, &*checked.stdout, &*checked.stderr), (Some(0), "", ""));
}
