//! `mintleaf completions` and `mintleaf man`: completions for shells and pages for readers, made from the arguments.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use super::failure::Failure;
use super::output::{print, print_json};

/// Which shell.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mintleaf completions bash > ~/.local/share/bash-completion/completions/mintleaf
  mintleaf completions zsh > \"${fpath[1]}/_mintleaf\"
  mintleaf completions fish > ~/.config/fish/completions/mintleaf.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Where to write the pages.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  mintleaf man ~/.local/share/man/man1\n  man mintleaf-tag-create"
)]
pub struct ManArgs {
    /// The directory to write to; it is created if needed, and older pages of mintleaf in it are replaced
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "mintleaf", &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(super) fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let dir = args.dir.display();
    let failed = |error| Failure::new(format!("cannot write to {dir}: {error}"));
    fs::create_dir_all(&args.dir).map_err(failed)?;
    let count = pages(&command);
    clap_mangen::generate_to(with_usage(command), &args.dir).map_err(failed)?;
    if args.json {
        return print_json(&json!({ "dir": args.dir.display().to_string(), "pages": count }));
    }
    print(&format!("{dir}: {count} pages; man -l {dir}/mintleaf.1 shows the first\n"))
}

/// The same commands, each with a synopsis as its help has it: options that every command takes would fill it.
fn with_usage(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    command.override_usage(usage).mut_subcommands(with_usage)
}

/// How many pages a command takes: its own, and those of its commands.
fn pages(command: &Command) -> usize {
    1 + command.get_subcommands().map(pages).sum::<usize>()
}
