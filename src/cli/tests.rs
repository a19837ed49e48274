//! The arguments of the command line.

use super::*;

#[test]
fn arguments_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn an_update_must_change_something() {
    let update = |rest: &[&str]| {
        let line = ["mintleaf", "tag", "update", "orders"];
        Cli::try_parse_from(line.iter().chain(rest)).is_ok()
    };
    assert!(!update(&[]));
    assert!(update(&["--step", "5"]));
    assert!(update(&["--rate-limit", "none", "--frozen", "false"]));
    assert!(update(&["--rate-limit", "5"]));
    assert!(!update(&["--rate-limit", "null"]));
    assert!(update(&["--max-id", "9223372036854775808", "--description", ""]));
}

#[test]
fn urls_are_taken_before_and_after_the_command() {
    let line = ["mintleaf", "tag", "--url", "http://a:1", "list", "--url", "http://b:2"];
    assert!(Cli::try_parse_from(line).is_ok());
    let line = ["mintleaf", "next", "orders", "--url", "http://a:1,http://b:2"];
    let Ok(CliCommand::Other(Command::Client(command))) =
        Cli::try_parse_from(line).map(|cli| cli.command)
    else {
        panic!("not parsed as a command that asks a node");
    };
    let ClientCommand::Next(Asking { connect, .. }) = *command else {
        panic!("not parsed as `next`");
    };
    assert_eq!(connect.url_count(), 2);
    assert!(Cli::try_parse_from(["mintleaf", "next", "orders", "--url", "ftp://a"]).is_err());
}

#[test]
fn every_command_stands_under_a_heading_of_the_help() {
    let mut command = Cli::command();
    command.build();
    let named = |name: &str| help::GROUPS.iter().any(|(_, names)| names.contains(&name));
    let names = command.get_subcommands().map(clap::Command::get_name);
    let without: Vec<_> = names.filter(|name| !named(name)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn every_command_shows_an_example() {
    fn look(command: &clap::Command, missing: &mut Vec<String>) {
        let name = command.get_bin_name().unwrap_or_default().to_owned();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if !command.has_subcommands()
            && !help.contains(&format!("{name} "))
            && !help.contains(&name)
        {
            missing.push(name);
        }
        command
            .get_subcommands()
            .filter(|it| it.get_name() != "help")
            .for_each(|it| look(it, missing));
    }
    let mut command = Cli::command();
    command.build();
    let mut missing = Vec::new();
    look(&command, &mut missing);
    assert!(missing.is_empty(), "no example of {missing:?}");
}
