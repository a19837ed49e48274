//! What every command of the Redis protocol needs. The commands do not compile without a row of this table, and
//! `docs/security.md` shows it.

use super::role::Needs;

/// Which arguments of a command are tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedTags {
    /// None.
    None,
    /// The first.
    First,
    /// All.
    All,
}

/// What a command of the Redis protocol needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandRule {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) tags: NamedTags,
}

const fn rule(name: &'static str, needs: Needs, tags: NamedTags) -> CommandRule {
    CommandRule { name, needs, tags }
}

/// Every command of the Redis protocol.
pub(crate) const COMMANDS: [CommandRule; 32] = [
    rule("INCR", Needs::Issue, NamedTags::First),
    rule("INCRBY", Needs::Issue, NamedTags::First),
    rule("MINT", Needs::Issue, NamedTags::First),
    rule("HINCRBY", Needs::Issue, NamedTags::First),
    rule("REGISTER", Needs::Issue, NamedTags::First),
    rule("SETNX", Needs::Issue, NamedTags::First),
    rule("SET", Needs::Issue, NamedTags::First),
    rule("HGET", Needs::AnyRole, NamedTags::First),
    rule("SNOWFLAKE", Needs::Issue, NamedTags::None),
    rule("GET", Needs::Read, NamedTags::First),
    rule("EXISTS", Needs::Read, NamedTags::All),
    rule("TYPE", Needs::Read, NamedTags::First),
    rule("PING", Needs::AnyRole, NamedTags::None),
    rule("ECHO", Needs::AnyRole, NamedTags::None),
    rule("SELECT", Needs::AnyRole, NamedTags::None),
    rule("CLIENT", Needs::AnyRole, NamedTags::None),
    rule("COMMAND", Needs::AnyRole, NamedTags::None),
    rule("CONFIG", Needs::AnyRole, NamedTags::None),
    rule("INFO", Needs::AnyRole, NamedTags::None),
    rule("CLUSTER", Needs::AnyRole, NamedTags::None),
    rule("READONLY", Needs::AnyRole, NamedTags::None),
    rule("READWRITE", Needs::AnyRole, NamedTags::None),
    rule("ASKING", Needs::AnyRole, NamedTags::None),
    rule("MULTI", Needs::AnyRole, NamedTags::None),
    rule("EXEC", Needs::AnyRole, NamedTags::None),
    rule("DISCARD", Needs::AnyRole, NamedTags::None),
    // HELLO asks for a role itself, because it may bring the token.
    rule("HELLO", Needs::Nothing, NamedTags::None),
    rule("AUTH", Needs::Nothing, NamedTags::None),
    rule("RESET", Needs::Nothing, NamedTags::None),
    rule("QUIT", Needs::Nothing, NamedTags::None),
    rule("POST", Needs::Nothing, NamedTags::None),
    rule("HOST:", Needs::Nothing, NamedTags::None),
];

/// The rule of a command. In a constant, a command without a rule does not compile.
pub(crate) const fn command(name: &'static str) -> CommandRule {
    let mut at = 0;
    while at < COMMANDS.len() {
        if is_equal(COMMANDS[at].name.as_bytes(), name.as_bytes()) {
            return COMMANDS[at];
        }
        at += 1;
    }
    panic!("the command has no row in the matrix of roles")
}

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests;
