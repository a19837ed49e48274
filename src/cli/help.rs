//! Puts the commands under headings, and holds the texts that the help shows below the arguments of a command. Each
//! paragraph of these is one line, which the terminal wraps.

use std::fmt::Write;

use clap::Command;

/// The commands as the help shows them. A command that is missing here appears under the last heading.
pub(super) const GROUPS: [(&str, &[&str]); 6] = [
    ("Try", &["dev", "init"]),
    ("Take ids", &["next", "sequence", "register", "snowflake", "decode"]),
    ("Tags", &["tag", "import", "export"]),
    (
        "Cluster",
        &["serve", "cluster", "ready", "doctor", "audit", "worker", "pool", "snowflake-floor"],
    ),
    ("Files", &["secret", "token", "cert", "backup", "inspect", "restore"]),
    ("Shell", &["completions", "man", "help"]),
];

/// The same command, with help that shows its commands in groups.
pub(super) fn grouped(root: Command) -> Command {
    let mut left: Vec<Command> = root.get_subcommands().cloned().collect();
    let header = *root.get_styles().get_header();
    let mut shown = String::new();
    for (number, (heading, names)) in (1..).zip(GROUPS) {
        let place = |it: &Command| names.iter().position(|name| *name == it.get_name());
        let belongs = |it: &Command| place(it).is_some() || number == GROUPS.len();
        let (within, others): (Vec<_>, Vec<_>) = left.into_iter().partition(belongs);
        let within = within.into_iter().map(|it| {
            let place = place(&it).unwrap_or(names.len());
            it.display_order(place)
        });
        left = others;
        let group = Command::new("group").disable_help_flag(true).disable_help_subcommand(true);
        let group = group.max_term_width(100).help_template("{subcommands}").subcommands(within);
        let list = group.clone().render_help();
        // Writing to a `String` cannot fail.
        let _ = write!(shown, "{header}{heading}:{header:#}\n{}\n", list.ansi());
    }
    root.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{shown}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// Shown below the arguments of `mintleaf` itself.
pub(super) const EXAMPLES: &str = "\
Try it:
  mintleaf dev                                        a working node on 127.0.0.1:8080
  curl http://127.0.0.1:8080/api/segment/get/orders   an id, as Leaf gives it
  mintleaf next orders -n 5                           five ids
  mintleaf snowflake                                  an id made of time, worker and sequence

A cluster of three, one command on each machine:
  mintleaf secret new secret                     once; give every node a copy
  mintleaf token new ops --role admin --out ops.token > auth.toml    likewise
  chmod 600 auth.toml                            a node refuses one that other users can read
  mintleaf serve --node-id 1 --raft 0.0.0.0:9080 --cluster-secret-file secret \\
      --peers 1=a.example:9080,2=b.example:9080,3=c.example:9080 \\
      --http 0.0.0.0:8080 --auth-file auth.toml
  mintleaf cluster status --token-file ops.token

Client commands exit with 0 on success, 1 when refused or unanswered, 2 on bad usage.";

/// Below those of `decode`.
pub(super) const DECODE: &str = "\
Examples:
  mintleaf decode 1169786042799259000
  mintleaf decode 1169786042799259000 --layout 41+10+12 --epoch-ms 1288834974657

A node knows the layout and the epoch of its cluster. If none answers, the defaults are assumed, with a warning.";

/// Below those of `doctor`.
pub(super) const DOCTOR: &str = "\
Examples:
  mintleaf doctor --config /etc/mintleaf.toml
  mintleaf doctor --data data-1 --url http://a.example:8080

It takes the settings of `mintleaf serve`, changes nothing, and may run beside a node. A failed check means that a \
node, or this command, cannot do its work, and the exit code is then 1; a warning deserves a look.";

/// Below those of `dev`.
pub(super) const DEV: &str = "\
Examples:
  mintleaf dev
  mintleaf dev --nodes 3 --http 127.0.0.1:8080 --data trial

Unknown tags are created on first use. Ctrl-C stops it. Started again on the same data, it carries on and repeats no \
id.";

/// Below those of `serve`.
pub(super) const SERVE: &str = "\
Examples:
  mintleaf serve --config /etc/mintleaf.toml
  mintleaf serve --node-id 1 --raft 10.0.0.1:9080 --cluster-secret-file secret \\
      --peers 1=10.0.0.1:9080,2=10.0.0.2:9080,3=10.0.0.3:9080

Every flag is also an environment variable and a key of the --config file; a flag takes precedence over the \
environment, and the environment over the file. `mintleaf doctor` takes the same settings and says whether a node would \
run well with them here.

Exit codes: 0 after SIGTERM or SIGINT; 1 if starting it again may help; 2 if a setting is wrong; 3 if an operator is \
needed.";
