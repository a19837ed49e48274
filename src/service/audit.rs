//! The audit of admin changes, and the changes that the state does not carry out itself: of the membership, the
//! leader and the level.
//!
//! A change of a tag and its entry in the audit are one command, so neither is without the other. The other
//! changes are made by `raft/`; the node that was asked has the audit record them afterwards, and tries until
//! that is acknowledged. So such a change has its entry at least once: an entry whose reply was lost may stand
//! there twice, and only a node that ends, or finds no leader for [`RECORDING_MAX`], leaves one out. A node that
//! is asked to remove itself has that recorded beforehand, because it cannot do so as no member; before that it asks
//! the voters that would be left. A change that the audit could not record is refused before it begins.
//!
//! One log line tells of each change, with the target `mintleaf::audit`, on the node that was asked and nowhere
//! else: lines that each node wrote when it applies a change would be as many as there are nodes, and come
//! again whenever a node starts and applies the end of its log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::limits::ADDRESS_BYTES_MAX;
use mintleaf_core::state::{
    Action, Actor, AuditEntry, AuditPage, Change, Command, Facts, MemberFacts, TagRow,
};
use mintleaf_raft::{MemberStatus, MembershipError, ProposeError, Role};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::error::Error;
use super::log_access::{Consistency, refresh};
use crate::limits::{GRAB_MAX, REQUEST_MAX};
use crate::replica::Replica;

/// How long a change that was made is tried to be recorded.
const RECORDING_MAX: Duration = Duration::from_secs(30);
/// Pause before the next try.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long before its end a request is answered, although the change that it asked for is not recorded yet.
const ANSWER_RESERVE: Duration = Duration::from_millis(200);

// The audit holds whatever address the membership may hold.
const _: () = assert!(mintleaf_raft::ADDRESS_BYTES_MAX <= ADDRESS_BYTES_MAX);

/// Where a page of the audit begins, and which way it goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuditPart {
    /// Behind the entry of this number, towards the newest.
    After(u64),
    /// In front of the entry of this number, towards the oldest.
    Before(u64),
}

/// Reads the audit, and has changes recorded in it.
pub struct AuditService {
    pub(super) replica: Arc<Replica>,
}

impl AuditService {
    /// One page of the audit: up to `limit` entries, and none that `has_room` refuses but a first one.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a linearizable read finds no quorum.
    pub async fn page(
        &self,
        part: AuditPart,
        limit: usize,
        has_room: impl FnMut(&AuditEntry) -> bool,
        consistency: Consistency,
    ) -> Result<AuditPage, Error> {
        refresh(&self.replica, consistency).await?;
        Ok(self.replica.read(|state| match part {
            AuditPart::After(index) => state.audit_page(index, limit, has_room),
            AuditPart::Before(index) => state.audit_page_back(index, limit, has_room),
        }))
    }
}

/// The command of a change, for whoever asked for it.
pub(super) fn command(actor: &Actor, change: &Change) -> Command {
    Command::Administer { actor: actor.clone(), change: change.clone() }
}

/// Writes the log line of a change of a tag; `row` is the tag after it, or `None` when it is gone.
pub(super) fn log_tag_change(actor: &Actor, change: &Change, row: Option<&TagRow>) {
    log(actor, change, &change.facts(row));
}

/// Writes the log line of a change that says by itself what it has changed.
pub(super) fn log_told(actor: &Actor, change: &Change) {
    let (_, after) = change.told();
    log(actor, change, &after);
}

/// Writes the log line of a part of an import.
pub(super) fn log_import(actor: &Actor, import: &str, created: usize, raised: usize) {
    tracing::info!(
        target: "mintleaf::audit",
        actor = actor.as_str(),
        action = Action::ImportTags.name(),
        subject = import,
        after = %format_args!("created={created} raised={raised}"),
        "admin change",
    );
}

/// Refuses a change that the audit could not record, before it begins.
///
/// # Errors
/// [`Error::InvalidArgument`], [`Error::Level`].
pub(super) fn check(replica: &Replica, actor: &Actor, change: &Change) -> Result<(), Error> {
    Ok(replica.check(&command(actor, change))?)
}

/// Carries a change of the membership, the leader or the level through, and has it recorded, also when the
/// caller goes away before. The answer waits for the entry as long as the request may take.
///
/// # Errors
/// The errors of the change, which is not recorded then.
pub(super) async fn carry(
    replica: &Arc<Replica>,
    actor: Actor,
    making: impl Future<Output = Result<(), MembershipError>> + Send + 'static,
    change: impl FnOnce(&Replica) -> Option<Change> + Send + 'static,
) -> Result<(), Error> {
    let (made, answered) = oneshot::channel();
    let began = Instant::now();
    let replica = Arc::clone(replica);
    let recorded = tokio::spawn(async move {
        let outcome = making.await;
        let failed = outcome.is_err();
        // Nobody hears of it when the caller has gone away; the change is recorded nevertheless.
        drop(made.send(outcome));
        if failed {
            return;
        }
        let Some(change) = change(&replica) else { return };
        if let Err(error) = record(&replica, &actor, &change, RECORDING_MAX).await {
            let (action, subject) = (change.action().name(), change.target());
            tracing::error!(action, subject, %error, "a change is missing in the audit");
        }
    });
    match answered.await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(Error::unavailable("this node is stopping")),
    }
    drop(timeout_at(began + REQUEST_MAX - ANSWER_RESERVE, recorded).await);
    Ok(())
}

/// Has the audit record a change, trying for `at_most`, and writes the log line of the change.
///
/// # Errors
/// Why the last try failed.
pub(super) async fn record(
    replica: &Replica,
    actor: &Actor,
    change: &Change,
    at_most: Duration,
) -> Result<(), ProposeError> {
    log_told(actor, change);
    let entry = [command(actor, change)];
    let deadline = Instant::now() + at_most;
    loop {
        let one_try = deadline.min(Instant::now() + GRAB_MAX);
        match replica.propose_all(&entry, one_try).await {
            Err(_) if Instant::now() + RETRY_INTERVAL < deadline => sleep(RETRY_INTERVAL).await,
            outcome => return outcome.map(drop),
        }
    }
}

/// What the audit says of a member.
pub(super) fn member_facts(member: &MemberStatus) -> MemberFacts {
    let voter = member.role != Role::Learner;
    // Releases before this one took longer addresses.
    let address = |text: &str| text.get(..ADDRESS_BYTES_MAX).unwrap_or(text).to_owned();
    MemberFacts { raft: address(&member.raft), http: address(&member.http), voter }
}

fn log(actor: &Actor, change: &Change, after: &Facts) {
    tracing::info!(
        target: "mintleaf::audit",
        actor = actor.as_str(),
        action = change.action().name(),
        subject = change.target(),
        after = %Shown(after),
        "admin change",
    );
}

/// Facts as a person reads them.
struct Shown<'a>(&'a Facts);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (field, fact)) in self.0.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{}={fact}", field.name())?;
        }
        Ok(())
    }
}
