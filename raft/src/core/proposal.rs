//! Proposals, and the check that every command passes before it is appended.
//!
//! Every replica applies a committed entry, at every start. An entry that cannot be applied would end all of them for
//! good. So the node that appends commands checks them first, whether a caller or a peer proposed them. Only this
//! check creates [`CheckedCommands`], and the batcher takes nothing else.

use std::ops::Deref;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{Delivery, ProposeError};
use crate::message::RefusedCommand;
use crate::state_machine::StateMachine;
use crate::types::bounds::bytes_of;

/// Commands of one caller, kept together and in order.
pub(crate) struct Proposal {
    pub(crate) commands: CheckedCommands,
    pub(crate) delivery: Delivery,
    pub(crate) deadline: Instant,
    /// Another node forwarded the proposal, and decides itself where to try next.
    pub(crate) forwarded: bool,
    pub(crate) answer: oneshot::Sender<Result<Vec<Vec<u8>>, ProposeError>>,
}

impl Proposal {
    // The send fails if the caller's own deadline has passed, because the receiver is gone. That is harmless.
    pub(crate) fn settle(self, result: Result<Vec<Vec<u8>>, ProposeError>) {
        let _ = self.answer.send(result);
    }
}

/// Commands that the state machine has accepted: it can apply them.
#[derive(Clone, Debug)]
pub(crate) struct CheckedCommands(Vec<Vec<u8>>);

impl CheckedCommands {
    /// Checks all commands, so that the proposer of several learns at once which to leave out. If the state machine
    /// refuses some, the error lists those and hands the commands back.
    pub(crate) fn check(
        state: &dyn StateMachine,
        commands: Vec<Vec<u8>>,
    ) -> Result<Self, (Vec<RefusedCommand>, Vec<Vec<u8>>)> {
        let refused = refusals(state, &commands);
        if refused.is_empty() { Ok(Self(commands)) } else { Err((refused, commands)) }
    }

    /// The bytes of an entry that the commands occupy.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|command| bytes_of(command)).sum()
    }
}

impl Deref for CheckedCommands {
    type Target = [Vec<u8>];

    fn deref(&self) -> &[Vec<u8>] {
        &self.0
    }
}

fn refusals(state: &dyn StateMachine, commands: &[Vec<u8>]) -> Vec<RefusedCommand> {
    let check = |(at, command): (usize, &Vec<u8>)| {
        let why = state.check(command).err()?;
        Some(RefusedCommand { at: u32::try_from(at).unwrap_or(u32::MAX), why })
    };
    commands.iter().enumerate().filter_map(check).collect()
}
