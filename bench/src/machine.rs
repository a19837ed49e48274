//! The cores: one for the measured servers, one for the generator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mintleaf_harness::clean;

use crate::Result;

/// This file sets the weight of the current session. A session is a scheduling group. Root can give it eighty
/// times the weight of any other, so that a busy neighbour costs little. (The kernel would throttle a real-time
/// class, in holes of 50 ms.)
const WEIGHT: &str = "/proc/self/autogroup";
const WEIGHT_MAX: &str = "-20";
/// A shell script that sets the weight of a new session, and then runs its arguments in that session.
const SEAT: &str = r#"{ echo -20 >/proc/self/autogroup; } 2>/dev/null; exec "$@""#;

/// The properties of the machine that matter for measuring.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The core of all measured servers.
    pub(crate) server_core: usize,
    /// The core of the generator.
    pub(crate) generator_core: usize,
    /// Whether the two cores differ.
    pub(crate) two_cores: bool,
    /// Whether the processes of this run get priority over everything else.
    pub(crate) priority: bool,
}

impl Machine {
    /// # Errors
    /// When `/proc` lacks the information.
    pub(crate) fn look() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let cores = cores(field("Cpus_allowed_list:").ok_or("which cores are allowed?")?);
        let server_core = *cores.first().ok_or("no core is allowed")?;
        let generator_core = *cores.get(1).unwrap_or(&server_core);
        // Only a session that this process leads gets the weight: a user's shell must not keep it afterwards.
        let leads = field("NSsid:") == field("NSpid:");
        let priority = leads && fs::write(WEIGHT, WEIGHT_MAX).is_ok();
        let two_cores = server_core != generator_core;
        Ok(Self { server_core, generator_core, two_cores, priority })
    }

    /// A command that runs on the core of the measured servers, and that ends when this process ends for any
    /// reason. All such processes share one session. If each had its own, a low-priority thread would give way
    /// only to threads of its own process.
    pub(crate) fn server(&self, program: &Path) -> Command {
        self.seated("setpriv", &[], self.server_core, program)
    }

    /// A command that runs on the generator's core, in a new session.
    pub(crate) fn generator(&self, program: &Path) -> Command {
        let own = ["sh", "-c", SEAT, "seat", "setpriv"];
        self.seated("setsid", &own, self.generator_core, program)
    }

    fn seated(&self, first: &str, words: &[&str], core: usize, program: &Path) -> Command {
        let mut command = Command::new(first);
        command.args(words).args(["--pdeathsig", "KILL", "taskset", "-c"]);
        command.arg(core.to_string()).arg(program);
        // This lets a node run with its default settings.
        clean(&mut command);
        command
    }
}

/// Parses a list of cores such as `0-2,5`.
fn cores(list: &str) -> Vec<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// The path of a program, if it is installed. Some peers are in directories that only root searches.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    places.map(|place| place.join(program)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(cores("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(cores("3"), [3]);
        assert_eq!(cores("x"), [0; 0]);
    }
}
