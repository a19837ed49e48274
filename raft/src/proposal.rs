//! What is let into the log: bounds that hold before memory is taken for it, and the state machine's
//! own check.
//!
//! An entry that is committed is applied by every replica, at every start: one that cannot be would end
//! them all for good. So whatever a caller or a peer proposes is checked on the node that appends it,
//! and what fails is refused by itself, with nothing appended. [`Checked`] is made in no other way, and
//! the coalescer takes nothing else.

use std::fmt;
use std::ops::Deref;

use mintleaf_storage::codec::Blob;
use mintleaf_storage::planted;
use openraft::Vote;
use openraft::raft::AppendEntriesRequest;
use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::time::{Instant, timeout_at};

use crate::StateMachine;
use crate::error::Rejected;
use crate::node::Inner;
use crate::transport::Unproposed;
use crate::types::{RaftEntry, RaftLogId, Types};

/// Commands of one log entry at most.
pub(crate) const COMMANDS_MAX: usize = 2048;
/// Bytes of one log entry at most; an engine record holds little more.
pub(crate) const BATCH_BYTES_MAX: usize = 60 << 10;
/// Entries of one replication message at most.
pub(crate) const ENTRIES_MAX: usize = 1024;

/// What a command takes of an entry, its length included.
fn bytes_of(command: &[u8]) -> usize {
    command.len() + 4
}

/// Commands of which the state machine has said that it can apply them, or reject them.
#[derive(Clone, Debug)]
pub(crate) struct Checked(Vec<Vec<u8>>);

impl Checked {
    /// What they take of an entry.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|command| bytes_of(command)).sum()
    }
}

impl Deref for Checked {
    type Target = [Vec<u8>];

    fn deref(&self) -> &[Vec<u8>] {
        &self.0
    }
}

impl Inner {
    /// Lets commands in, or names those that are not and why. That one is above the cluster's level is
    /// said only once this node has applied whatever may have raised it.
    pub(crate) async fn let_in(
        &self,
        commands: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Checked, Unproposed> {
        let mut refused = refusals(&*self.state, &commands);
        if refused.iter().any(|refused| matches!(refused.why, Rejected::Level { .. })) {
            let caught_up = timeout_at(deadline, self.catch_up()).await;
            caught_up.ok().flatten().ok_or(Unproposed::NotAppended)?;
            refused = refusals(&*self.state, &commands);
        }
        if refused.is_empty() { Ok(Checked(commands)) } else { Err(Unproposed::Refused(refused)) }
    }

    /// Waits until this node has applied all that was committed; `None` when no quorum confirms what
    /// that is.
    async fn catch_up(&self) -> Option<()> {
        let index = self.read_index().await?;
        let mut metrics = self.raft.metrics();
        let applied = metrics.wait_for(|now| now.last_applied.map(|id| id.index) >= Some(index));
        applied.await.ok().map(|_| ())
    }
}

/// Looks at all of them, so that who proposed many learns at once which to leave out.
fn refusals(state: &dyn StateMachine, commands: &[Vec<u8>]) -> Vec<Refused> {
    if planted("appended-without-a-check") {
        return Vec::new();
    }
    let check = |(at, command): (usize, &Vec<u8>)| {
        let why = state.check(command).err()?;
        Some(Refused { at: u32::try_from(at).unwrap_or(u32::MAX), why })
    };
    commands.iter().enumerate().filter_map(check).collect()
}

/// A command that was not let in: its place among those proposed together, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Refused {
    pub(crate) at: u32,
    pub(crate) why: Rejected,
}

/// Reads the commands of an entry or a proposal, of which there may not be more than an entry holds.
pub(crate) fn commands<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Vec<u8>>, D::Error> {
    struct Commands;

    impl<'de> Visitor<'de> for Commands {
        type Value = Vec<Vec<u8>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the commands of one entry")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Self::Value, A::Error> {
            let (mut commands, mut bytes) = (Vec::new(), 0);
            while let Some(Blob(command)) = input.next_element()? {
                bytes += bytes_of(&command);
                if commands.len() == COMMANDS_MAX || bytes > BATCH_BYTES_MAX {
                    return Err(A::Error::custom("more commands than an entry holds"));
                }
                commands.push(command);
            }
            Ok(commands)
        }
    }

    input.deserialize_seq(Commands)
}

