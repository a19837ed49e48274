//! Messages in words, for the simulation traces that people read.

use mintleaf_codec as codec;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::{EntryPayload, LogId, Membership};

use crate::message::{
    Answer, AskerKnown, Change, Frame, Handshake, HandshakeReply, Lead, Purpose, Request, Response,
};
use crate::types::{Member, RaftEntry, RaftLogId, Types};

/// Up to this many entries of a message are described one by one.
const ENTRIES_LISTED_MAX: usize = 2;

/// A message in words.
#[derive(Clone, Debug)]
pub struct Words {
    /// Its kind, one word.
    pub kind: &'static str,
    /// The whole message. For a request it begins with the kind.
    pub text: String,
    /// Whether nodes send such messages all the time, so that one of them is not news.
    pub is_routine: bool,
    /// The term that the sender claims to lead.
    pub leads: Option<u64>,
}

/// A request in words; `None` when the bytes are not a request.
#[must_use]
pub fn request_in_words(frame: &[u8]) -> Option<Words> {
    let (_, Frame { request, .. }) = codec::decode(frame).ok()?;
    let (kind, detail) = match &request {
        Request::Append(append) => return Some(append_words(append)),
        Request::Vote { rpc, transferred_by } => {
            let asked = if transferred_by.is_some() { ", asked to by the leader" } else { "" };
            let (term, last) = (rpc.vote.leader_id.term, position(rpc.last_log_id));
            ("Vote", format!("term {term}, last entry {last}{asked}"))
        }
        Request::PreVote { last } => ("PreVote", format!("last entry {}", position(*last))),
        Request::Snapshot(part) => {
            let upto = position(part.meta.last_log_id);
            let (offset, len) = (part.offset, part.data.len());
            let end = if part.done { ", the last part" } else { "" };
            ("Snapshot", format!("up to {upto}: {len} bytes at {offset}{end}"))
        }
        Request::Propose { commands, .. } => ("Propose", plural(commands.len(), "command")),
        Request::ReadIndex => ("ReadIndex", String::new()),
        Request::Handshake(Handshake { purpose, cluster, .. }) => {
            let purpose = match (purpose, cluster) {
                (Purpose::Found { .. }, _) => "of a founder",
                (Purpose::Vouch { .. }, _) => "of a member that asks about another node",
                (Purpose::Join, None) => "of a node that is to join",
                (Purpose::Join, Some(_)) => "of a member that is asked to add the receiver",
            };
            ("Handshake", purpose.to_owned())
        }
        Request::Change(change) => ("Change", change_words(change)),
        Request::ForceChange(change) => ("ForceChange", change_words(change)),
        Request::TimeoutNow { from } => {
            ("TimeoutNow", format!("from the leader of term {}", from.leader_id.term))
        }
        Request::Removed { members_index } => {
            ("Removed", format!("by the membership at index {members_index}"))
        }
        Request::ConfirmIncarnation { seen } => ("ConfirmIncarnation", seen.number.to_string()),
        Request::Prepare(prepare) => {
            ("Prepare", format!("the cluster that n{} bootstraps", prepare.prepared.coordinator))
        }
        Request::Abort { .. } => ("Abort", "the cluster that was prepared".to_owned()),
        Request::Ping => ("Ping", String::new()),
        Request::Return { last_log_index, vote } => {
            let last = last_log_index.map_or("none".to_owned(), |index| index.to_string());
            ("Return", format!("term {}, last index {last}", vote.leader_id.term))
        }
        Request::Supports | Request::Describe => ("Version", String::new()),
        Request::Heartbeat { lead: Some(lead) } => return Some(lead_words(lead)),
        Request::Heartbeat { lead: None } => ("Ping", String::new()),
        Request::Ask { request, .. } => ("Ask", format!("the leader, {} bytes", request.0.len())),
    };
    let is_routine = matches!(
        request,
        Request::Heartbeat { .. }
            | Request::Ping
            | Request::Supports
            | Request::Describe
            | Request::ConfirmIncarnation { .. }
    );
    let text = format!("{kind} {detail}").trim_end().to_owned();
    Some(Words { kind, text, is_routine, leads: None })
}

