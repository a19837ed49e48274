//! Holds the messages between simulated nodes to the specification of Raft.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use mintleaf_codec as codec;
use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteResponse,
};

use super::words::{answer_in_words, request_in_words};
use crate::message::{
    Answer, Frame, HandshakeReply, Header, Incarnation, Lead, Origin, Prepare, Request, Response,
};
use crate::specification::{
    Agreement, Entry, Forming, FormingStep, LeaderId, LogId, Refusal, Step, Store, Voters,
};
use crate::types::{RaftEntry, RaftLogId, RaftMembership, RaftVote, Types};

/// All that the nodes of a network have said, by cluster.
#[derive(Default)]
pub struct Overheard {
    clusters: BTreeMap<u128, Agreement>,
    forming: Forming,
    /// By data directory, the latest incarnation that has said anything.
    incarnations: BTreeMap<u128, Incarnation>,
    steps: u64,
}

/// A request, as its answer will be judged.
#[derive(Clone, Debug)]
pub struct Asked {
    cluster: u128,
    /// What the receiver says if it agrees.
    consent: Consent,
}

#[derive(Clone, Debug)]
enum Consent {
    /// The request is a handshake. These clusters had been offered before it was sent.
    Introduction {
        offered: Vec<u128>,
    },
    /// The receiver is to prepare its data directory.
    Prepare,
    Vote(RaftVote),
    Hold {
        leader: LeaderId,
        upto: Option<LogId>,
    },
    Read {
        since: Option<u64>,
    },
}

/// A message that the specification does not allow.
#[derive(Debug)]
pub struct NotAllowed {
    sender: u64,
    text: String,
    why: Refusal,
}

impl fmt::Display for NotAllowed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, text, why } = self;
        write!(out, "the specification of raft does not let node {sender} say '{text}': {why}")
    }
}

impl Overheard {
    /// Judges a request when it is sent. Returns what to judge its answer by, if the answer matters.
    ///
    /// # Errors
    /// The specification does not allow it.
    pub fn request(&mut self, frame: &[u8]) -> Result<Option<Asked>, NotAllowed> {
        let Ok((_, Frame { header, request })) = codec::decode(frame) else { return Ok(None) };
        let Some(header) = header else {
            let offered = self.forming.offers().collect();
            return Ok(Some(Asked { cluster: 0, consent: Consent::Introduction { offered } }));
        };
        if self.is_outdated(&header.from) {
            return Ok(None);
        }
        self.asks(header, request).map_err(|why| {
            let mut text = request_in_words(frame).map_or_else(String::new, |words| words.text);
            if why == Refusal::NoQuorum {
                text += &self.held_in_words(header.cluster);
            }
            NotAllowed { sender: header.from.node_id, text, why }
        })
    }

    /// How far each data directory of a cluster said that its log reaches.
    fn held_in_words(&self, cluster: u128) -> String {
        let held = self.clusters.get(&cluster).into_iter().flat_map(Agreement::held);
        let each = held.map(|(Store { node, id }, LogId { leader, index })| {
            format!(", n{node} ({:x}) holds {}/{index}", id >> 96, leader.term)
        });
        each.collect()
    }

    fn asks(&mut self, header: Header, request: Request) -> Result<Option<Asked>, Refusal> {
        let Header { cluster, from, to, .. } = header;
        let process = from.incarnation.nonce;
        let consent = match request {
            Request::Vote { rpc, transferred_by } => {
                let (leader, last) = (leader(rpc.vote), rpc.last_log_id.map(log_id));
                let asked_by = transferred_by.map(self::leader);
                let store = store(&from);
                self.forms(FormingStep::TakePart { cluster, store: from.store })?;
                self.step(cluster, Step::Campaign { leader, store, process, last, asked_by })?;
                Consent::Vote(rpc.vote)
            }
            Request::Append(append) => self.append(cluster, process, append)?,
            Request::Snapshot(part) => match self.snapshot(cluster, process, &part)? {
                Some(consent) => consent,
                None => return Ok(None),
            },
            Request::Heartbeat { lead: Some(lead) } => {
                let store = Store { node: to.node_id, id: to.store };
                self.heartbeat(cluster, process, store, lead)?;
                return Ok(None);
            }
            Request::TimeoutNow { from } => {
                let step = Step::HandOver { leader: leader(from), process, to: to.node_id };
                self.step(cluster, step)?;
                return Ok(None);
            }
            Request::Prepare(Prepare { prepared, .. }) => {
                let (cluster, by) = (prepared.cluster, prepared.store);
                self.forms(FormingStep::Offer { cluster, by })?;
                return Ok(Some(Asked { cluster, consent: Consent::Prepare }));
            }
            Request::Abort { cluster } => {
                self.forms(FormingStep::Abort { cluster, by: from.store })?;
                return Ok(None);
            }
            Request::ReadIndex => {
                let since = self.clusters.get(&cluster).and_then(Agreement::committed_index);
                Consent::Read { since }
            }
            _ => return Ok(None),
        };
        Ok(Some(Asked { cluster, consent }))
    }

