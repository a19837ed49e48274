//! The level of the cluster: what its log may hold, so that every member can apply it.
//!
//! While nodes are upgraded one by one, members of two releases apply one log, and the operator may still go back.
//! Every feature that only the newer release can read has a level, and the replicated state has a level too. The
//! state machine accepts nothing above the state's level into the log. The level rises through an entry that a leader
//! appends once every member has reported that it supports it. A build that meets a higher level than it supports
//! stops and names the version that is needed: it could only guess how to apply the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use openraft::error::RaftError;

use crate::core::Core;
use crate::message::{Description, MembershipError, Request, Response};
use crate::state_machine::Release;
use crate::types::{Batch, Member};

/// How long a member gets to report what it supports, including the time to open a connection.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum length of a version and of a zone in bytes; a longer one is cut.
const VERSION_BYTES_MAX: usize = 64;

/// Asks a member what it supports.
pub(crate) async fn ask_release(core: &Core, id: u64, member: &Member) -> Result<Release, String> {
    ask(core, id, member, Request::Supports).await
}

/// Asks a member what it supports and where it is. A member of an older build does not know this request.
pub(crate) async fn ask_description(core: &Core, id: u64, member: &Member) -> Result<(), String> {
    ask(core, id, member, Request::Describe).await.map(drop)
}

async fn ask(core: &Core, id: u64, member: &Member, what: Request) -> Result<Release, String> {
    let answer = core.client.call(id, member, what, ASK_TIMEOUT).await;
    let (mut release, zone) = match answer.map_err(|error| error.to_string())? {
        Response::Supports(release) => (release, None),
        Response::Described(Description { release, zone }) => (release, Some(zone)),
        _ => return Err("it answered something other than what was asked".to_owned()),
    };
    release.version = shortened(release.version);
    core.releases.record(member, release.clone());
    if let Some(zone) = zone {
        core.releases.record_zone(member, shortened(zone));
    }
    Ok(release)
}

/// Raises the level to the highest that every member supports. The caller excludes concurrent changes of the
/// membership, so that the members that are asked are the ones that will apply the entry.
pub(super) async fn raise(core: &Core) -> Result<(), MembershipError> {
    let asked_as = core.vote();
    let mut releases = BTreeMap::from([(core.identity.node_id(), core.state.supports())]);
    let mut silent = Vec::new();
    for (id, member) in core.others() {
        match ask_release(core, id, &member).await {
            Ok(release) => drop(releases.insert(id, release)),
            Err(why) => silent.push(format!("node {id} cannot be asked: {why}")),
        }
    }
    if !silent.is_empty() {
        return Err(MembershipError::Level(silent.join("; ")));
    }
    let has = core.state.needs().level;
    match highest_common(has, &releases).map_err(MembershipError::Level)? {
        // Another leader may have added a member that was not asked.
        to if to > has && core.vote() != asked_as => {
            Err(MembershipError::NoLeader(format!("leadership was lost while raising to {to}")))
        }
        to if to > has => append_raise(core, to).await,
        _ => Ok(()),
    }
}

/// Appends the one entry that bypasses the state machine's check. The check refuses these commands to every proposer,
/// because only a leader that has asked all members may append them. [`raise`] has asked them, and every member can
/// apply the entry.
async fn append_raise(core: &Core, to: u32) -> Result<(), MembershipError> {
    let unavailable = |error: &dyn fmt::Display| MembershipError::Unavailable(error.to_string());
    let commands = core.state.raising(to).map_err(|error| unavailable(&error))?;
    let entry = Batch { now_ms: core.heard.median_ms(), commands };
    let written = tokio::select! {
        written = core.raft.client_write(entry) => written,
        () = core.until_deposed() => {
            return Err(unavailable(&"leadership was lost meanwhile; look again later"));
        }
    };
    match written {
        Ok(_) => {
            tracing::info!(level = to, "set the level of the cluster");
            Ok(())
        }
        Err(RaftError::APIError(error)) => Err(unavailable(&error)),
        Err(error) => Err(unavailable(&error)),
    }
}

/// Refuses a node that could not apply the log.
pub(super) fn check_supports(
    core: &Core,
    id: u64,
    release: &Release,
) -> Result<(), MembershipError> {
    let needs = core.state.needs();
    if release.level >= needs.level {
        return Ok(());
    }
    Err(MembershipError::Level(format!(
        "node {id} runs version {}, which supports level {}, and the cluster has level {}: start \
         version {} or later there",
        shortened(release.version.clone()),
        release.level,
        needs.level,
        needs.version
    )))
}

/// The highest level that all members support, if it is above the cluster's or no member supports more than that.
/// Otherwise the error names the members that are too old.
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
    fn the_members_that_hold_the_level_back_are_named() {
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