/// Reads a replication message, which has a bounded number of entries.
pub(crate) fn append<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<AppendEntriesRequest<Types>, D::Error> {
    // The fields of openraft's own, in its order.
    #[derive(Deserialize)]
    struct Append {
        vote: Vote<u64>,
        prev_log_id: Option<RaftLogId>,
        #[serde(deserialize_with = "entries")]
        entries: Vec<RaftEntry>,
        leader_commit: Option<RaftLogId>,
    }

    let Append { vote, prev_log_id, entries, leader_commit } = Append::deserialize(input)?;
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

fn entries<'de, D: Deserializer<'de>, T: DeserializeOwned>(input: D) -> Result<Vec<T>, D::Error> {
    struct Entries<T>(std::marker::PhantomData<T>);

    impl<'de, T: DeserializeOwned> Visitor<'de> for Entries<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the entries of one message")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = input.next_element()? {
                if entries.len() == ENTRIES_MAX {
                    return Err(A::Error::custom("more entries than a message holds"));
                }
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    input.deserialize_seq(Entries(std::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    use mintleaf_storage::codec;
    use openraft::{EntryPayload, LeaderId};

    use super::*;
    use crate::options::Tuning;
    use crate::transport::{PROTOCOL, Request};
    use crate::types::Batch;

    fn proposed(commands: Vec<Vec<u8>>) -> Result<Request, codec::CodecError> {
        let frame = codec::encode(PROTOCOL, &Request::Propose { commands, within_ms: 1000 });
        codec::decode(&frame).map(|(_, request)| request)
    }

    #[test]
    fn a_proposal_holds_as_much_as_an_entry_and_no_more() {
        let full = |count: usize, bytes: usize| vec![vec![7; bytes]; count];
        for held in [full(COMMANDS_MAX, 1), full(1, BATCH_BYTES_MAX - 4), full(0, 0)] {
            let Ok(Request::Propose { commands, .. }) = proposed(held.clone()) else {
                panic!("{} commands were refused", held.len());
            };
            assert_eq!(commands, held);
        }
        for much in [
            full(COMMANDS_MAX + 1, 0),
            full(1, BATCH_BYTES_MAX - 3),
            full(2, BATCH_BYTES_MAX / 2),
            full(1, 200_000),
        ] {
            assert!(proposed(much).is_err());
        }
    }

    #[test]
    fn a_frame_of_nothing_but_empty_commands_is_refused_at_the_first_too_many() {
        let told = proposed(vec![Vec::new(); 1_000_000]).unwrap_err().to_string();
        assert!(told.contains("more commands than an entry holds"), "{told}");
    }

    #[test]
    fn a_message_holds_as_many_entries_as_openraft_sends_and_no_more() {
        let entry = |index| RaftEntry {
            log_id: RaftLogId::new(LeaderId::new(1, 1), index),
            payload: EntryPayload::Normal(Batch { now_ms: 1, commands: vec![vec![1]] }),
        };
        let read = |count: u64| {
            let message = AppendEntriesRequest {
                vote: Vote::new_committed(1, 1),
                prev_log_id: None,
                entries: (0..count).map(entry).collect(),
                leader_commit: None,
            };
            let frame = codec::encode(PROTOCOL, &Request::Append(message.clone()));
            let (_, read): (u8, Request) = codec::decode(&frame)?;
            assert_eq!(format!("{read:?}"), format!("{:?}", Request::Append(message)));
            Ok::<_, codec::CodecError>(())
        };
        let sent = Tuning::default().config().unwrap().max_payload_entries;
        assert_eq!(u64::try_from(ENTRIES_MAX).unwrap(), sent);
        read(sent).unwrap();
        assert!(read(sent + 1).is_err());
    }
}
