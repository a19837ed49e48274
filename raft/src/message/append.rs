//! The bounded form of openraft's replication message.

use openraft::Vote;
use openraft::raft::AppendEntriesRequest;
use serde::{Deserialize, Deserializer};

use crate::types::{RaftEntry, RaftLogId, Types, bounds};

/// Deserializes a replication message with a bounded number of entries.
pub(super) fn append<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<AppendEntriesRequest<Types>, D::Error> {
    // The fields of openraft's own type, in the same order.
    #[derive(Deserialize)]
    struct Append {
        vote: Vote<u64>,
        prev_log_id: Option<RaftLogId>,
        #[serde(deserialize_with = "bounds::entries")]
        entries: Vec<RaftEntry>,
        leader_commit: Option<RaftLogId>,
    }

    let Append { vote, prev_log_id, entries, leader_commit } = Append::deserialize(input)?;
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}
