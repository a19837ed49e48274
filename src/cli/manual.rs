//! `mintleaf completions` and `mintleaf man`: completions for shells and pages for readers, made from the arguments.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
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
    let count = write_pages(&with_usage(command), &args.dir).map_err(failed)?;
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

/// Writes the page of a command, and those of its commands. Returns how many these are.
fn write_pages(command: &Command, dir: &Path) -> io::Result<usize> {
    let mut count = 1;
    for below in command.get_subcommands() {
        count += write_pages(below, dir)?;
    }
    let (page, mut text) = (Man::new(command.clone()), Vec::new());
    page.render(&mut text)?;
    fs::write(dir.join(page.get_filename()), with_examples(&String::from_utf8_lossy(&text)))?;
    Ok(count)
}

/// A page whose indented lines, the examples, stay as they are: a reader copies them, so none may be filled up or broken.
fn with_examples(page: &str) -> String {
    let (mut text, mut is_filled) = (String::new(), true);
    for line in page.lines() {
        if is_filled == line.starts_with(' ') {
            is_filled = !is_filled;
            text += if is_filled { ".fi\n" } else { ".nf\n" };
        }
        text += line;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_examples_are_neither_filled_nor_broken() {
        let page = ".SH EXTRA\nExamples:\n  a b\n  c\n\nMore.\n";
        let kept = ".SH EXTRA\nExamples:\n.nf\n  a b\n  c\n.fi\n\nMore.\n";
        assert_eq!(with_examples(page), kept);
    }
}
