//! The replicated log with types: commands in, responses out, and the state that the commands made.
//! [`restore`] makes a new cluster of a backup, or of a directory that survived.

pub mod restore;

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use mintleaf_core::encoding::{
    SnapshotError, decode_command, decode_response, encode_command, encode_response,
    read_snapshot_up_to, write_snapshot,
};
use mintleaf_core::limits::{KEY_BYTES_MAX, TAG_CHARS_MAX};
use mintleaf_core::shape::RootKey;
use mintleaf_core::state::{
    self, Change, Command, LEVEL_MAX, Protection, Response, State, first_version_of,
};
use mintleaf_core::tag::BizTag;
use mintleaf_core::version::VERSION;
use mintleaf_raft::{
    Delivery, FrozenState, Handle, Newer, PROPOSAL_BYTES_MAX, ProposeError, Rejected, Release,
    RestoreError, Stamp, StateMachine, StopReason,
};
use parking_lot::RwLock;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout_at};

use crate::limits::SLOW_CHANGE_MAX;

/// Maximum number of commands of one [`Replica::propose_all`] or [`Replica::propose_as_leader`]: this many of the
/// longest grabs fit a proposal, whose bytes `mintleaf_raft` bounds.
pub const COMMANDS_MAX: usize = PROPOSAL_BYTES_MAX / GRAB_BYTES_MAX;

/// Maximum number of keys of a register that are proposed together: this many of the longest fit a proposal.
pub const KEYS_MAX: usize = PROPOSAL_BYTES_MAX / (GRAB_BYTES_MAX + KEY_BYTES_MAX);

/// Bytes of the longest grab: a tag of the longest characters, and 96 for the rest. A grab of a period in strict order
/// needs most: format, checksum, lengths, size, line and leadership.
const GRAB_BYTES_MAX: usize = 96 + 4 * TAG_CHARS_MAX;

/// Draws keys of hidden ids: bytes that cannot be guessed.
pub type DrawKey = fn() -> io::Result<[u8; 32]>;

/// Receives, on every node, each change of what keeps callers from taking ids of a tag, on whichever node it was
/// requested.
pub trait TagListener: Send + Sync + 'static {
    /// A tag was deleted.
    fn tag_deleted(&self, tag: &str);

    /// An administrator or an import has named this mark of a tag: from now on, no id below it is to be given.
    fn tag_raised(&self, tag: &str, mark: u64);

    /// A tag was changed. It has this protection from now on, which may be the same as before.
    fn tag_protected(&self, tag: &str, protection: Protection);

    /// An entry has reserved this many ids of a tag, for any node.
    fn ids_reserved(&self, _: u64) {}

    /// A snapshot replaced the whole state. What happened to each tag in between is unknown: any tag may have been
    /// deleted, protected, or raised.
    fn state_replaced(&self);
}

/// A listener for a copy of the state that no node hands out ids from.
#[derive(Debug)]
pub struct NoListener;

impl TagListener for NoListener {
    fn tag_deleted(&self, _: &str) {}

    fn tag_raised(&self, _: &str, _: u64) {}

    fn tag_protected(&self, _: &str, _: Protection) {}

    fn state_replaced(&self) {}
}

/// A state as the snapshots of `mintleaf_raft` have it.
pub fn snapshot_of(frozen: state::FrozenState) -> FrozenState {
    Box::new(move |out| {
        let mut out = BufWriter::new(out);
        write_snapshot(&frozen, &mut out)?;
        out.flush()
    })
}

/// This node's copy of the [`State`], which the log drives.
///
/// Entries change it, by [`State::apply`], and a snapshot replaces it, by [`StateMachine::restore`]. Neither lets a
/// watermark fall. At a start the copy is empty. Later a leader's snapshot replaces it only if the snapshot reaches
/// beyond every entry that this node knows to be committed, and so beyond every entry that it has applied: openraft
/// drops any other (`install_full_snapshot` of its `FollowingHandler`). Nor does an older file take the place of a
/// newer one (`DurableSnapshot::replace` in `raft/`).
pub struct StateReplica {
    state: RwLock<State>,
    /// How often a tag or one of its lines may have changed.
    tag_changes: AtomicU64,
    listener: Arc<dyn TagListener>,
    supports: Release,
    draw_key: DrawKey,
}

impl StateReplica {
    /// An empty copy, which the log will fill.
    pub fn new(draw_key: DrawKey, listener: Arc<dyn TagListener>) -> Self {
        Self::supporting(LEVEL_MAX, draw_key, listener)
    }

    /// As [`StateReplica::new`], in a build that supports levels up to `level_max`.
    pub fn supporting(level_max: u32, draw_key: DrawKey, listener: Arc<dyn TagListener>) -> Self {
        let supports = Release { level: level_max, version: VERSION.to_owned() };
        let (state, tag_changes) = Default::default();
        Self { state, tag_changes, listener, supports, draw_key }
    }

    /// The state that was made so far.
    pub fn into_state(self) -> State {
        self.state.into_inner()
    }

