//! Tries each kind of fault once before a run starts. A tool may be installed although the kernel lacks what it
//! needs. Every fault of that kind would then fail during the run.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use mintleaf_faultfs::links::{self, Link, Network};
use mintleaf_faultfs::{Device, Disk, Mounted, Strictness};
use mintleaf_harness::Clocks;

use crate::faults::{KINDS, Kind, Need};
use crate::options::Options;

/// How far a clock is set to test whether that works.
const SHIFT_S: u64 = 86_400;
const DISK_BYTES: u64 = 1 << 20;

/// The kinds of faults that work here, or the reasons why they do not.
pub(crate) struct Machine {
    pub(crate) clocks: Result<Clocks, String>,
    /// Links that carry packets. Without them, proxies are used.
    pub(crate) packets: Result<(), String>,
    /// Disks whose failures are simulated. Without them, data is in plain directories.
    pub(crate) disks: Result<(), String>,
}

impl Machine {
    /// Tries everything that the options need, in a directory of the run.
    pub(crate) fn examine(options: &Options, dir: &Path) -> Self {
        let with_root = |try_it: fn(&Path) -> Result<(), String>| match options.root {
            true => try_it(dir),
            false => Err("it needs --root".to_owned()),
        };
        Self {
            clocks: try_clocks(dir),
            packets: with_root(|_| try_packets()),
            disks: with_root(try_disks),
        }
    }

    /// Why faults of a kind cannot be inflicted here; `None` when they can.
    fn lack(&self, kind: &Kind, options: &Options) -> Option<String> {
        match kind.needs {
            Need::Nothing => None,
            Need::Clocks => self.clocks.as_ref().err().cloned(),
            Need::Packets => self.packets.as_ref().err().cloned(),
            Need::Disks => self.disks.as_ref().err().cloned(),
            Need::Streams => {
                self.packets.is_ok().then(|| "with --root, links are packets".to_owned())
            }
            Need::Previous if options.previous.is_none() => {
                Some("there is no --previous binary".to_owned())
            }
            Need::Previous => None,
            Need::OneBuild if options.previous.is_some() => {
                Some("the --previous binary may not read what a restore makes".to_owned())
            }
            Need::OneBuild => None,
        }
    }

    /// The selected kinds of faults that work here, and the other selected kinds, with what each lacks.
    ///
    /// # Errors
    /// When a selected kind does not exist, or no kind is left.
    pub(crate) fn kinds(
        &self,
        options: &Options,
    ) -> Result<(Vec<&'static Kind>, Vec<String>), String> {
        let known = |name: &String| KINDS.iter().any(|kind| kind.name == name);
        if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            return Err(format!("--only {unknown}: the kinds are {}", names.join(", ")));
        }
        let asked = |kind: &&Kind| options.asks_for(kind.name);
        let (mut kinds, mut lacking) = (Vec::new(), Vec::<(String, Vec<&str>)>::new());
        for kind in KINDS.iter().filter(asked) {
            match self.lack(kind, options) {
                None => kinds.push(kind),
                Some(why) => match lacking.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, names)) => names.push(kind.name),
                    None => lacking.push((why, vec![kind.name])),
                },
            }
        }
        let told = lacking.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", ")));
        let skipped: Vec<_> = told.collect();
        skipped.iter().for_each(|what| eprintln!("SKIPPED: {what}"));
        match kinds.is_empty() {
            true => Err("no kind of fault is left".to_owned()),
            false => Ok((kinds, skipped)),
        }
    }
}

fn try_clocks(dir: &Path) -> Result<Clocks, String> {
    let missing = || "libfaketime is missing (apt-get install faketime)".to_owned();
    let clocks = Clocks::find(dir).ok_or_else(missing)?;
    let told = |error: io::Error| format!("no clock can be set here: {error}");
    clocks.shift(0, i64::try_from(SHIFT_S * 1_000).unwrap_or(i64::MAX)).map_err(told)?;
    let right = date(&mut Command::new("date")).map_err(told)?;
    let shifted = date(Command::new("date").envs(clocks.environment(0))).map_err(told)?;
    match shifted.abs_diff(right + SHIFT_S) < SHIFT_S / 2 {
        true => Ok(clocks),
        false => Err("libfaketime is there and sets no clock".to_owned()),
    }
}

/// The time that a process sees, in Unix seconds.
fn date(command: &mut Command) -> io::Result<u64> {
    let shown = String::from_utf8_lossy(&command.arg("+%s").output()?.stdout).into_owned();
    shown.trim().parse().map_err(io::Error::other)
}

fn try_packets() -> Result<(), String> {
    if let Some(why) = links::why_not() {
        return Err(format!("{why}; links are proxies"));
    }
    let network = Network::new(2);
    let network = network.map_err(|error| format!("no network namespaces: {error}"))?;
    for link in [Link::Cut, Link::Lossy(10), Link::Narrow(1_000), Link::Reset, Link::Open] {
        let set = network.set(1, 2, link);
        set.map_err(|error| {
            format!("nft cannot make a link {link:?}; links are proxies: {error}")
        })?;
    }
    Ok(())
}

fn try_disks(dir: &Path) -> Result<(), String> {
    if let Some(why) = mintleaf_faultfs::why_not() {
        return Err(format!("{why}; data is in plain directories"));
    }
    let told = |error: io::Error| format!("no disk can be mounted: {error}");
    let at = dir.join("disk-tried");
    let device = Device::new(Disk::new(Strictness::Strict, DISK_BYTES));
    let mounted = Mounted::new(device, &at).map_err(told)?;
    fs::write(at.join("file"), "there").map_err(told)?;
    drop(mounted);
    fs::remove_dir(at).map_err(told)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn options(more: &[&str]) -> Options {
        let given = ["chaos", "--binary", "x"].iter().chain(more);
        Options::parse_from(given.copied())
    }

    fn bare(why: &str) -> Machine {
        let lacks = || why.to_owned();
        Machine { clocks: Err(lacks()), packets: Err(lacks()), disks: Err(lacks()) }
    }

    #[test]
    fn what_a_machine_lacks_is_said_once_with_all_that_is_left_out_for_it() {
        let (kinds, skipped) = bare("no nft").kinds(&options(&["--root"])).unwrap();
        assert_eq!(skipped.iter().filter(|line| line.ends_with(": no nft")).count(), 1);
        let line = skipped.iter().find(|line| line.ends_with(": no nft")).unwrap();
        for name in ["loss", "power cut", "clock jump"] {
            assert!(line.contains(name), "{line}");
            assert!(kinds.iter().all(|kind| kind.name != name), "{name}");
        }
        // Links are proxies then, which support what packets do not.
        assert!(kinds.iter().any(|kind| kind.name == "delay"));
    }

    #[test]
    fn a_run_of_nothing_but_what_is_missing_does_not_start() {
        assert!(bare("no nft").kinds(&options(&["--root", "--only", "loss"])).is_err());
        assert!(bare("no nft").kinds(&options(&["--only", "no such fault"])).is_err());
    }
}
