//! What the members of one cluster may say to one another, in steps as small as a message: the specification of Raft
//! that simulated clusters are held to. For tests only.
//!
//! [`Agreement::step`] takes a step that the protocol allows and refuses every other one. It hears messages as they are
//! sent, in any order, and knows nothing of how a node makes them. The rules are those of Raft (thesis, figure 3.1,
//! 3.6 and 4.1), with what this crate adds: a term is led by one process, a leader counts only answers that were given,
//! and a leadership is handed over by the leader.
//!
//! - Its own model (`specification/tests.rs`) searches all that the rules of members allow: no committed entry is
//!   lost, and no index has two. Without any one of these rules the search finds a loss.
//! - The simulation sends every message between its nodes through here (`simulation::Overheard`).
//!
//! [`Forming`] does the same for the messages that form a cluster.

mod forming;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};

pub use forming::{Forming, FormingStep};
pub use refusal::Refusal;

/// A leadership: a term, and the node that stands for it. Two nodes may stand in one term, in this order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaderId {
    /// The term.
    pub term: u64,
    /// The candidate.
    pub node: u64,
}

/// A position in the log, and the leader that wrote the entry there. Logs are compared by their last positions.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LogId {
    /// The leader.
    pub leader: LeaderId,
    /// The index.
    pub index: u64,
}

/// A data directory of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Store {
    /// The node.
    pub node: u64,
    /// The data directory.
    pub id: u128,
}

/// The voters. A quorum is a majority of each set; there are two sets while the membership changes.
pub type Voters = Vec<BTreeSet<Store>>;

/// An entry of the log.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Entry {
    /// Its position.
    pub id: LogId,
    /// A hash of its content.
    pub content: u64,
    /// The voters from this entry on, if it changes the membership.
    pub voters: Option<Voters>,
}

/// A message, or the part of one that the specification is about.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Step {
    /// A candidate, whose log ends at `last`, votes for itself and asks for votes.
    Campaign {
        /// The candidate's leadership, should it win.
        leader: LeaderId,
        /// Its data directory.
        store: Store,
        /// Its process.
        process: u128,
        /// The end of its log.
        last: Option<LogId>,
        /// The leader that asked it to take over.
        asked_by: Option<LeaderId>,
    },
    /// A node, whose log ends at `last`, votes for a candidate.
    Grant {
        /// The candidate's leadership.
        leader: LeaderId,
        /// The voter.
        store: Store,
        /// The end of its log.
        last: Option<LogId>,
    },
    /// A leader sends entries, or none, that follow an entry.
    Append {
        /// The leader.
        leader: LeaderId,
        /// Its process.
        process: u128,
        /// The entry before.
        after: Option<LogId>,
        /// The entries.
        entries: Vec<Entry>,
        /// The last entry that the leader knows to be committed.
        committed: Option<LogId>,
    },
    /// A leader sends a snapshot instead of entries.
    Snapshot {
        /// The leader.
        leader: LeaderId,
        /// Its process.
        process: u128,
        /// The last entry that is in the snapshot.
        upto: LogId,
        /// The entry that named the voters, and the voters.
        voters: (LogId, Voters),
    },
    /// A node answers a leader that its log is the leader's, durably, up to an entry.
    Hold {
        /// The leader.
        leader: LeaderId,
        /// The follower.
        store: Store,
        /// The entry.
        upto: LogId,
    },
    /// A leader believes that a node holds its log up to an entry.
    Believe {
        /// The leader.
        leader: LeaderId,
        /// The follower.
        store: Store,
        /// The entry.
        upto: LogId,
    },
    /// A leader asks a node to stand for election at once.
    HandOver {
        /// The leader.
        leader: LeaderId,
        /// Its process.
        process: u128,
        /// The node.
        to: u64,
    },
    /// A node answers a read, which began when an entry was known to be committed, as the leader: all that the reader
    /// may miss lies behind this index.
    Read {
        /// The committed index that was known before.
        since: Option<u64>,
        /// The index of the answer.
        index: u64,
    },
}

