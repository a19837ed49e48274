//! What was typed, and what the environment adds to it: errors name the one that is wrong.

use std::collections::BTreeSet;
use std::env;
use std::error::Error as _;
use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error, FromArgMatches};

use crate::config::{Sources, nearest};

/// Begin of all variables that settings are read from.
const OWN: &str = "MINTLEAF_";

/// Reads the command line, and how each setting of its command was given. Ends the process if it asks for help or
/// cannot be understood.
pub(super) fn parse<C: FromArgMatches>(root: &Command) -> (C, Sources) {
    let words: Vec<OsString> = env::args_os().collect();
    let read = read(root.clone(), words.clone());
    read.unwrap_or_else(|error| retold(error, root.clone(), &words).exit())
}

fn read<C: FromArgMatches>(root: Command, words: Vec<OsString>) -> Result<(C, Sources), Error> {
    let matches = root.try_get_matches_from(words)?;
    let sources = matches.subcommand().map(|(_, matches)| Sources::new(matches.clone()));
    Ok((C::from_arg_matches(&matches)?, sources.unwrap_or_default()))
}

/// The error in terms of what the user wrote. It names a variable if that is what is wrong, and its usage shows no flag
/// that a variable gave. It does not repeat what may hold a secret.
fn retold(mut error: Error, mut root: Command, words: &[OsString]) -> Error {
    root.build();
    let mut command = &mut root;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        if command.find_subcommand(word).is_some() {
            command = command.find_subcommand_mut(word).expect("it was found");
        }
    }
    if let Some(plainer) = without_parsers_words(&error, command) {
        error = plainer;
    }
    hide_secrets(&mut error, command, words);
    // How a name that looks like a flag is given helps few who mistyped a flag.
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    suggest_count(&mut error, command);
    suggest_flag(&mut error, command);
    if let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg)
        && let Some(arg) = command.get_arguments().find(|arg| arg.to_string() == *wrong)
        && let Some(variable) = of_environment(arg, words)
    {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    if error.get(ContextKind::Usage).is_some() {
        let usage: StyledStr = command.render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

/// The same error where a parser of numbers refused a text, with what is wanted in place of the parser's own words.
fn without_parsers_words(error: &Error, command: &Command) -> Option<Error> {
    let of_parser = ["invalid digit found in string", "cannot parse integer from empty string"];
    let said = error.source()?.to_string();
    of_parser.contains(&said.as_str()).then(|| {
        let mut plainer = Error::new(error.kind()).with_cmd(command);
        for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue] {
            if let Some(value) = error.get(kind) {
                plainer.insert(kind, value.clone());
            }
        }
        suggest(&mut plainer, "it must be a whole number in digits, such as 1000000");
        plainer
    })
}

/// Says how a count is given, where a bare number was.
fn suggest_count(error: &mut Error, command: &Command) {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return };
    let is_count = error.kind() == ErrorKind::UnknownArgument && wrong.parse::<u64>().is_ok();
    if is_count && command.get_arguments().any(|arg| arg.get_long() == Some("count")) {
        let tip = format!("-n {wrong} takes that many");
        suggest(error, &tip);
    }
}

/// Names the flag that takes a word, where the word was given as a flag of its own or to another flag.
fn suggest_flag(error: &mut Error, command: &Command) {
    let wrong = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidValue => ContextKind::InvalidValue,
        _ => return,
    };
    let Some(ContextValue::String(wrong)) = error.get(wrong) else { return };
    let word = wrong.trim_start_matches('-');
    let takes = |arg: &&Arg| arg.get_possible_values().iter().any(|value| value.get_name() == word);
    let flag = command.get_arguments().filter(takes).find_map(Arg::get_long);
    if let Some(flag) = flag.filter(|_| !word.contains(|c: char| !c.is_ascii_alphabetic())) {
        let tip = format!("did you mean --{flag} {word}?");
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedValue);
        suggest(error, &tip);
    }
}

fn suggest(error: &mut Error, tip: &str) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.to_owned().into()]));
}

