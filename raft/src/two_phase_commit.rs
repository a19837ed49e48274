//! The rules of bootstrap, a two-phase commit among the founders of a cluster. They do no I/O.
//!
//! The coordinator is the founder with the lowest id. Once all founders have answered as new, with the same list, it
//! draws a cluster id, prepares its own store for it, and asks the others to prepare theirs. A store is prepared for
//! one id at most, and its record is on disk before any other node learns of it. When all have accepted, the
//! coordinator commits: it writes the first membership, which names those stores. To abort an id, it first ends its
//! own record, on its disk. From then on that id's membership is never written, and the others may be set free. So
//! two first memberships never share a store: the store would have to be prepared for both ids.

use crate::message::{Prepare, Prepared, Refusal};

/// A founder as a participant of bootstrap: the state that it reports about itself and judges requests by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Participant {
    /// The cluster that it takes part in.
    pub(crate) cluster: Option<u128>,
    pub(crate) prepared: Option<Prepared>,
    pub(crate) ticket: u128,
}

/// What a participant does with a prepare request that it does not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Nothing: the store is prepared for this id already.
    Already,
    /// The participant writes its record, then accepts.
    Now,
}

impl Participant {
    /// Judges a prepare request. `node_id` and `founders` are this founder's own settings.
    pub(crate) fn judge(
        &self,
        node_id: u64,
        founders: &str,
        request: &Prepare,
    ) -> Result<Accepted, Refusal> {
        if let Some(ours) = self.cluster {
            return Err(Refusal::WrongCluster { ours });
        }
        check_lists(founders, &request.prepared.founders)?;
        if request.prepared.coordinator == node_id {
            let why = format!("two nodes were started as node {node_id}; end one of them");
            return Err(Refusal::Failed(why));
        }
        match &self.prepared {
            Some(prepared) if *prepared == request.prepared => Ok(Accepted::Already),
            Some(prepared) => Err(prepared.refusal()),
            None if request.ticket != self.ticket => {
                Err(Refusal::Failed("the offer comes too late".to_owned()))
            }
            None => Ok(Accepted::Now),
        }
    }
}

impl Prepared {
    /// Whether the store `said_by` shows, by its current state, that it aborted this id. The coordinator's store is
    /// prepared before it asks any founder. Until it aborts, it stays prepared or belongs to the cluster.
    pub(crate) fn is_aborted(&self, said_by: u128, participant: &Participant) -> bool {
        let holds = participant.prepared.as_ref().is_some_and(|own| own.cluster == self.cluster);
        said_by == self.store && !holds && participant.cluster != Some(self.cluster)
    }

    /// Whether the store `by` may end this record by aborting `cluster`.
    pub(crate) fn may_be_aborted(&self, cluster: u128, by: u128) -> bool {
        self.cluster == cluster && self.store == by
    }
}

/// Refuses founders that were started with another list: each of them might create a cluster.
pub(crate) fn check_lists(ours: &str, theirs: &str) -> Result<(), Refusal> {
    if ours == theirs {
        return Ok(());
    }
    let why = format!(
        "this node was started with --peers {ours}, the other with {theirs}: give all founders the \
         same list, letter by letter"
    );
    Err(Refusal::Failed(why))
}

/// What a founder answered in one round of handshakes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum FounderAnswer {
    Participant(Participant),
    /// The founder refused, for the reason given.
    Refused(String),
    /// The founder gave no valid answer, for the reason given.
    Silent(String),
}

/// What the coordinator does after a round of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Do nothing, and ask again.
    Wait(String),
    /// Draw a cluster id, and prepare first the coordinator's own store and then the others for it.
    Draw,
    /// Ask all others to prepare for the id that the coordinator's own store is prepared for.
    Prepare,
    /// Abort the coordinator's own id.
    Abort(String),
}

/// Decides what the coordinator, whose store is `me`, does after all other founders have answered.
pub(crate) fn decide<'a>(
    me: u128,
    own: Option<&Prepared>,
    founders: &str,
    answers: impl IntoIterator<Item = (u64, &'a FounderAnswer)>,
) -> Decision {
    match own {
        Some(own) if own.store != me => return Decision::Wait(own.refusal().to_string()),
        Some(own) if own.founders != founders => {
            return Decision::Abort(format!("--peers has changed since, from {}", own.founders));
        }
        _ => {}
    }
    let mut missing = Vec::new();
    for (id, answer) in answers {
        let hindrance = match answer {
            FounderAnswer::Silent(why) => Hindrance::Passing(why.clone()),
            FounderAnswer::Refused(why) => Hindrance::Final(why.clone()),
            FounderAnswer::Participant(participant) => match hindrance(me, own, participant) {
                Some(hindrance) => hindrance,
                None => continue,
            },
        };
        match hindrance {
            Hindrance::Final(why) if own.is_some() => {
                return Decision::Abort(format!("node {id}: {why}"));
            }
            Hindrance::Final(why) | Hindrance::Passing(why) => {
                missing.push(format!("node {id}: {why}"));
            }
        }
    }
    match own {
        _ if !missing.is_empty() => Decision::Wait(missing.join("; ")),
        None => Decision::Draw,
        Some(_) => Decision::Prepare,
    }
}

/// Why a founder cannot prepare now.
enum Hindrance {
    /// As far as is known, the founder will never be able to.
    Final(String),
    /// The founder may be able to soon.
    Passing(String),
}

fn hindrance(me: u128, own: Option<&Prepared>, participant: &Participant) -> Option<Hindrance> {
    if participant.cluster.is_some() {
        let why = "it belongs to a cluster already; waiting to be let in";
        return Some(Hindrance::Final(why.to_owned()));
    }
    match (&participant.prepared, own) {
        (None, _) => None,
        (Some(prepared), Some(own)) if prepared == own => None,
        (Some(prepared), _) if prepared.store == me => Some(Hindrance::Passing(
            "it is still to hear that a cluster id was given up".to_owned(),
        )),
        (Some(prepared), _) => Some(Hindrance::Final(prepared.refusal().to_string())),
    }
}

#[cfg(test)]
mod tests;