/// What members of one cluster have said so far.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Agreement {
    entries: BTreeMap<LogId, Known>,
    /// The entries that changed the membership, and the voters since.
    memberships: BTreeMap<LogId, Voters>,
    candidates: BTreeMap<LeaderId, Candidate>,
    /// The ends of the logs of the nodes that voted for a leader, by voter.
    votes: BTreeMap<Store, BTreeMap<LeaderId, Option<LogId>>>,
    /// The highest entries that followers said to hold under a leader, by follower.
    held: BTreeMap<Store, BTreeMap<LeaderId, LogId>>,
    /// By index, the entry, and the leader under which it was committed.
    committed: BTreeMap<u64, (LogId, LeaderId)>,
    /// Each leader's requests to take over.
    handed_over: BTreeSet<(LeaderId, u64)>,
    /// How often a rule could not be judged, because the nodes never said what it rests on.
    unjudged: u64,
    /// A rule that is not kept, for the search.
    waived: Option<Refusal>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Known {
    /// The entry before; `None` also where it was never said.
    after: Option<LogId>,
    /// `None` if the entry was never said.
    content: Option<u64>,
    /// The last change of the membership up to here; `None` where none was said.
    membership: Option<LogId>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Candidate {
    store: Store,
    process: u128,
    last: Option<LogId>,
    state: Election,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Election {
    Campaigns,
    /// By votes that were said.
    Elected,
    /// By its own vote alone. It did not say where its log ended.
    Lone,
}

impl Agreement {
    /// Takes a step.
    ///
    /// # Errors
    /// The step is not allowed.
    pub fn step(&mut self, step: Step) -> Result<(), Refusal> {
        match step {
            Step::Campaign { leader, store, process, last, asked_by } => {
                let handed_over =
                    asked_by.is_none_or(|by| self.handed_over.contains(&(by, leader.node)));
                self.require(handed_over, Refusal::NotHandedOver)?;
                let state = Election::Campaigns;
                let campaign = Candidate { store, process, last, state };
                // If another node had voted for the directory that was lost, no leader of an earlier term could have
                // removed it.
                let lost = self.candidates.get(&leader).is_some_and(|former| {
                    former.store != store
                        && former.state == Election::Campaigns
                        && !self.has_vote_of_another(leader)
                });
                if lost {
                    self.candidates.remove(&leader);
                }
                let campaign = self.candidates.entry(leader).or_insert(campaign);
                let is_same = (campaign.store, campaign.process) == (store, process);
                self.require(is_same, Refusal::TwoProcesses)?;
                self.vote(leader, store, last)
            }
            Step::Grant { leader, store, last } => {
                let campaign = self.candidates.get(&leader).map(|candidate| candidate.last);
                let is_behind = campaign.is_some_and(|theirs| theirs < last);
                self.require(!is_behind, Refusal::NotUpToDate)?;
                self.vote(leader, store, last)
            }
            Step::Append { leader, process, after, entries, committed } => {
                self.lead(leader, process, after)?;
                self.append(leader, after, entries)?;
                committed.map_or(Ok(()), |upto| self.commit(leader, upto))
            }
            Step::Snapshot { leader, process, upto, voters: (named_at, voters) } => {
                self.lead(leader, process, None)?;
                self.memberships.entry(named_at).or_insert(voters);
                let (after, content, membership) = (None, None, Some(named_at));
                let known =
                    self.entries.entry(upto).or_insert(Known { after, content, membership });
                known.membership = membership;
                self.commit(leader, upto)
            }
            Step::Hold { leader, store, upto } => {
                let later = (std::ops::Bound::Excluded(leader), std::ops::Bound::Unbounded);
                let mut votes = self.votes.get(&store).into_iter().flat_map(|of| of.range(later));
                let kept = votes.all(|(_, last)| *last >= Some(upto));
                self.require(kept, Refusal::BrokenPromise)?;
                let held = self.held.entry(store).or_default().entry(leader).or_insert(upto);
                *held = upto.max(*held);
                Ok(())
            }
            Step::Believe { leader, store, upto } => {
                let said = self.held.get(&store).and_then(|of| of.get(&leader));
                self.require(said.is_some_and(|said| *said >= upto), Refusal::Unanswered)
            }
            Step::HandOver { leader, process, to } => {
                self.lead(leader, process, None)?;
                self.handed_over.insert((leader, to));
                Ok(())
            }
            Step::Read { since, index } => {
                self.require(since.is_none_or(|since| since <= index), Refusal::StaleRead)
            }
        }
    }

    /// The highest index that a leader said to be committed.
    #[must_use]
    pub fn committed_index(&self) -> Option<u64> {
        self.committed.last_key_value().map(|(index, _)| *index)
    }

    /// How often a rule could not be judged, because the nodes never said what it rests on.
    #[must_use]
    pub fn unjudged(&self) -> u64 {
        self.unjudged
    }

    /// The highest entry that each data directory said to hold, under its latest leader.
    pub fn held(&self) -> impl Iterator<Item = (Store, LogId)> {
        self.held.iter().filter_map(|(store, of)| Some((*store, *of.last_key_value()?.1)))
    }

    fn require(&self, holds: bool, refusal: Refusal) -> Result<(), Refusal> {
        if holds || self.waived == Some(refusal) { Ok(()) } else { Err(refusal) }
    }

    /// A vote promises that the voter answers no earlier leader any more, so its log holds all of the answers it gave,
    /// apart from entries that a later leader has replaced.
    fn vote(&mut self, leader: LeaderId, store: Store, last: Option<LogId>) -> Result<(), Refusal> {
        let mut held = self.held.get(&store).into_iter().flat_map(|of| of.range(..leader));
        let kept = held
            .all(|(by, upto)| last >= Some(*upto) || self.was_replaced(*by, *upto, leader, last));
        self.require(kept, Refusal::BrokenPromise)?;
        let promised = self.votes.entry(store).or_default().entry(leader).or_insert(last);
        *promised = last.min(*promised);
        Ok(())
    }

    /// Whether a leader after the one that an entry was answered to, and before `leader`, wrote another entry at its
    /// index or below. A node removes the old entries for it, up to which its log is the later leader's, and a crash may
    /// take the new ones. The old ones were never committed, because that leader was elected without them.
    fn was_replaced(
        &self,
        answered: LeaderId,
        upto: LogId,
        leader: LeaderId,
        last: Option<LogId>,
    ) -> bool {
        self.entries.iter().any(|(entry, known)| {
            let is_later = answered < entry.leader && entry.leader < leader;
            is_later && entry.index <= upto.index && last >= known.after
        })
    }

    /// Whether a node other than the candidate has voted for it.
    fn has_vote_of_another(&self, leader: LeaderId) -> bool {
        self.votes.iter().any(|(store, of)| store.node != leader.node && of.contains_key(&leader))
    }

    /// A node claims to lead.
    fn lead(
        &mut self,
        leader: LeaderId,
        process: u128,
        after: Option<LogId>,
    ) -> Result<(), Refusal> {
        let Some(candidate) = self.candidates.get(&leader) else {
            // It asked no other node for a vote, which only a lone voter may do.
            let Some(voters) = self.voters_at(after) else {
                self.unjudged += 1;
                return Ok(());
            };
            let lone = voters.iter().all(|set| set.len() == 1);
            let itself = voters.iter().flatten().copied().find(|one| one.node == leader.node);
            self.require(lone && itself.is_some(), Refusal::NotElected)?;
            let (last, state) = (None, Election::Lone);
            let elected = |store| (leader, Candidate { store, process, last, state });
            self.candidates.extend(itself.map(elected));
            return Ok(());
        };
        self.require(candidate.process == process, Refusal::TwoProcesses)?;
        if candidate.state != Election::Campaigns {
            return Ok(());
        }
        let last = candidate.last;
        let voted: BTreeSet<Store> = self
            .votes
            .iter()
            .filter(|(_, of)| of.contains_key(&leader))
            .map(|(store, _)| *store)
            .collect();
        match self.voters_at(last) {
            Some(voters) => self.require(is_quorum(voters, &voted), Refusal::NotElected)?,
            None => self.unjudged += 1,
        }
        let before = self.committed.values().rev().find(|(_, by)| *by < leader);
        let is_complete = before.is_none_or(|(id, _)| last >= Some(*id));
        self.require(is_complete, Refusal::LacksCommitted)?;
        self.candidates.entry(leader).and_modify(|candidate| candidate.state = Election::Elected);
        Ok(())
    }

    fn append(
        &mut self,
        leader: LeaderId,
        mut after: Option<LogId>,
        entries: Vec<Entry>,
    ) -> Result<(), Refusal> {
        self.require(self.continues_its_log(leader, after, &entries), Refusal::NotItsLog)?;
        self.completes(leader, after)?;
        for Entry { id, content, voters } in entries {
            self.completes(leader, Some(id))?;
            let before = after.and_then(|after| self.entries.get(&after)?.membership);
            let membership = if voters.is_some() { Some(id) } else { before };
            let new = Known { after, content: Some(content), membership };
            let known = self.entries.entry(id).or_insert_with(|| new.clone());
            let is_same = known.content.is_none_or(|known| known == content)
                && (known.after.is_none() || known.after == after);
            self.require(is_same, Refusal::TwoEntries)?;
            self.entries.entry(id).and_modify(|known| {
                known.content = Some(content);
                known.after = after;
                known.membership = known.membership.or(membership);
            });
            if let Some(voters) = voters {
                self.memberships.entry(id).or_insert(voters);
            }
            after = Some(id);
        }
        Ok(())
    }

    /// Whether the entries follow each other, no later leader wrote any, and the leader's own begin where the log ended
    /// with which it campaigned.
    fn continues_its_log(
        &self,
        leader: LeaderId,
        mut after: Option<LogId>,
        entries: &[Entry],
    ) -> bool {
        let campaign = self.candidates.get(&leader).filter(|one| one.state != Election::Lone);
        entries.iter().all(|Entry { id, .. }| {
            let before = after.replace(*id);
            let follows = id.index == before.map_or(0, |before| before.index + 1);
            let begins = id.leader == leader && before.is_none_or(|before| before.leader != leader);
            let is_its_log = !begins || campaign.is_none_or(|campaign| campaign.last == before);
            follows && id.leader <= leader && is_its_log
        })
    }

    /// A leader's log holds everything that was committed under an earlier leader.
    fn completes(&self, leader: LeaderId, id: Option<LogId>) -> Result<(), Refusal> {
        let Some(id) = id else { return Ok(()) };
        let there = self.committed.get(&id.index).filter(|(_, by)| *by <= leader);
        self.require(there.is_none_or(|(committed, _)| *committed == id), Refusal::LacksCommitted)
    }

    /// A leader says that everything up to an entry is committed.
    fn commit(&mut self, leader: LeaderId, upto: LogId) -> Result<(), Refusal> {
        if self.committed.get(&upto.index).is_some_and(|(id, _)| *id == upto) {
            return Ok(());
        }
        // A later leader may be the first to say what an earlier one committed.
        let by = upto.leader;
        self.require(by <= leader, Refusal::NoQuorum)?;
        self.held_by_quorum(by, upto)?;
        let mut next = Some(upto);
        while let Some(id) = next {
            if let Some((there, _)) = self.committed.get(&id.index) {
                let is_same = *there == id;
                return self.require(is_same, Refusal::CommittedTwice);
            }
            self.committed.insert(id.index, (id, by));
            next = self.entries.get(&id).and_then(|known| known.after);
        }
        Ok(())
    }

    /// The leader that wrote an entry counted a quorum that holds it, itself perhaps.
    fn held_by_quorum(&mut self, by: LeaderId, upto: LogId) -> Result<(), Refusal> {
        let holds = |of: &BTreeMap<LeaderId, LogId>| of.get(&by).is_some_and(|held| *held >= upto);
        let mut held: BTreeSet<Store> =
            self.held.iter().filter(|(_, of)| holds(of)).map(|(store, _)| *store).collect();
        let known = self.entries.get(&upto).and_then(|known| known.membership);
        let candidate = self.candidates.get(&by);
        // A change of the membership counts from when the leader wrote it.
        let last = LogId { leader: by, index: u64::MAX };
        let later = self.memberships.range(upto..=last).map(|(_, voters)| voters);
        let known = known.and_then(|at| self.memberships.get(&at));
        let alternatives: Vec<&Voters> = known.into_iter().chain(later).collect();
        if alternatives.is_empty() {
            self.unjudged += 1;
            return Ok(());
        }
        let agrees =
            |held: &BTreeSet<Store>| alternatives.iter().any(|voters| is_quorum(voters, held));
        if agrees(&held) {
            return Ok(());
        }
        let itself = match candidate {
            Some(candidate) => Some(candidate.store),
            None => alternatives
                .iter()
                .flat_map(|voters| voters.iter().flatten())
                .copied()
                .find(|one| one.node == by.node),
        };
        held.extend(itself);
        self.require(agrees(&held), Refusal::NoQuorum)?;
        // It cannot have been committed without the leader's own disk.
        itself.map_or(Ok(()), |store| self.step(Step::Hold { leader: by, store, upto }))
    }

    fn voters_at(&self, id: Option<LogId>) -> Option<&Voters> {
        let at = self.entries.get(&id?)?.membership?;
        self.memberships.get(&at)
    }
}

fn is_quorum(voters: &Voters, of: &BTreeSet<Store>) -> bool {
    voters.iter().all(|set| 2 * set.intersection(of).count() > set.len())
}

#[cfg(test)]
mod tests;