/// Takes possible secrets out of an error: values of settings whose variable the help does not show, and words behind
/// them, which may be the rest of such a value without quotes.
fn hide_secrets(error: &mut Error, command: &Command, words: &[OsString]) {
    const HIDDEN: &str = "(not shown)";
    let secret: Vec<_> = command.get_arguments().filter(|it| it.is_hide_env_values_set()).collect();
    let wrong = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(wrong)) => wrong.clone(),
        _ => String::new(),
    };
    if secret.iter().any(|arg| arg.to_string() == wrong) {
        error.insert(ContextKind::InvalidValue, ContextValue::String(HIDDEN.to_owned()));
    }
    let begins = |word: &OsString| secret.iter().any(|arg| gives(word, arg));
    let behind = words.iter().position(begins).map_or(words.len(), |at| at + 1);
    let is_behind = |text: &str| words[behind..].iter().any(|word| word.to_string_lossy() == text);
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        let strays = match error.get(kind) {
            Some(ContextValue::String(wrong)) => !wrong.starts_with('-') && is_behind(wrong),
            _ => false,
        };
        if strays {
            error.insert(kind, ContextValue::String(HIDDEN.to_owned()));
            for tip in [ContextKind::Suggested, ContextKind::SuggestedSubcommand] {
                error.remove(tip);
            }
        }
    }
}

/// The variable that gives this flag, if one does and no word of the command line gives it.
fn of_environment(arg: &Arg, words: &[OsString]) -> Option<String> {
    let variable = arg.get_env().filter(|variable| env::var_os(variable).is_some())?;
    let is_typed = words.iter().any(|word| gives(word, arg));
    (!is_typed).then(|| variable.to_string_lossy().into_owned())
}

/// Whether this word of a command line gives the flag of an argument.
fn gives(word: &OsString, arg: &Arg) -> bool {
    let (word, flag) = (word.to_string_lossy(), arg.get_long());
    let behind = |flag| word.strip_prefix("--")?.strip_prefix(flag);
    flag.and_then(behind).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// A warning for each variable of the environment that looks like a setting but is not one.
pub(super) fn unknown_variables(command: &Command) -> Vec<String> {
    let mut known = BTreeSet::new();
    collect_variables(command, &mut known);
    let set = env::vars_os().filter_map(|(name, value)| {
        Some((name.to_str()?.to_owned(), value.to_string_lossy().into_owned()))
    });
    let mut unknown: Vec<_> =
        set.filter_map(|(name, value)| complaint(&name, &value, &known)).collect();
    unknown.sort();
    unknown
}

fn collect_variables(command: &Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(Arg::get_env);
    known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    command.get_subcommands().for_each(|command| collect_variables(command, known));
}

fn complaint(name: &str, value: &str, known: &BTreeSet<String>) -> Option<String> {
    let rest = name.strip_prefix(OWN)?;
    if known.contains(name) || names_a_service(rest, value) {
        return None;
    }
    let others = known.iter().filter_map(|known| known.strip_prefix(OWN));
    let nearest =
        nearest(rest, others).map_or(String::new(), |near| format!(": did you mean {OWN}{near}?"));
    Some(format!("{name} is set, and no setting{nearest}"))
}

/// Whether the rest of a variable's name is like the names that Kubernetes and Docker set in containers next to a
/// service whose name begins with `mintleaf`: `SERVICE_HOST`, `PORT_8080_TCP_ADDR` and the like.
fn names_a_service(rest: &str, value: &str) -> bool {
    ["SERVICE_HOST", "SERVICE_PORT", "PORT_"].iter().any(|part| rest.contains(part))
        || rest.ends_with("PORT") && value.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_no_setting_is_named_with_the_one_that_may_be_meant() {
        let known = ["HTTP", "PEERS", "URL"].map(|name| format!("{OWN}{name}")).into();
        let told = |name: &str| complaint(&format!("{OWN}{name}"), "1", &known);
        assert_eq!(told("HTTP"), None);
        assert_eq!(
            told("HTPP").unwrap(),
            "MINTLEAF_HTPP is set, and no setting: did you mean MINTLEAF_HTTP?"
        );
        assert_eq!(
            told("PEER").unwrap(),
            "MINTLEAF_PEER is set, and no setting: did you mean MINTLEAF_PEERS?"
        );
        assert_eq!(
            told("COLOUR_OF_LEAVES").unwrap(),
            "MINTLEAF_COLOUR_OF_LEAVES is set, and no setting"
        );
        assert_eq!(complaint("PATH", "/bin", &known), None);
    }

    #[test]
    fn what_kubernetes_says_of_services_is_no_mistake() {
        let known = BTreeSet::new();
        for name in [
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_HTTP",
            "PORT_8080_TCP",
            "HTTP_PORT_8080_TCP_ADDR",
        ] {
            assert_eq!(complaint(&format!("{OWN}{name}"), "10.0.0.1", &known), None, "{name}");
        }
        assert_eq!(complaint("MINTLEAF_PORT", "tcp://10.0.0.1:8080", &known), None);
        assert!(complaint("MINTLEAF_PORT", "8080", &known).is_some());
    }
}