    /// Judges the answer to a request when it is sent.
    ///
    /// # Errors
    /// The specification does not allow it.
    pub fn answer(&mut self, to: &Asked, answer: &[u8]) -> Result<(), NotAllowed> {
        let Ok((_, Answer { from, result: Ok(response), .. })) = codec::decode(answer) else {
            return Ok(());
        };
        if self.is_outdated(&from) {
            return Ok(());
        }
        self.agrees(to, &from, response).map_err(|why| {
            let text = answer_in_words(answer).map_or_else(String::new, |words| words.text);
            NotAllowed { sender: from.node_id, text, why }
        })
    }

    fn agrees(&mut self, to: &Asked, from: &Origin, response: Response) -> Result<(), Refusal> {
        let store = store(from);
        let step = match (&to.consent, response) {
            (Consent::Introduction { offered }, Response::Handshake(reply)) => {
                return self.introduces_itself(from.store, offered, &reply);
            }
            (Consent::Prepare, Response::Done) => {
                let (cluster, store) = (to.cluster, from.store);
                return self.forms(FormingStep::Accept { cluster, store });
            }
            (Consent::Vote(vote), Response::Vote(answer)) if is_granted(&answer, *vote) => {
                let (leader, last) = (leader(*vote), answer.last_log_id.map(log_id));
                Some(Step::Grant { leader, store, last })
            }
            (&Consent::Hold { leader, upto }, Response::Append(answer)) => {
                let upto = match answer {
                    AppendEntriesResponse::Success => upto,
                    AppendEntriesResponse::PartialSuccess(upto) => upto.map(log_id),
                    _ => None,
                };
                upto.map(|upto| Step::Hold { leader, store, upto })
            }
            (&Consent::Hold { leader, upto }, Response::Snapshot(answer))
                if self::leader(answer.vote) == leader =>
            {
                upto.map(|upto| Step::Hold { leader, store, upto })
            }
            (&Consent::Read { since }, Response::ReadIndex(Some(index))) => {
                Some(Step::Read { since, index })
            }
            _ => None,
        };
        let Some(step) = step else { return Ok(()) };
        if let Step::Grant { .. } | Step::Hold { .. } = step {
            self.forms(FormingStep::TakePart { cluster: to.cluster, store: from.store })?;
        }
        self.step(to.cluster, step)
    }

    /// A node that was asked after it offered a cluster, and that is neither prepared for it nor in it, has aborted it.
    fn introduces_itself(
        &mut self,
        store: u128,
        offered: &[u128],
        reply: &HandshakeReply,
    ) -> Result<(), Refusal> {
        let prepared = reply.prepared.as_ref().map(|prepared| prepared.cluster);
        let is_ended = |cluster: &u128| ![prepared, reply.cluster].contains(&Some(*cluster));
        let ended: Vec<u128> = self.forming.offers_of(store).filter(is_ended).collect();
        let ended = ended.into_iter().filter(|cluster| offered.contains(cluster));
        for cluster in ended {
            self.forms(FormingStep::Abort { cluster, by: store })?;
        }
        Ok(())
    }

    /// How many steps were judged.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How often a rule could not be judged, because the nodes never said what it rests on.
    #[must_use]
    pub fn unjudged(&self) -> u64 {
        self.clusters.values().map(Agreement::unjudged).sum()
    }