    /// Passes what a command did to a tag to the listener. Applying waits for that, so the listener receives changes in
    /// their order, and each before this node applies the next.
    fn tell(&self, command: &Command, response: &Response) {
        if let Response::Segment { start, end, .. } = response {
            self.listener.ids_reserved(end - start);
        }
        let (change, tag) = match command {
            Command::Administer { change, .. } => (Some(change), change.tag()),
            Command::DeleteTag { tag } => (None, Some(tag)),
            _ => return,
        };
        let Some(tag) = tag.map(BizTag::as_str) else { return };
        // The listener gets the named mark, not the tag's own, which may be far above: what is held between them stays.
        let raised = change.and_then(Change::mark);
        let raise = || raised.into_iter().for_each(|mark| self.listener.tag_raised(tag, mark));
        if let Some(row) = response.row() {
            raise();
            self.listener.tag_protected(tag, row.protection);
        }
        match response {
            Response::Imported { .. } => raise(),
            Response::Deleted => self.listener.tag_deleted(tag),
            _ => {}
        }
    }

    fn newer(&self, level: u32, version: &str) -> Newer {
        let needs = Release { level, version: version.to_owned() };
        Newer { needs, supports: self.supports.clone() }
    }
}

impl StateMachine for StateReplica {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        let unfit = |why: &dyn fmt::Display| Rejected::Unfit(why.to_string());
        let command = decode_command(command).map_err(|error| unfit(&error))?;
        if matches!(command, Command::RaiseLevel { .. } | Command::DrawRoot { .. }) {
            return Err(unfit(&"only a leader that has asked every member raises the level"));
        }
        if matches!(command, Command::UpdateTag { .. } | Command::DeleteTag { .. }) {
            return Err(unfit(&"a change of a tag is proposed in the name of who makes it"));
        }
        command.check().map_err(|bound| unfit(&bound))?;
        let (needs, has) = (command.level(), self.state.read().level());
        if needs > has { Err(Rejected::Level { needs, has }) } else { Ok(()) }
    }

    fn supports(&self) -> Release {
        self.supports.clone()
    }

    fn needs(&self) -> Release {
        let state = self.state.read();
        Release { level: state.level(), version: state.version_needed().to_owned() }
    }

    /// The level that has a root key brings it along, in one entry, so every cluster of that level has one.
    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>> {
        let mut commands =
            vec![Command::RaiseLevel { to, version: first_version_of(to).to_owned() }];
        if !self.state.read().has_root() {
            let draw = Command::DrawRoot { root: RootKey((self.draw_key)()?) };
            commands.extend((draw.level() <= to).then_some(draw));
        }
        Ok(commands.iter().map(encode_command).collect())
    }

    fn apply(&self, stamp: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        // A command in the log was checked before it was appended, and one that this build does not
        // know stands behind a level that it does not support. So a command that cannot be read is a
        // broken invariant; skipping it would let this replica differ from the others.
        let command = decode_command(command)
            .unwrap_or_else(|error| panic!("committed command cannot be applied: {error}"));
        if let Command::RaiseLevel { to, version } = &command
            && *to > self.supports.level
        {
            return Err(self.newer(*to, version));
        }
        let (response, level) = {
            let mut state = self.state.write();
            let Stamp { now_ms, term, leader_id } = stamp;
            let stamp = state::Stamp { now_ms, term, leader_id };
            let response = state.apply(stamp, &command);
            if !spares_tags(&command) {
                self.tag_changes.fetch_add(1, Relaxed);
            }
            (response, state.level())
        };
        self.tell(&command, &response);
        Ok(encode_response(&response, level))
    }

    fn freeze(&self) -> FrozenState {
        snapshot_of(self.state.read().freeze())
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        let restored = read_snapshot_up_to(self.supports.level, BufReader::new(from));
        let restored = restored.map_err(|error| match error {
            SnapshotError::Newer { level, version } => self.newer(level, &version).into(),
            error => RestoreError::Io(io::Error::other(error)),
        })?;
        // Freeing the old state may take a while; it happens after the lock is released.
        let old = {
            let mut state = self.state.write();
            self.tag_changes.fetch_add(1, Relaxed);
            std::mem::replace(&mut *state, restored)
        };
        drop(old);
        self.listener.state_replaced();
        Ok(())
    }
}

/// Whether a command changes no tag. These are the commands that are carried out while a node is at rest, too.
fn spares_tags(command: &Command) -> bool {
    matches!(
        command,
        Command::ReportClock { .. }
            | Command::AcquireWorker { .. }
            | Command::RenewWorker { .. }
            | Command::ReleaseWorker { .. }
            | Command::LiftWindow { .. }
            | Command::LeaseWorker { .. }
            | Command::RenewLease { .. }
            | Command::GiveBackLease { .. }
    )
}

/// Proposes commands and reads the state they made.
pub struct Replica {
    node: Handle,
    state: Arc<StateReplica>,
    /// When the last read barrier that succeeded began.
    last_barrier: Mutex<Option<Instant>>,
    /// Why the node must stop, once it must.
    doubt: watch::Sender<Option<StopReason>>,
}

impl Replica {
    /// Joins a node with the state that it drives.
    pub fn new(node: Handle, state: Arc<StateReplica>) -> Self {
        let doubt = watch::Sender::new(None);
        Self { node, state, last_barrier: Mutex::new(None), doubt }
    }