/// An answer in words; `None` when the bytes are not an answer.
#[must_use]
pub fn answer_in_words(answer: &[u8]) -> Option<Words> {
    let (_, Answer { result, .. }) = codec::decode(answer).ok()?;
    let (kind, text) = match result {
        Err(refusal) => ("refusal", format!("refused: {refusal}")),
        Ok(Response::Append(answer)) => ("append", append_answer(&answer)),
        Ok(Response::Vote(answer)) if answer.vote_granted => ("vote", "vote granted".to_owned()),
        Ok(Response::Vote(answer)) => {
            let (term, last) = (answer.vote.leader_id.term, position(answer.last_log_id));
            ("vote", format!("vote refused: term {term}, last entry {last}"))
        }
        Ok(Response::PreVote { granted: true }) => ("pre-vote", "pre-vote granted".to_owned()),
        Ok(Response::PreVote { granted: false }) => ("pre-vote", "pre-vote refused".to_owned()),
        Ok(Response::Snapshot(_)) => ("snapshot", "part received".to_owned()),
        Ok(Response::Proposed(Ok(replies))) => {
            ("proposed", format!("committed and applied, {}", plural(replies.len(), "reply")))
        }
        Ok(Response::Proposed(Err(why))) => ("proposed", format!("not proposed: {why:?}")),
        Ok(Response::ReadIndex(Some(index))) => ("read index", format!("read index {index}")),
        Ok(Response::ReadIndex(None)) => ("read index", "not the leader".to_owned()),
        Ok(Response::Handshake(reply)) => ("handshake", handshake_words(&reply)),
        Ok(Response::Changed(Ok(()))) => ("changed", "changed".to_owned()),
        Ok(Response::Changed(Err(why))) => ("changed", format!("not changed: {why}")),
        Ok(Response::Done) => ("done", "done".to_owned()),
        Ok(Response::Supports(release)) => ("release", format!("level {}", release.level)),
        Ok(Response::Described(is)) => ("release", format!("level {}", is.release.level)),
        Ok(Response::Heartbeat(_)) => ("heartbeat", "alive".to_owned()),
        Ok(Response::Asked(Ok(answer))) => ("asked", format!("answered, {} bytes", answer.0.len())),
        Ok(Response::Asked(Err(why))) => ("asked", format!("not answered: {why:?}")),
    };
    Some(Words { kind, text, is_routine: false, leads: None })
}

fn lead_words(lead: &Lead) -> Words {
    let (term, commit) = (lead.vote.leader_id.term, position(lead.committed));
    let after = position(lead.matched);
    let text = format!("Heartbeat term {term}, after {after}, commit {commit}");
    Words { kind: "Heartbeat", text, is_routine: false, leads: Some(term) }
}

fn append_words(append: &AppendEntriesRequest<Types>) -> Words {
    let term = append.vote.leader_id.term;
    let (kind, entries) = match &append.entries[..] {
        [] => ("Heartbeat", String::new()),
        [first, _, .., last] if append.entries.len() > ENTRIES_LISTED_MAX => {
            let (first, last) = (position(Some(first.log_id)), position(Some(last.log_id)));
            ("Append", format!("{first} to {last}, {} entries; ", append.entries.len()))
        }
        few => ("Append", few.iter().map(entry_words).collect::<Vec<_>>().join(", ") + "; "),
    };
    let (after, commit) = (position(append.prev_log_id), position(append.leader_commit));
    let text = format!("{kind} {entries}term {term}, after {after}, commit {commit}");
    Words { kind, text, is_routine: false, leads: Some(term) }
}

fn entry_words(entry: &RaftEntry) -> String {
    let what = match &entry.payload {
        EntryPayload::Blank => "blank".to_owned(),
        EntryPayload::Normal(batch) => plural(batch.commands.len(), "command"),
        EntryPayload::Membership(members) => members_words(members),
    };
    format!("{} {what}", position(Some(entry.log_id)))
}

/// A membership: its voters, in two sets while they change, and its learners.
fn members_words(members: &Membership<u64, Member>) -> String {
    let set = |ids: &mut dyn Iterator<Item = u64>| {
        let ids: Vec<String> = ids.map(|id| format!("n{id}")).collect();
        format!("{{{}}}", ids.join(" "))
    };
    let configs = members.get_joint_config().iter();
    let voters: Vec<String> = configs.map(|config| set(&mut config.iter().copied())).collect();
    let learners: Vec<u64> = members.learner_ids().collect();
    let learners = match learners.is_empty() {
        true => String::new(),
        false => format!(" learners {}", set(&mut learners.into_iter())),
    };
    format!("voters {}{learners}", voters.join(" and "))
}

fn append_answer(answer: &AppendEntriesResponse<u64>) -> String {
    match answer {
        AppendEntriesResponse::Success => "appended".to_owned(),
        AppendEntriesResponse::PartialSuccess(upto) => {
            format!("appended up to {}", position(*upto))
        }
        AppendEntriesResponse::Conflict => "conflict: no such entry there".to_owned(),
        AppendEntriesResponse::HigherVote(vote) => {
            format!("refused: it voted in term {}", vote.leader_id.term)
        }
    }
}

fn handshake_words(reply: &HandshakeReply) -> String {
    let cluster = match (reply.cluster, &reply.prepared) {
        (Some(_), _) => "a member of a cluster",
        (None, Some(prepared)) => {
            return format!("prepared for the cluster of n{}", prepared.coordinator);
        }
        (None, None) => "new",
    };
    let asker = match reply.asker {
        AskerKnown::No => "",
        AskerKnown::AsSuch => ", which holds the asker",
        AskerKnown::Otherwise => ", which holds the asker's id with another store",
    };
    format!("{cluster}{asker}")
}

fn change_words(change: &Change) -> String {
    match change {
        Change::Add { id, voter: true, .. } => format!("add n{id} as a voter"),
        Change::Add { id, voter: false, .. } => format!("add n{id} as a learner"),
        Change::Remove { id, .. } => format!("remove n{id}"),
        Change::Transfer { id } => format!("make n{id} the leader"),
        Change::RaiseLevel => "raise the level".to_owned(),
    }
}

/// A position in the log: `term/index`.
fn position(id: Option<RaftLogId>) -> String {
    id.map_or("none".to_owned(), |LogId { leader_id, index }| format!("{}/{index}", leader_id.term))
}

fn plural(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}