    fn append(
        &mut self,
        cluster: u128,
        process: u128,
        append: AppendEntriesRequest<Types>,
    ) -> Result<Consent, Refusal> {
        let leader = leader(append.vote);
        let after = append.prev_log_id.map(log_id);
        let last = append.entries.last().map(|entry| log_id(entry.log_id));
        let entries: Vec<Entry> = append.entries.iter().map(entry).collect();
        if let Some(Entry { id: LogId { index: 0, .. }, voters: Some(voters), .. }) =
            entries.first()
        {
            let founders = voters.iter().flatten().map(|store| store.id).collect();
            self.forms(FormingStep::Begin { cluster, founders })?;
        }
        let committed = append.leader_commit.map(log_id);
        self.step(cluster, Step::Append { leader, process, after, entries, committed })?;
        Ok(Consent::Hold { leader, upto: last.or(after) })
    }

    fn snapshot(
        &mut self,
        cluster: u128,
        process: u128,
        part: &InstallSnapshotRequest<Types>,
    ) -> Result<Option<Consent>, Refusal> {
        let members = &part.meta.last_membership;
        let (Some(upto), Some(named_at)) = (part.meta.last_log_id, members.log_id()) else {
            return Ok(None);
        };
        let (leader, upto) = (leader(part.vote), log_id(upto));
        let voters = (log_id(*named_at), voters(members));
        self.step(cluster, Step::Snapshot { leader, process, upto, voters })?;
        Ok(part.done.then_some(Consent::Hold { leader, upto: Some(upto) }))
    }

    fn heartbeat(
        &mut self,
        cluster: u128,
        process: u128,
        follower: Store,
        lead: Lead,
    ) -> Result<(), Refusal> {
        let leader = leader(lead.vote);
        if let Some(upto) = lead.matched.map(log_id) {
            self.step(cluster, Step::Believe { leader, store: follower, upto })?;
        }
        let (after, entries, committed) = (None, Vec::new(), lead.committed.map(log_id));
        self.step(cluster, Step::Append { leader, process, after, entries, committed })
    }

    /// Whether the sender runs on an old image of its disk. Its peers refuse whatever it says.
    fn is_outdated(&mut self, from: &Origin) -> bool {
        let latest = self.incarnations.entry(from.store).or_insert(from.incarnation);
        let is_outdated = from.incarnation.is_stale(*latest);
        if !is_outdated && from.incarnation.number > latest.number {
            *latest = from.incarnation;
        }
        is_outdated
    }

    fn forms(&mut self, step: FormingStep) -> Result<(), Refusal> {
        self.steps += 1;
        self.forming.step(step)
    }

    fn step(&mut self, cluster: u128, step: Step) -> Result<(), Refusal> {
        self.steps += 1;
        self.clusters.entry(cluster).or_default().step(step)
    }
}

fn is_granted(answer: &VoteResponse<u64>, vote: RaftVote) -> bool {
    answer.vote_granted && answer.vote == vote
}

fn leader(vote: RaftVote) -> LeaderId {
    LeaderId { term: vote.leader_id.term, node: vote.leader_id.node_id }
}

fn log_id(id: RaftLogId) -> LogId {
    let leader = LeaderId { term: id.leader_id.term, node: id.leader_id.node_id };
    LogId { leader, index: id.index }
}

fn store(of: &Origin) -> Store {
    Store { node: of.node_id, id: of.store }
}

fn voters(members: &RaftMembership) -> Voters {
    let members = members.membership();
    let store = |node: &u64| {
        let id = members.get_node(node).map_or(0, |member| member.store);
        Store { node: *node, id }
    };
    members.get_joint_config().iter().map(|set| set.iter().map(store).collect()).collect()
}

fn entry(entry: &RaftEntry) -> Entry {
    let id = log_id(entry.log_id);
    let mut content = DefaultHasher::new();
    codec::encode(0, &entry.payload).hash(&mut content);
    let voters = match &entry.payload {
        EntryPayload::Membership(members) => {
            Some(voters(&RaftMembership::new(Some(entry.log_id), members.clone())))
        }
        _ => None,
    };
    Entry { id, content: content.finish(), voters }
}
