//! Whether a connection may have a command carried out, and its login.

use super::call::{Call, CommandOutcome, shown};
use super::parser::Args;
use crate::access::{Denial, Needs};
use crate::metrics::Protocol;

pub(super) const NO_AUTH: &str = "NOAUTH Authentication required.";
pub(super) const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// The user of a client that names none: Redis' word for it.
const DEFAULT_USER: &[u8] = b"default";

/// Which arguments of a command are tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedTags {
    /// None.
    NoTag,
    /// The first.
    First,
    /// All.
    All,
}

/// Checks whether its sender may send a command.
///
/// # Errors
/// The refusal, which is written.
#[inline]
pub(super) fn check(
    call: &mut Call<'_>,
    needs: Needs,
    tags: NamedTags,
    args: Args<'_>,
) -> Result<(), CommandOutcome> {
    let Some(tokens) = call.tokens else { return Ok(()) };
    call.session.caller.refresh(tokens);
    let caller = &call.session.caller;
    let checked = caller.check(needs).and_then(|()| match tags {
        NamedTags::NoTag => Ok(()),
        NamedTags::First => caller.check_tag(args.get(1).unwrap_or_default()),
        NamedTags::All => args.iter().skip(1).try_for_each(|tag| caller.check_tag(tag)),
    });
    checked.or_else(|denial| refuse(call, denial, args))
}

#[cold]
fn refuse(call: &mut Call<'_>, denial: Denial, args: Args<'_>) -> Result<(), CommandOutcome> {
    let name = call.session.caller.token().map_or("default", |token| token.name.as_str());
    match denial {
        Denial::NoToken | Denial::NotBearer | Denial::UnknownToken => {
            call.refuse_as(NO_AUTH, "unauthenticated")
        }
        Denial::Role { .. } => {
            let command = shown(args.get(0).unwrap_or_default()).to_ascii_lowercase();
            let text =
                format!("NOPERM User {name} has no permissions to run the '{command}' command");
            call.refuse_as(&text, "forbidden")
        }
        Denial::Tags => call.refuse_as("NOPERM No permissions to access a tag", "forbidden"),
    }
}

/// Logs in. A token names itself: a client that gives it as a password alone, or as that of the user `default`,
/// need not know its name.
///
/// # Errors
/// The refusal, which is written.
pub(super) fn log_in(
    call: &mut Call<'_>,
    user: Option<&[u8]>,
    token: &[u8],
) -> Result<(), CommandOutcome> {
    let Some(tokens) = call.tokens else {
        // As Redis without a password: its default user may log in with any.
        return if user == Some(DEFAULT_USER) { Ok(()) } else { wrong_pass(call) };
    };
    let name = user.filter(|user| *user != DEFAULT_USER);
    if call.session.caller.log_in(tokens, name, token) {
        return Ok(());
    }
    call.services.ids.metrics().auth_failed(Protocol::Resp);
    tokens.attempt_failed(call.answers.origin(), call.services.ids.now_ms());
    wrong_pass(call)
}

fn wrong_pass(call: &mut Call<'_>) -> Result<(), CommandOutcome> {
    call.refuse_as(WRONG_PASS, "unauthenticated")
}

/// Whether the connection has a role, or needs none.
pub(super) fn has_role(call: &mut Call<'_>) -> bool {
    let Some(tokens) = call.tokens else { return true };
    call.session.caller.refresh(tokens);
    !call.session.caller.is_stranger()
}
