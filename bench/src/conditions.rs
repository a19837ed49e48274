//! The conditions under which a table was made. Absolute figures mean nothing without them.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Result;
use crate::machine::{self, Machine};
use crate::options::Options;
use crate::stats::Spread;

/// How many writes are synced and timed.
const SYNCS: u32 = 200;

/// The conditions, by name.
pub(crate) struct Conditions {
    facts: Vec<(&'static str, String)>,
    /// What the machine lacks.
    warnings: Vec<String>,
}

impl Conditions {
    /// # Errors
    /// When the directory is not writable.
    pub(crate) fn look(options: &Options, machine: &Machine) -> Result<Self> {
        let info = fs::read_to_string("/proc/cpuinfo")?;
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let cores = info.lines().filter(|line| line.starts_with("processor")).count();
        let load = fs::read_to_string("/proc/loadavg")?;
        let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
        let model = model.map_or("unknown", |(_, model)| model.trim());
        let facts = vec![
            ("date", told("date", &["--utc", "+%F %H:%M UTC"])),
            ("processor", format!("{model}, {cores} cores")),
            ("kernel", told("uname", &["-sr"])),
            ("load before", load),
            ("rustc", told("rustc", &["--version"])),
            ("mintleaf", told(&options.binary.to_string_lossy(), &["--version"])),
            ("nginx", told("nginx", &["-v"])),
            ("Redis", told("redis-server", &["--version"])),
            ("etcd", told("etcd", &["--version"])),
            ("disk", disk(&options.dir)?),
            (
                "rounds",
                format!("{} of {} s slices", options.rounds(), options.slice().as_secs_f64()),
            ),
            ("tags", options.tags().to_string()),
        ];
        Ok(Self { facts, warnings: warnings(options, machine) })
    }
}

fn warnings(options: &Options, machine: &Machine) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |holds: bool, warning: &str| {
        if holds {
            warnings.push(warning.to_owned());
        }
    };
    warn(!machine.two_cores, "ONE CORE: rows that need one for the generator are skipped");
    let unseated = "NO PRIORITY: it takes root, a session of its own (scripts/bench begins one), \
                    and a kernel with autogroups (sysctl kernel.sched_autogroup_enabled=1). \
                    Other work here weighs as much as what is measured";
    warn(!machine.priority, unseated);
    warn(options.quick, "QUICK: shows that it works; not to be quoted");
    for program in ["nginx", "redis-server", "etcd"] {
        let missing = format!("MISSING: {program}; its rows are skipped");
        warn(machine::find(program).is_none(), &missing);
    }
    warnings
}

/// The first line that a command prints.
fn told(program: &str, args: &[&str]) -> String {
    let program = machine::find(program).unwrap_or_else(|| program.into());
    let Ok(output) = Command::new(program).args(args).output() else { return "none".to_owned() };
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).lines().next().unwrap_or("unknown").trim().to_owned()
}

/// The file system of a directory, and how long a sync takes there.
fn disk(dir: &Path) -> Result<String> {
    let file_system = told("findmnt", &["-no", "FSTYPE", "--target", &dir.to_string_lossy()]);
    let path = dir.join(format!("sync-{}", std::process::id()));
    let mut file = File::create(&path)?;
    let mut micros = Vec::new();
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[1; 256])?;
        file.sync_data()?;
        micros.push(began.elapsed().as_secs_f64() * 1e6);
    }
    fs::remove_file(path)?;
    let Spread { q1, median, q3 } = Spread::of(micros);
    Ok(format!("{file_system}, fdatasync p50 {median:.0} µs [{q1:.0}, {q3:.0}]"))
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, fact) in &self.facts {
            writeln!(f, "- {name}: {fact}")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "- **{warning}**"))
    }
}
