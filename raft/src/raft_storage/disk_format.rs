//! The records on disk, as structs of this crate, so that a later openraft version needs no migration of disks.
//!
//! Fields and variants are only ever appended, under a new format byte. Tests compare the encoding with fixed bytes.

use std::collections::{BTreeMap, BTreeSet};

use mintleaf_codec as codec;
use mintleaf_storage::StorageError;
use openraft::{EntryPayload, LeaderId, Membership, SnapshotMeta};
use serde::{Deserialize, Serialize};

use crate::message::Prepared;
use crate::types::{Batch, Member, RaftEntry, RaftLogId, RaftMembership, RaftVote};

/// Format byte of every record of this crate.
const FORMAT: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogIdRecord {
    term: u64,
    leader: u64,
    index: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct VoteRecord {
    term: u64,
    voted_for: u64,
    committed: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MembershipRecord {
    configs: Vec<BTreeSet<u64>>,
    nodes: BTreeMap<u64, MemberRecord>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MemberRecord {
    raft: String,
    http: String,
    store: u128,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EntryRecord {
    log_id: LogIdRecord,
    payload: PayloadRecord,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PayloadRecord {
    Blank,
    Batch { now_ms: u64, commands: Vec<Vec<u8>> },
    Membership(MembershipRecord),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SnapshotRecord {
    last_log_id: Option<LogIdRecord>,
    membership_log_id: Option<LogIdRecord>,
    membership: MembershipRecord,
}

/// Encodes a log entry.
pub(crate) fn encode_entry(entry: RaftEntry) -> Vec<u8> {
    let payload = match entry.payload {
        EntryPayload::Blank => PayloadRecord::Blank,
        EntryPayload::Normal(Batch { now_ms, commands }) => {
            PayloadRecord::Batch { now_ms, commands }
        }
        EntryPayload::Membership(membership) => PayloadRecord::Membership((&membership).into()),
    };
    codec::encode(FORMAT, &EntryRecord { log_id: entry.log_id.into(), payload })
}

/// Size in bytes of the longest entry that a change among these members may append: all of them vote, before and
/// after the change.
pub(crate) fn longest_membership_entry(nodes: BTreeMap<u64, Member>) -> usize {
    let voters: BTreeSet<u64> = nodes.keys().copied().collect();
    let membership = Membership::new(vec![voters.clone(), voters], nodes);
    let log_id = RaftLogId::new(LeaderId::new(u64::MAX, u64::MAX), u64::MAX);
    encode_entry(RaftEntry { log_id, payload: EntryPayload::Membership(membership) }).len()
}

/// Decodes a log entry. This verifies its checksum once more, after the log engine's own check.
pub(crate) fn decode_entry(bytes: &[u8]) -> Result<RaftEntry, codec::CodecError> {
    let record: EntryRecord = codec::decode_as(FORMAT, bytes)?;
    let payload = match record.payload {
        PayloadRecord::Blank => EntryPayload::Blank,
        PayloadRecord::Batch { now_ms, commands } => {
            EntryPayload::Normal(Batch { now_ms, commands })
        }
        PayloadRecord::Membership(membership) => EntryPayload::Membership(membership.into()),
    };
    Ok(RaftEntry { log_id: record.log_id.into(), payload })
}

/// Encodes a vote.
pub(crate) fn encode_vote(vote: &RaftVote) -> Vec<u8> {
    let LeaderId { term, node_id } = vote.leader_id;
    codec::encode(FORMAT, &VoteRecord { term, voted_for: node_id, committed: vote.committed })
}

/// Decodes a vote.
pub(crate) fn decode_vote(bytes: &[u8]) -> Result<RaftVote, codec::CodecError> {
    let record: VoteRecord = codec::decode_as(FORMAT, bytes)?;
    let leader_id = LeaderId::new(record.term, record.voted_for);
    Ok(RaftVote { leader_id, committed: record.committed })
}

/// Encodes a log id: the purge mark, or the committed position.
pub(crate) fn encode_log_id(log_id: RaftLogId) -> Vec<u8> {
    codec::encode(FORMAT, &LogIdRecord::from(log_id))
}

/// Decodes a log id.
pub(crate) fn decode_log_id(bytes: &[u8]) -> Result<RaftLogId, codec::CodecError> {
    Ok(codec::decode_as::<LogIdRecord>(FORMAT, bytes)?.into())
}

/// Encodes the metadata of a snapshot file.
pub(crate) fn encode_snapshot_meta(last: Option<RaftLogId>, members: &RaftMembership) -> Vec<u8> {
    let record = SnapshotRecord {
        last_log_id: last.map(Into::into),
        membership_log_id: members.log_id().map(Into::into),
        membership: members.membership().into(),
    };
    codec::encode(FORMAT, &record)
}

/// Decodes the metadata of a snapshot file.
pub(crate) fn decode_snapshot_meta(
    bytes: &[u8],
) -> Result<SnapshotMeta<u64, Member>, codec::CodecError> {
    let record: SnapshotRecord = codec::decode_as(FORMAT, bytes)?;
    let last_log_id = record.last_log_id.map(RaftLogId::from);
    let membership_log_id = record.membership_log_id.map(RaftLogId::from);
    Ok(SnapshotMeta {
        last_log_id,
        last_membership: RaftMembership::new(membership_log_id, record.membership.into()),
        snapshot_id: snapshot_id(last_log_id),
    })
}

/// Encodes what a store is prepared for in the two-phase commit of bootstrap, or that it is free.
pub(crate) fn encode_prepared(prepared: Option<&Prepared>) -> Vec<u8> {
    codec::encode(FORMAT, &prepared)
}

/// Decodes what a store is prepared for.
pub(crate) fn decode_prepared(record: &[u8]) -> Result<Option<Prepared>, codec::CodecError> {
    codec::decode_as(FORMAT, record)
}

/// Encodes the id of the cluster that a store belongs to.
pub(crate) fn encode_cluster_id(cluster: u128) -> Vec<u8> {
    codec::encode(FORMAT, &cluster)
}

/// Decodes the id of the cluster that a store belongs to.
pub(crate) fn decode_cluster_id(record: &[u8]) -> Result<u128, codec::CodecError> {
    codec::decode_as(FORMAT, record)
}

/// The error for a record that passed the storage's checksums but cannot be decoded.
pub(crate) fn damaged(what: &str, error: &codec::CodecError) -> StorageError {
    StorageError::Damaged { what: format!("{what} cannot be decoded: {error}") }
}

/// Names a snapshot by its last log id: snapshots of the same position hold the same bytes.
pub(crate) fn snapshot_id(last: Option<RaftLogId>) -> String {
    last.map_or_else(|| "empty".to_owned(), |id| format!("{}-{}", id.leader_id.term, id.index))
}

impl From<RaftLogId> for LogIdRecord {
    fn from(id: RaftLogId) -> Self {
        Self { term: id.leader_id.term, leader: id.leader_id.node_id, index: id.index }
    }
}

impl From<LogIdRecord> for RaftLogId {
    fn from(record: LogIdRecord) -> Self {
        Self::new(LeaderId::new(record.term, record.leader), record.index)
    }
}

impl From<&Membership<u64, Member>> for MembershipRecord {
    fn from(membership: &Membership<u64, Member>) -> Self {
        let record = |m: &Member| MemberRecord {
            raft: m.raft.clone(),
            http: m.http.clone(),
            store: m.store,
        };
        Self {
            configs: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, member)| (*id, record(member))).collect(),
        }
    }
}

impl From<MembershipRecord> for Membership<u64, Member> {
    fn from(record: MembershipRecord) -> Self {
        let member = |m: MemberRecord| Member { raft: m.raft, http: m.http, store: m.store };
        let nodes: BTreeMap<u64, Member> =
            record.nodes.into_iter().map(|(id, m)| (id, member(m))).collect();
        Self::new(record.configs, nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_id() -> RaftLogId {
        RaftLogId::new(LeaderId::new(3, 2), 700)
    }

    fn membership() -> Membership<u64, Member> {
        let member = Member { raft: "a:1".into(), http: "a:2".into(), store: 9 };
        Membership::new(vec![BTreeSet::from([1])], BTreeMap::from([(1, member)]))
    }

    #[test]
    fn every_kind_of_entry_survives_the_round_trip() {
        let batch = Batch { now_ms: 1_700_000_000_000, commands: vec![vec![1, 2], vec![]] };
        for payload in [
            EntryPayload::Blank,
            EntryPayload::Normal(batch),
            EntryPayload::Membership(membership()),
        ] {
            let entry = RaftEntry { log_id: log_id(), payload };
            let decoded = decode_entry(&encode_entry(entry.clone())).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{entry:?}"));
        }
    }

    #[test]
    fn a_hundred_members_with_the_longest_addresses_fit_an_entry() {
        let longest = |ids: u64| {
            let address = "a".repeat(crate::types::bounds::ADDRESS_BYTES_MAX);
            let (raft, http) = (address.clone(), address);
            let member = Member { raft, http, store: u128::MAX };
            longest_membership_entry((1..=ids).map(|id| (u64::MAX - id, member.clone())).collect())
        };
        assert!(longest(100) <= crate::types::bounds::BATCH_BYTES_MAX, "{}", longest(100));
        assert!(longest(120) > crate::types::bounds::BATCH_BYTES_MAX, "{}", longest(120));
    }

    // Changing these bytes changes the format on disk: that needs a new format byte and a decoder for the old one.
    #[test]
    fn the_bytes_on_disk_are_as_they_were() {
        let batch = Batch { now_ms: 5, commands: vec![vec![7, 8]] };
        let entry = RaftEntry { log_id: log_id(), payload: EntryPayload::Normal(batch) };
        assert_eq!(encode_entry(entry)[5..], [3, 2, 251, 188, 2, 1, 5, 1, 2, 7, 8]);
        assert_eq!(encode_vote(&RaftVote::new_committed(4, 1))[5..], [4, 1, 1]);
        assert_eq!(encode_log_id(log_id())[5..], [3, 2, 251, 188, 2]);
        let members = RaftMembership::new(Some(log_id()), membership());
        assert_eq!(
            encode_snapshot_meta(None, &members)[5..],
            [0, 1, 3, 2, 251, 188, 2, 1, 1, 1, 1, 1, 3, 97, 58, 49, 3, 97, 58, 50, 9]
        );
        let founders = "1=a:1,2=b:2".to_owned();
        let prepared = Prepared { cluster: 300, coordinator: 1, store: 10, founders };
        let bytes = encode_prepared(Some(&prepared));
        let list = prepared.founders.as_bytes();
        assert_eq!(bytes[5..], [&[1, 251, 44, 1, 1, 10, 11][..], list].concat());
        assert_eq!(decode_prepared(&bytes).unwrap(), Some(prepared.clone()));
        assert_eq!(encode_prepared(None)[5..], [0]);
        assert_eq!(decode_prepared(&encode_prepared(None)).unwrap(), None);
        assert_eq!(encode_cluster_id(300)[5..], [251, 44, 1]);
        assert_eq!(decode_cluster_id(&encode_cluster_id(300)).unwrap(), 300);
    }

    #[test]
    fn a_record_of_a_later_format_is_not_read_as_one_of_this() {
        let later = codec::encode(FORMAT + 1, &LogIdRecord::from(log_id()));
        assert!(matches!(decode_log_id(&later), Err(codec::CodecError::Format(2))));
        assert_eq!(decode_log_id(&encode_log_id(log_id())).unwrap(), log_id());
    }

    #[test]
    fn a_vote_and_a_snapshot_meta_survive_the_round_trip() {
        let vote = RaftVote::new(4, 1);
        assert_eq!(decode_vote(&encode_vote(&vote)).unwrap(), vote);
        let members = RaftMembership::new(Some(log_id()), membership());
        let meta = decode_snapshot_meta(&encode_snapshot_meta(Some(log_id()), &members)).unwrap();
        assert_eq!(meta.last_log_id, Some(log_id()));
        assert_eq!(meta.last_membership, members);
        assert_eq!(meta.snapshot_id, "3-700");
    }
}
