//! The level of the cluster: what its log may hold, so that every member can apply it.
//!
//! While nodes are upgraded one by one, members of two releases apply one log, and the operator may still
//! go back. What only the newer release can read has a level, which the replicated state has too. The
//! state machine lets nothing above that into the log (see `proposal.rs`), and the level rises by an entry
//! that a leader appends once every member has said that it supports it. A build that meets a higher
//! level than it supports ends, and says which version is needed: it would have to guess.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use mintleaf_storage::planted;
use openraft::error::RaftError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::members::MemberError;
use crate::node::Inner;
use crate::transport::{Request, Response};
use crate::types::{Batch, Member};

/// How long a member has to say what it supports.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a node asks the others, to show it.
const LEARN_INTERVAL: Duration = Duration::from_secs(2);
/// Bytes of a version at most; a longer one is cut.
const VERSION_BYTES_MAX: usize = 64;

/// A build: what it calls itself, and how far it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The highest level that it supports.
    pub level: u32,
    /// Its version.
    pub version: String,
}

/// A log or a snapshot is of a higher level than this build supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newer {
    /// The cluster's level, and the first version that supports it.
    pub needs: Release,
    /// This build.
    pub supports: Release,
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needs, supports } = self;
        write!(
            f,
            "the cluster's log has level {}, which needs version {} or later; this is version {}, which \
             supports level {}: start the later version on this data directory",
            needs.level, needs.version, supports.version, supports.level
        )
    }
}

impl std::error::Error for Newer {}

/// What the other members last said that they support, by store.
#[derive(Default)]
pub(crate) struct Releases(Mutex<BTreeMap<u128, Release>>);

impl Releases {
    pub(crate) fn of(&self, member: &Member) -> Option<Release> {
        self.0.lock().get(&member.store).cloned()
    }

    fn note(&self, store: u128, release: Release) {
        self.0.lock().insert(store, release);
    }

    /// Keeps the list as short as the membership.
    fn forget_strangers(&self, members: &BTreeMap<u64, Member>) {
        self.0.lock().retain(|store, _| members.values().any(|member| member.store == *store));
    }
}

impl Inner {
    /// Asks a member what it supports.
    async fn ask_release(&self, id: u64, member: &Member) -> Result<Release, String> {
        match self.client.call(id, member, Request::Supports, ASK_TIMEOUT).await {
            Ok(Response::Supports(mut release)) => {
                release.version = shortened(release.version);
                self.releases.note(member.store, release.clone());
                Ok(release)
            }
            Ok(_) => Err("it answered something else than was asked".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Raises the level to the highest that every member supports. Held apart from changes of the
    /// membership by its caller: who is asked is who will apply it.
    pub(crate) async fn raise_level(&self) -> Result<(), MemberError> {
        let asked_as = self.raft.metrics().borrow().vote;
        let mut releases = BTreeMap::from([(self.local.node_id(), self.state.supports())]);
        let mut silent = Vec::new();
        for (id, member) in self.others() {
            match self.ask_release(id, &member).await {
                Ok(release) => drop(releases.insert(id, release)),
                Err(why) => silent.push(format!("node {id} cannot be asked: {why}")),
            }
        }
        if !silent.is_empty() {
            return Err(MemberError::Level(silent.join("; ")));
        }
        if planted("level-raised-by-the-leader-alone") {
            releases.retain(|id, _| *id == self.local.node_id());
        }
        let has = self.state.needs().level;
        match highest_common(has, &releases).map_err(MemberError::Level)? {
            // Another leader may have taken in somebody who was not asked.
            to if to > has && self.raft.metrics().borrow().vote != asked_as => {
                Err(MemberError::NoLeader(format!("leadership was lost while raising to {to}")))
            }
            to if to > has => self.append_raise(to).await,
            _ => Ok(()),
        }
    }

    async fn append_raise(&self, to: u32) -> Result<(), MemberError> {
        let commands = vec![self.state.raising(to)];
        let entry = Batch { now_ms: self.local.median_ms(), commands };
        let unavailable = |error: &dyn fmt::Display| MemberError::Unavailable(error.to_string());
        let written = tokio::select! {
            written = self.raft.client_write(entry) => written,
            () = self.deposed() => {
                return Err(unavailable(&"leadership was lost meanwhile; look again later"));
            }
        };
        match written {
            Ok(_) => {
                tracing::info!(level = to, "raised the level of the cluster");
                Ok(())
            }
            Err(RaftError::APIError(error)) => Err(unavailable(&error)),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Refuses a node that could not apply the log.
    pub(crate) fn check_supports(&self, id: u64, release: &Release) -> Result<(), MemberError> {
        let needs = self.state.needs();
        if release.level >= needs.level {
            return Ok(());
        }
        Err(MemberError::Level(format!(
            "node {id} runs version {}, which supports level {}, and the cluster has level {}: start \
             version {} or later there",
            shortened(release.version.clone()),
            release.level,
            needs.level,
            needs.version
        )))
    }

    /// Keeps asking the other members what they run, to show it.
    pub(crate) async fn learn_releases(&self) {
        loop {
            let others = self.others();
            for (id, member) in &others {
                // Who does not answer is shown as it was last heard.
                let _ = self.ask_release(*id, member).await;
            }
            self.releases.forget_strangers(&others);
            tokio::time::sleep(LEARN_INTERVAL).await;
        }
    }
}

/// The highest level that all support, if it is above the one that the cluster has or nobody has more.
/// Otherwise says who is too old.
fn highest_common(has: u32, releases: &BTreeMap<u64, Release>) -> Result<u32, String> {
    let levels = || releases.values().map(|release| release.level);
    let (lowest, highest) = (levels().min().unwrap_or(has), levels().max().unwrap_or(has));
    if lowest > has || highest <= has {
        return Ok(lowest.max(has));
    }
    let too_old = releases.iter().filter(|(_, release)| release.level <= has);
    let named = too_old.map(|(id, Release { level, version })| {
        format!("node {id} runs version {version}, which supports level {level}")
    });
    Err(named.collect::<Vec<_>>().join("; "))
}

fn shortened(mut version: String) -> String {
    let end = (0..=VERSION_BYTES_MAX).rev().find(|&end| version.is_char_boundary(end));
    version.truncate(end.unwrap_or(0));
    version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(levels: &[u32]) -> BTreeMap<u64, Release> {
        let release = |level: &u32| Release { level: *level, version: format!("0.{level}.0") };
        (1..).zip(levels.iter().map(release)).collect()
    }

    #[test]
    fn the_level_rises_to_what_all_members_support() {
        assert_eq!(highest_common(1, &all(&[2, 2, 2])), Ok(2));
        assert_eq!(highest_common(1, &all(&[4, 3, 4])), Ok(3));
        assert_eq!(highest_common(2, &all(&[2, 2])), Ok(2), "there is nothing to raise it to");
        assert_eq!(highest_common(1, &all(&[1])), Ok(1));
    }

    #[test]
    fn who_holds_the_level_back_is_named() {
        let refused = highest_common(1, &all(&[2, 1, 2, 1])).unwrap_err();
        assert_eq!(
            refused,
            "node 2 runs version 0.1.0, which supports level 1; \
             node 4 runs version 0.1.0, which supports level 1"
        );
        assert!(highest_common(2, &all(&[3, 2])).is_err());
    }

    #[test]
    fn a_version_is_kept_within_bounds() {
        assert_eq!(shortened("0.1.0".to_owned()), "0.1.0");
        assert_eq!(shortened("é".repeat(100)).len(), 64);
        assert_eq!(shortened(format!("a{}", "é".repeat(100))).len(), 63);
    }
}
