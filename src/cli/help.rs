//! Help that goes on below the arguments of a command.

use clap::Command;

/// The same command and those below it, with each paragraph of that help on one line: the terminal knows how wide a
/// line may be.
pub(super) fn unbroken(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = match command.get_after_help().map(|help| joined(&help.to_string())) {
        Some(help) => command.after_help(help),
        None => command,
    };
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, unbroken))
}

fn joined(text: &str) -> String {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match lines.last_mut() {
            Some(last) if is_prose(last) && !last.ends_with(':') && is_prose(line) => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// Below those of `mintleaf` itself.
pub(super) const EXAMPLES: &str = "\
Try it:
  mintleaf dev                                        a working node on 127.0.0.1:8080
  curl http://127.0.0.1:8080/api/segment/get/orders   an id, as Leaf gives it
  mintleaf next orders -n 5                           five ids
  mintleaf snowflake                                  an id made of time, worker and sequence

A cluster of three, one command on each machine:
  mintleaf secret new > secret                        once; give every node a copy
  mintleaf serve --node-id 1 --raft 0.0.0.0:9080 --cluster-secret-file secret \\
      --peers 1=a.example:9080,2=b.example:9080,3=c.example:9080
  mintleaf cluster status

Client commands exit with 0 on success, 1 when refused or unanswered, 2 on bad usage.";

/// Below those of `decode`.
pub(super) const DECODE: &str = "\
Examples:
  mintleaf decode 1169786042799259000
  mintleaf decode 1169786042799259000 --layout 41+10+12 --epoch-ms 1288834974657

A node knows the layout and the epoch of its cluster. Where none answers, those are assumed that clusters have
unless told otherwise, and a warning says so.";

/// Below those of `doctor`.
pub(super) const DOCTOR: &str = "\
Examples:
  mintleaf doctor --config /etc/mintleaf.toml
  mintleaf doctor --data data-1 --url http://a.example:8080

It takes the settings of `mintleaf serve`, changes nothing, and may run beside a node. What has failed keeps a node
from its work, and the exit code is 1 then; a warning is something to look at.";

/// Below those of `dev`.
pub(super) const DEV: &str = "\
Examples:
  mintleaf dev
  mintleaf dev --nodes 3 --http 127.0.0.1:8080 --data trial

Unknown tags are created on first use. Stop it with ctrl-c; started again on the same data it goes on, and repeats no
id.";

/// Below those of `serve`.
pub(super) const SERVE: &str = "\
Examples:
  mintleaf serve --config /etc/mintleaf.toml
  mintleaf serve --node-id 1 --raft 10.0.0.1:9080 --cluster-secret-file secret \\
      --peers 1=10.0.0.1:9080,2=10.0.0.2:9080,3=10.0.0.3:9080

Every flag is also an environment variable and a key of the --config file; a flag wins over the environment, and that
over the file. `mintleaf doctor` takes the same settings and says whether a node would work well with them here.

Exit codes: 0 after SIGTERM or SIGINT; 1 where starting it again may help; 2 where a setting is wrong; 3 where an
operator is needed.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_by_the_terminal_alone() {
        let text =
            "Examples:\n  mintleaf a\n  mintleaf b\n\nOne sentence that\ngoes on. Another:\n  c";
        let flowing =
            "Examples:\n  mintleaf a\n  mintleaf b\n\nOne sentence that goes on. Another:\n  c";
        assert_eq!(joined(text), flowing);
        let below = Command::new("b").after_help("x\ny");
        let root = unbroken(Command::new("a").subcommand(below));
        let help = root.find_subcommand("b").unwrap().get_after_help().unwrap().to_string();
        assert_eq!(help, "x y");
    }
}
