//! The typed face of the replicated log: commands in, responses out, and the state they made.

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

use mintleaf_raft::{
    FrozenState, Handle, PROPOSAL_BYTES_MAX, ProposeError, Rejected, Retry, StateMachine,
};
use mintleaf_storage::planted;
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::state::{Command, Response, State};
use crate::tag::TAG_CHARS_MAX;

/// Commands of one [`Replica::propose_all`]: that many of the longest grabs fit a proposal.
pub const COMMANDS_MAX: usize = PROPOSAL_BYTES_MAX / GRAB_BYTES_MAX;

/// A grab: format, checksum, variant, size, and a tag of the longest characters.
const GRAB_BYTES_MAX: usize = 16 + 4 * TAG_CHARS_MAX;

/// Told on every node when a tag is deleted, whoever asked for it.
pub trait DeletionListener: Send + Sync + 'static {
    /// A tag was deleted.
    fn tag_deleted(&self, tag: &str);

    /// The whole state was replaced by a snapshot; only the tags in it are left.
    fn state_replaced(&self, state: &State);
}

/// This node's copy of the [`State`], driven by the log.
pub struct StateReplica {
    state: RwLock<State>,
    listener: Arc<dyn DeletionListener>,
}

impl StateReplica {
    /// An empty copy, which the log will fill.
    pub fn new(listener: Arc<dyn DeletionListener>) -> Self {
        Self { state: RwLock::default(), listener }
    }
}

impl StateMachine for StateReplica {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        let unfit = |why: &dyn fmt::Display| Rejected::Unfit(why.to_string());
        let command = Command::decode(command).map_err(|error| unfit(&error))?;
        command.check().map_err(|bound| unfit(&bound))
    }

    fn apply(&self, now_ms: u64, command: &[u8]) -> Vec<u8> {
        // A command that this release cannot read was written by a later one. Skipping it would
        // let this replica differ from the others, so the node stops.
        let command = Command::decode(command)
            .unwrap_or_else(|error| panic!("committed command cannot be applied: {error}"));
        let response = self.state.write().apply(now_ms, &command);
        if let (Command::DeleteTag { tag }, Response::Deleted) = (&command, &response) {
            self.listener.tag_deleted(tag.as_str());
        }
        response.encode()
    }

    fn freeze(&self) -> FrozenState {
        let frozen = self.state.read().freeze();
        Box::new(move |out| {
            let mut out = BufWriter::new(out);
            frozen.write_to(&mut out)?;
            out.flush()
        })
    }

    fn restore(&self, from: &mut dyn Read) -> io::Result<()> {
        let restored = State::restore(BufReader::new(from)).map_err(io::Error::other)?;
        // The old one may take a while to free; nobody shall wait for that.
        let old = std::mem::replace(&mut *self.state.write(), restored);
        drop(old);
        self.listener.state_replaced(&self.state.read());
        Ok(())
    }
}

/// Proposes commands and reads the state they made.
pub struct Replica {
    node: Handle,
    state: Arc<StateReplica>,
    /// When the last read barrier that succeeded began.
    last_barrier: Mutex<Option<Instant>>,
}

impl Replica {
    /// Joins a node with the state that it drives.
    pub fn new(node: Handle, state: Arc<StateReplica>) -> Self {
        Self { node, state, last_barrier: Mutex::new(None) }
    }

    /// The consensus node behind it: status and membership.
    pub fn node(&self) -> &Handle {
        &self.node
    }

    /// Looks at the local state, which may lag behind the leader's.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.state.read())
    }

    /// Has one command applied, at most once.
    ///
    /// # Errors
    /// See [`ProposeError`]; always by the deadline.
    pub async fn propose(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Response, ProposeError> {
        let proposed = self.node.propose(vec![command.encode()], Retry::Never, deadline).await;
        if proposed.is_err() && planted("tag-acknowledged-unknown") {
            return Ok(self.guess(std::slice::from_ref(command)).remove(0));
        }
        Ok(decode(&proposed?).remove(0))
    }

    /// Has commands applied together that may be applied twice: at most [`COMMANDS_MAX`].
    ///
    /// # Errors
    /// See [`ProposeError`]; always by the deadline.
    pub async fn propose_all(
        &self,
        commands: &[Command],
        deadline: Instant,
    ) -> Result<Vec<Response>, ProposeError> {
        let encoded = commands.iter().map(Command::encode).collect();
        let proposed = self.node.propose(encoded, Retry::Always, deadline).await;
        if proposed.is_err() && planted("grab-answered-unknown") {
            return Ok(self.guess(commands));
        }
        Ok(decode(&proposed?))
    }

    /// What commands would come to, were the local state the cluster's: only planted bugs ask.
    fn guess(&self, commands: &[Command]) -> Vec<Response> {
        let mut state = self.read(State::clone);
        commands.iter().map(|command| state.apply(0, command)).collect()
    }

    /// Waits until the local state holds everything committed before the call. Callers that wait
    /// at the same time share one round to the quorum.
    ///
    /// # Errors
    /// See [`ProposeError`]; always by the deadline.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ProposeError> {
        if planted("stale-read-called-linearizable") {
            return Ok(());
        }
        let asked = Instant::now();
        let late = |_| ProposeError::Unavailable("no quorum confirmed a leader".to_owned());
        let mut last_barrier =
            timeout_at(deadline, self.last_barrier.lock()).await.map_err(late)?;
        if last_barrier.is_some_and(|began| began >= asked || planted("barrier-of-before-shared")) {
            return Ok(());
        }
        let began = Instant::now();
        self.node.read_barrier(deadline).await?;
        *last_barrier = Some(began);
        Ok(())
    }
}

// The log answers what `StateReplica` encoded, in this very process or in another of this release
// or a neighbouring one; anything else is a broken invariant.
fn decode(replies: &[Vec<u8>]) -> Vec<Response> {
    let decode = |reply: &Vec<u8>| {
        Response::decode(reply).unwrap_or_else(|error| panic!("reply cannot be read: {error}"))
    };
    replies.iter().map(decode).collect()
}
