//! The audit of admin changes, and the changes that the state does not carry out itself: of the membership, the
//! leader and the level.
//!
//! A change of a tag and its audit entry are one command, so neither exists without the other. `raft/` makes the other
//! changes; afterwards the node that was asked has the audit record them, and retries until the record is acknowledged.
//! So such a change has at least one entry. If a reply was lost, its entry may be there twice; an entry is missing only
//! if the node ends, or finds no leader for [`RECORDING_MAX`]. A node that is asked to remove itself records that
//! beforehand, because it cannot do so once it is no longer a member; before that it asks the voters that would be
//! left. A change that the audit could not record is refused before it begins.
//!
//! Each change writes one log line, with the target `mintleaf::audit`, on the node that was asked and on no other. If
//! every node wrote the line when it applied the change, there would be one line per node, and each would come again
//! whenever its node starts and applies the end of its log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::limits::ADDRESS_BYTES_MAX;
use mintleaf_core::state::{
    Action, Actor, AuditEntry, AuditPage, Change, Command, Facts, MemberFacts,
};
use mintleaf_raft::{MemberStatus, MembershipError, ProposeError, Role};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::Instrument;

use crate::limits::{GRAB_MAX, REQUEST_MAX};
use crate::replica::Replica;
use crate::service::error::Error;
use crate::service::log_access::{Consistency, refresh};

/// How long the node retries to record a change that was made.
const RECORDING_MAX: Duration = Duration::from_secs(30);
/// Pause before the next try.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long before its end a request is answered even if the change that it asked for is not recorded yet.
const ANSWER_RESERVE: Duration = Duration::from_millis(200);

// The audit holds every address that the membership may hold.
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
    pub(in crate::service) replica: Arc<Replica>,
}

impl AuditService {
    /// One page of the audit: up to `limit` entries. It ends before the first entry that `has_room` refuses, except
    /// that its first entry is always on it.
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

/// The command that records a change in the audit, with its actor.
pub(in crate::service) fn command(actor: &Actor, change: &Change) -> Command {
    Command::Administer { actor: actor.clone(), change: change.clone() }
}

/// Writes the log line of a change, after which these facts hold.
pub(in crate::service) fn log(actor: &Actor, change: &Change, after: &Facts) {
    tracing::info!(
        target: "mintleaf::audit",
        actor = actor.as_str(),
        action = change.action().name(),
        subject = change.target(),
        after = %Shown(after),
        "admin change",
    );
}

/// Writes the log line of a part of an import.
pub(in crate::service) fn log_import(actor: &Actor, import: &str, created: usize, raised: usize) {
    tracing::info!(
        target: "mintleaf::audit",
        actor = actor.as_str(),
        action = Action::ImportTags.name(),
        subject = import,
        after = %format_args!("created={created} raised={raised}"),
        "admin change",
    );
}

/// Carries out a change of the membership, the leader or the level, and has it recorded, even if the caller goes away
/// first. The answer waits for the entry as long as the request may take.
///
/// # Errors
/// The errors of the change, which is not recorded then.
pub(in crate::service) async fn carry(
    replica: &Arc<Replica>,
    actor: Actor,
    making: impl Future<Output = Result<(), MembershipError>> + Send + 'static,
    change: impl FnOnce(&Replica) -> Option<Change> + Send + 'static,
) -> Result<(), Error> {
    let (made, answered) = oneshot::channel();
    let began = Instant::now();
    let replica = Arc::clone(replica);
    let record = async move {
        let outcome = making.await;
        let failed = outcome.is_err();
        // If the caller has gone away, the outcome has no receiver. The change is recorded nevertheless.
        drop(made.send(outcome));
        if failed {
            return;
        }
        let Some(change) = change(&replica) else { return };
        if let Err(error) = record(&replica, &actor, &change, RECORDING_MAX).await {
            let (action, subject) = (change.action().name(), change.target());
            tracing::error!(action, subject, %error, "a change is missing in the audit");
        }
    };
    let recorded = tokio::spawn(record.in_current_span());
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
pub(in crate::service) async fn record(
    replica: &Replica,
    actor: &Actor,
    change: &Change,
    at_most: Duration,
) -> Result<(), ProposeError> {
    log(actor, change, &change.recorded_facts().1);
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
pub(in crate::service) fn member_facts(member: &MemberStatus) -> MemberFacts {
    let voter = member.role != Role::Learner;
    // Releases before this one took longer addresses.
    let address = |text: &str| text.get(..ADDRESS_BYTES_MAX).unwrap_or(text).to_owned();
    MemberFacts { raft: address(&member.raft), http: address(&member.http), voter }
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
