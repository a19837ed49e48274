//! The commands of a device, one on each line.

use std::str::FromStr;
use std::time::Duration;

use crate::cut::Cut;
use crate::device::Device;
use crate::faults::{Failure, Operation, Rule};

/// The help for the commands.
pub const COMMANDS: &str = "\
cut lose                  the power goes: everything unsynced is lost
cut tear SEED             what was written before a random moment survives, the last write in part
cut scatter SEED          every page survives as it was at a random moment of its own
flip SEED [PATTERN]       flips one bit at rest in a file that matches
fail OP ERROR [nth N] [PATTERN]
                          OP read, write or fsync answers ERROR, EIO or ENOSPC, from now on;
                          with nth only the Nth such call
slow fsync MS             every sync takes this long at least
heal                      ends failures and delays
stats                     what happened so far";

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The power is cut and comes back.
    Cut(Cut, u64),
    /// One bit flips in a file that matches.
    Flip(u64, Option<String>),
    /// Calls fail.
    Fail(Rule),
    /// Syncs are slow.
    SlowFsync(Duration),
    /// Failures and delays end.
    Heal,
    /// Counters.
    Stats,
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["cut", "lose"] => Ok(Command::Cut(Cut::Lose, 0)),
            ["cut", "tear", seed] => Ok(Command::Cut(Cut::Tear, number(seed)?)),
            ["cut", "scatter", seed] => Ok(Command::Cut(Cut::Scatter, number(seed)?)),
            ["flip", seed] => Ok(Command::Flip(number(seed)?, None)),
            ["flip", seed, pattern] => Ok(Command::Flip(number(seed)?, Some(pattern.to_owned()))),
            ["fail", operation, failure, ref rest @ ..] => rule(operation, failure, rest),
            ["slow", "fsync", ms] => Ok(Command::SlowFsync(Duration::from_millis(number(ms)?))),
            ["heal"] => Ok(Command::Heal),
            ["stats"] => Ok(Command::Stats),
            _ => Err(format!("unknown command; known are:\n{COMMANDS}")),
        }
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word:?} is not a number"))
}

fn rule(operation: &str, failure: &str, rest: &[&str]) -> Result<Command, String> {
    let operation = match operation {
        "read" => Operation::Read,
        "write" => Operation::Write,
        "fsync" => Operation::Fsync,
        _ => return Err(format!("cannot fail {operation:?}: read, write or fsync")),
    };
    let failure = match failure {
        "EIO" => Failure::Eio,
        "ENOSPC" => Failure::Enospc,
        _ => return Err(format!("cannot answer {failure:?}: EIO or ENOSPC")),
    };
    let (nth, pattern) = match *rest {
        [] => (None, None),
        ["nth", n] => (Some(number(n)?), None),
        ["nth", n, pattern] => (Some(number(n)?), Some(pattern.to_owned())),
        [pattern] => (None, Some(pattern.to_owned())),
        _ => return Err("too many words after the error".to_owned()),
    };
    Ok(Command::Fail(Rule { operation, failure, nth, pattern }))
}

impl Device {
    /// Executes a command. Returns the text of its answer.
    ///
    /// # Errors
    /// When the line is not a command, or the command has no effect; the text says why.
    pub fn run(&self, line: &str) -> Result<String, String> {
        match line.parse()? {
            Command::Cut(cut, seed) => Ok(format!("{} unsynced changes hit", self.cut(cut, seed))),
            Command::Flip(seed, pattern) => {
                let flipped = self.flip(pattern.as_deref(), seed);
                let flipped = flipped.ok_or("no file with content matches")?;
                let (path, offset, bit) = (flipped.path, flipped.offset, flipped.bit);
                Ok(format!("bit {bit} of byte {offset} of {path}"))
            }
            Command::Stats => Ok(format!("{:?}", self.stats())),
            quiet => {
                self.run_quiet(quiet);
                Ok("done".to_owned())
            }
        }
    }

    fn run_quiet(&self, command: Command) {
        match command {
            Command::Fail(rule) => self.fail(rule),
            Command::SlowFsync(delay) => self.slow_fsync(delay),
            _ => self.heal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_happens() {
        let parsed = |line: &str| line.parse::<Command>().unwrap();
        let rule = |operation, failure, nth, pattern: Option<&str>| {
            Command::Fail(Rule { operation, failure, nth, pattern: pattern.map(str::to_owned) })
        };
        for (line, expected) in [
            ("cut lose", Command::Cut(Cut::Lose, 0)),
            (" cut  tear 7\n", Command::Cut(Cut::Tear, 7)),
            ("cut scatter 7", Command::Cut(Cut::Scatter, 7)),
            ("flip 9 tail-*", Command::Flip(9, Some("tail-*".to_owned()))),
            ("fail fsync EIO", rule(Operation::Fsync, Failure::Eio, None, None)),
            ("fail write ENOSPC nth 3", rule(Operation::Write, Failure::Enospc, Some(3), None)),
            ("fail read EIO db", rule(Operation::Read, Failure::Eio, None, Some("db"))),
            ("slow fsync 250", Command::SlowFsync(Duration::from_millis(250))),
            ("heal", Command::Heal),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_that_say_nothing_are_refused() {
        for line in ["", "cut", "cut tear x", "fail fsync EPERM", "fail open EIO", "slow write 3"] {
            assert!(line.parse::<Command>().is_err(), "{line}");
        }
    }
}
