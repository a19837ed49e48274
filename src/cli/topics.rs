//! `mintleaf help`: the help of a command, or a section of the guides that every binary holds.

use clap::error::ErrorKind;
use clap::{Args, Command};

use super::failure::Failure;
use super::output::{print, print_styled};
use super::table::shown;
use crate::config::nearest;

/// The operating guide, and the page about security.
const PAGES: [&str; 8] = [
    include_str!("../../docs/operating/README.md"),
    include_str!("../../docs/operating/cluster.md"),
    include_str!("../../docs/operating/recovery.md"),
    include_str!("../../docs/operating/upgrading.md"),
    include_str!("../../docs/operating/ids.md"),
    include_str!("../../docs/operating/monitoring.md"),
    include_str!("../../docs/operating/bounds.md"),
    include_str!("../../docs/security.md"),
];

/// What to explain.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  mintleaf help tag create\n  mintleaf help quorum-loss\n  mintleaf help topics"
)]
pub struct HelpArgs {
    /// A command, or a topic; `topics` lists them
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
}

pub(super) fn run(args: &HelpArgs, root: Command) -> Result<(), Failure> {
    if let [topic] = &args.words[..] {
        if topic == "topics" {
            return print(&(topics().join("\n") + "\n"));
        }
        if let Some(section) = section(topic) {
            return print(&without_links(&section));
        }
    }
    let commands = commands(&root, "");
    let words = args.words.iter().map(String::as_str);
    match root.try_get_matches_from(["mintleaf"].into_iter().chain(words).chain(["--help"])) {
        Err(help) if help.kind() == ErrorKind::DisplayHelp => {
            print_styled(&help.render().ansi().to_string())
        }
        _ => Err(unknown(&args.words.join(" "), &commands)),
    }
}

/// The failure about a word that is neither a command nor a topic: it names those whose name has it, or else the one whose
/// name is most like it.
fn unknown(word: &str, commands: &[String]) -> Failure {
    let topics = topics();
    let known = || commands.iter().chain(&topics).map(String::as_str);
    let mut near: Vec<&str> = known().filter(|name| name.contains(word)).collect();
    if word.is_empty() || near.is_empty() {
        near = nearest(word, known()).into_iter().collect();
    }
    let near = match &near[..] {
        [] => String::new(),
        near => format!(": did you mean {}?", near.join(" or ")),
    };
    let why = format!("there is no command or topic {}{near}", shown(word));
    Failure::hinting(why, "mintleaf --help lists the commands, mintleaf help topics the topics")
        .exiting(2)
}

/// The names of all commands, those below others with what stands before them: `tag create`.
fn commands(of: &Command, before: &str) -> Vec<String> {
    let named = |command: &Command| {
        let name = format!("{before}{}", command.get_name());
        let below = commands(command, &format!("{name} "));
        [vec![name], below].concat()
    };
    of.get_subcommands().flat_map(named).collect()
}

/// The headings of a page below its title, each with the line that it is on and its level.
fn headings(page: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut is_code = false;
    page.lines().enumerate().filter_map(move |(at, line)| {
        is_code ^= line.starts_with("```");
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        (level > 1 && !is_code).then_some((at, level, text.trim()))
    })
}

/// All topics, in the order of the pages.
fn topics() -> Vec<String> {
    PAGES.iter().flat_map(|page| headings(page)).map(|(_, _, heading)| anchor(heading)).collect()
}

/// The section whose heading has this anchor.
fn section(topic: &str) -> Option<String> {
    PAGES.iter().find_map(|page| {
        let mut rest = headings(page).skip_while(|(_, _, heading)| anchor(heading) != topic);
        let (begin, level, _) = rest.next()?;
        let end = rest.find(|(_, other, _)| *other <= level).map(|(end, _, _)| end);
        let lines = page.lines().take(end.unwrap_or(usize::MAX)).skip(begin);
        Some(lines.map(|line| format!("{line}\n")).collect())
    })
}

/// The anchor of a heading, as links to it name it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A text with the words of its links, but without their targets, which lead nowhere in a terminal.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or(("", part));
        match plain.rfind('[').filter(|_| !target.is_empty()) {
            Some(open) => drop(plain.remove(open)),
            None => plain += "](",
        }
        plain += rest;
    }
    plain.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_the_next_of_its_rank_begins() {
        let whole = section("backup-and-restore").unwrap();
        assert!(whole.starts_with("## Backup and restore\n"), "{whole}");
        assert!(whole.contains("### What no copy knows\n"), "{whole}");
        let inner = section("what-no-copy-knows").unwrap();
        assert!(whole.contains(&inner) && !inner.contains("### From one"), "{inner}");
        assert_eq!(section("recovery"), None, "a title is not a section");
    }

    #[test]
    fn no_two_topics_are_alike_and_none_is_a_command() {
        let mut topics = topics();
        topics.push("topics".to_owned());
        let count = topics.len();
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), count, "{topics:?}");
        let commands: Vec<_> = <crate::cli::Cli as clap::CommandFactory>::command()
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect();
        assert!(topics.iter().all(|topic| !commands.contains(topic)), "{topics:?}");
    }

    #[test]
    fn links_leave_their_words() {
        assert_eq!(without_links("a [b\nc](d.md#e), `[f]` and [g](h)\n"), "a b\nc, `[f]` and g\n");
    }
}