    /// Stops the node, because a command had a response that only another command can have. Replies were mixed up, so
    /// an interval that this process holds may belong to another process, too.
    pub(crate) fn mixed_up(&self, what: &str, response: &Response) {
        tracing::error!("{what} had the response to another command: {response:?}");
        let why = format!("{what} had the response to another command, so replies were mixed up");
        self.doubt.send_if_modified(|doubt| {
            let is_first = doubt.is_none();
            doubt.get_or_insert(StopReason::restart(why));
            is_first
        });
    }

    /// Resolves, with the reason, once replies were mixed up: the node must not go on.
    pub(crate) async fn in_doubt(&self) -> StopReason {
        let mut doubt = self.doubt.subscribe();
        loop {
            if let Some(why) = &*doubt.borrow_and_update() {
                return why.clone();
            }
            // The sender lives as long as this replica.
            let _ = doubt.changed().await;
        }
    }

    /// The consensus node behind this replica: status and membership.
    pub fn node(&self) -> &Handle {
        &self.node
    }

    /// How long this node waits for a proposal or a read, whether its own or a caller's: `least`, or four times what a
    /// change takes until this node has applied it if disks or links are slow, at most `SLOW_CHANGE_MAX`.
    pub fn patience(&self, least: Duration) -> Duration {
        let lately = self.node.change_time().unwrap_or_default();
        least.max(SLOW_CHANGE_MAX.min(4 * lately))
    }

    /// When this node gives up a proposal that it makes now: see [`Replica::patience`].
    pub fn deadline(&self, least: Duration) -> Instant {
        Instant::now() + self.patience(least)
    }

    /// Reads the local state, which may lag behind the leader's.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.state.read())
    }

    /// A number that is higher after each change of a tag or of one of its lines. While it stays the same, so does what
    /// a later [`read`](Self::read) finds of tags.
    pub fn tag_changes(&self) -> u64 {
        self.state.tag_changes.load(Relaxed)
    }

    /// Whether a command could be proposed now. Does not propose it.
    ///
    /// # Errors
    /// [`ProposeError::Rejected`].
    pub fn check(&self, command: &Command) -> Result<(), ProposeError> {
        self.state.check(&encode_command(command)).map_err(ProposeError::Rejected)
    }

    /// Proposes one command, which is applied at most once.
    ///
    /// # Errors
    /// [`ProposeError`], by the deadline at the latest.
    pub async fn propose(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Response, ProposeError> {
        let encoded = vec![encode_command(command)];
        let replies = self.node.propose(encoded, Delivery::AtMostOnce, deadline).await?;
        decode(&replies[0])
    }

    /// Proposes commands together, at most [`COMMANDS_MAX`]. The log may apply each of them twice.
    ///
    /// # Errors
    /// [`ProposeError`], by the deadline at the latest.
    pub async fn propose_all(
        &self,
        commands: &[Command],
        deadline: Instant,
    ) -> Result<Vec<Response>, ProposeError> {
        let encoded = commands.iter().map(encode_command).collect();
        let replies = self.node.propose(encoded, Delivery::AtLeastOnce, deadline).await?;
        replies.iter().map(|reply| decode(reply)).collect()
    }

    /// Proposes commands together, [`COMMANDS_MAX`] at most, as the leader: no other node appends them, and each is
    /// applied at most once.
    ///
    /// # Errors
    /// [`ProposeError`], by the deadline at the latest; at once if this node does not lead.
    pub async fn propose_as_leader(
        &self,
        commands: &[Command],
        deadline: Instant,
    ) -> Result<Vec<Response>, ProposeError> {
        let encoded = commands.iter().map(encode_command).collect();
        let replies = self.node.propose(encoded, Delivery::AsLeader, deadline).await?;
        replies.iter().map(|reply| decode(reply)).collect()
    }

    /// Waits until the local state holds everything committed before the call. Callers that wait
    /// at the same time share one round to the quorum.
    ///
    /// # Errors
    /// [`ProposeError`], by the deadline at the latest.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ProposeError> {
        let asked = Instant::now();
        let late = |_| ProposeError::Unavailable("no quorum confirmed a leader".to_owned());
        let mut last_barrier =
            timeout_at(deadline, self.last_barrier.lock()).await.map_err(late)?;
        if last_barrier.is_some_and(|began| began >= asked) {
            return Ok(());
        }
        let began = Instant::now();
        self.node.read_barrier(deadline).await?;
        *last_barrier = Some(began);
        Ok(())
    }
}

/// Reads a reply of the log, which a [`StateReplica`] encoded: in this process, or in the leader's. If that fails, the
/// command was applied, but its effect is not known here. The doubt concerns one answer of another process, and not
/// this node's data, which its own replica applies from its own log.
fn decode(reply: &[u8]) -> Result<Response, ProposeError> {
    decode_response(reply).map_err(|error| {
        tracing::error!(%error, "the reply to a proposal cannot be read");
        ProposeError::Unknown(format!("the reply cannot be read: {error}"))
    })
}

#[cfg(test)]
mod tests;
