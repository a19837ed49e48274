use mintleaf_codec as codec;
use openraft::raft::AppendEntriesRequest;
use openraft::{EntryPayload, LeaderId, Vote};

use super::Request;
use crate::leader_requests::LEADER_REQUEST_BYTES_MAX;
use crate::options::Tuning;
use crate::transport::PROTOCOL;
use crate::types::bounds::{BATCH_BYTES_MAX, COMMANDS_MAX, ENTRIES_MAX};
use crate::types::{Batch, RaftEntry, RaftLogId};

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

#[test]
fn the_log_behind_a_snapshot_holds_what_a_follower_lacks_that_keeps_up() {
    for tuning in [Tuning::default(), Tuning::default().with_snapshots_every(20_000)] {
        let config = tuning.config().unwrap();
        assert!(config.max_in_snapshot_log_to_keep >= 3 * config.max_payload_entries);
    }
}

#[test]
fn a_request_to_the_leader_is_bounded_in_bytes() {
    let read = |bytes: usize| {
        let request = Request::Ask { request: codec::Blob(vec![7; bytes]), within_ms: 1 };
        let frame = codec::encode(PROTOCOL, &request);
        codec::decode::<Request>(&frame).map(drop)
    };
    read(LEADER_REQUEST_BYTES_MAX).unwrap();
    assert!(read(LEADER_REQUEST_BYTES_MAX + 1).is_err());
}
