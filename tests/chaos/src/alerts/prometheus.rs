//! A Prometheus that judges nodes by the rules of the deployment, within seconds.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mintleaf_harness::{Api, Cluster, NoAnswer, Port, Process, await_some, secs};
use serde_json::{Value, json};

const RULES: &str = include_str!("../../../../deploy/alerts.yml");
const READY_WITHIN: Duration = secs(10);
/// How long each rule waits here. In the deployment it is up to a week.
const FOR: &str = "2s";
/// How far rules look back in the deployment, and here.
const RANGES: [(&str, &str); 4] =
    [("[5m]", "[10s]"), ("[15m]", "[20s]"), ("[30m]", "[40s]"), ("[7d]", "[5s]")];

/// A running Prometheus. Dropping it ends it.
pub(crate) struct Prometheus {
    port: Port,
    _process: Process,
}

impl Prometheus {
    /// Starts it with its files in `dir`. Each cluster is a job.
    pub(crate) fn start(dir: &Path, clusters: [&Cluster; 2]) -> io::Result<Self> {
        let (port, config) = (Port::claim(), dir.join("prometheus.yml"));
        fs::write(dir.join("alerts.yml"), hurried(RULES))?;
        fs::write(&config, configuration(clusters))?;
        let mut command = Command::new("prometheus");
        command.arg("--config.file").arg(&config).arg("--storage.tsdb.path").arg(dir.join("tsdb"));
        command.args(["--web.listen-address", &port.addr().to_string()]).stdin(Stdio::null());
        let process = Process::start("Prometheus", &mut command, &dir.join("prometheus.log"))?;
        let api = Api(port.addr());
        let ready = || api.try_get("/-/ready").ok().filter(|answer| answer.is_ok());
        await_some(READY_WITHIN, ready).ok_or(io::Error::other("Prometheus is not ready"))?;
        Ok(Self { port, _process: process })
    }

    /// The alerts that fire, without the prefix of their names.
    pub(crate) fn firing(&self) -> Result<BTreeSet<String>, NoAnswer> {
        let answer = Api(self.port.addr()).try_get("/api/v1/alerts")?.ok();
        let alerts = answer["data"]["alerts"].as_array().into_iter().flatten();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        let name = |alert: &Value| {
            Some(alert["labels"]["alertname"].as_str()?.strip_prefix("Mintleaf")?.to_owned())
        };
        Ok(firing.filter_map(name).collect())
    }
}

/// The rules as they are, except for how long they wait and how far they look back.
fn hurried(rules: &str) -> String {
    let line = |line: &str| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: {FOR}\n"),
        _ => format!("{line}\n"),
    };
    let rules = rules.lines().map(line).collect();
    RANGES.iter().fold(rules, |rules: String, (long, short)| rules.replace(long, short))
}

/// The configuration, as JSON, which is YAML.
fn configuration(clusters: [&Cluster; 2]) -> String {
    let job = |(job, cluster): (usize, &Cluster)| {
        let targets: Vec<_> = cluster.targets().into_iter().map(|(_, address)| address).collect();
        json!({ "job_name": format!("cluster-{job}"), "static_configs": [{ "targets": targets }] })
    };
    json!({
        "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
        "rule_files": ["alerts.yml"],
        "scrape_configs": (1..).zip(clusters).map(job).collect::<Vec<_>>(),
    })
    .to_string()
}
