//! What a founder promises before its cluster exists: pure rules of forming in two steps.
//!
//! The coordinator is the founder with the lowest id. Once all founders have answered as new, with
//! the same list, it draws a cluster id, binds its own store to it, and asks the others to bind
//! theirs. A store has one [`Bond`] at most, and it is on its disk before anybody hears of it. When
//! all have accepted, the coordinator writes the first membership, which names those stores. It gives
//! an id up by ending its own bond first, on its disk; from then on nobody will ever write that id's
//! membership, and the others may be set free. So two first memberships never share a store:
//! each would hold it bound to its own id.

use serde::{Deserialize, Serialize};

use mintleaf_storage::{codec, planted};

use crate::guard::Refusal;

/// Format byte of a bond on disk.
const FORMAT: u8 = 1;

/// A store's promise to take part in no cluster but this one. It ends when the coordinator's store
/// has given the cluster id up, and never by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Bond {
    pub(crate) cluster: u128,
    /// Node id of the coordinator.
    pub(crate) coordinator: u64,
    /// The coordinator's data directory: only it gives the id up.
    pub(crate) store: u128,
    /// The list of founders that they all were started with.
    pub(crate) founders: String,
}

/// The coordinator asks a founder to bind its store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) bond: Bond,
    /// What the founder said last in a hello; one that comes late, after the id was given up, quotes
    /// a ticket that is spent.
    pub(crate) ticket: u128,
}

/// What a founder says of itself, and judges offers by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    /// The cluster that it takes part in.
    pub(crate) cluster: Option<u128>,
    pub(crate) bond: Option<Bond>,
    pub(crate) ticket: u128,
}

/// What is to be done with an offer that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// The store was bound so before.
    Already,
    /// Once the bond is on disk.
    Now,
}

impl Standing {
    /// Judges an offer. `node_id` and `founders` are the ones that this founder was started with.
    pub(crate) fn judge(
        &self,
        node_id: u64,
        founders: &str,
        offer: &Offer,
    ) -> Result<Accepted, Refusal> {
        if let Some(ours) = self.cluster {
            return Err(Refusal::WrongCluster { ours });
        }
        check_lists(founders, &offer.bond.founders)?;
        if offer.bond.coordinator == node_id {
            let why = format!("two nodes were started as node {node_id}; end one of them");
            return Err(Refusal::Failed(why));
        }
        match &self.bond {
            Some(bond) if *bond == offer.bond => Ok(Accepted::Already),
            Some(_) if planted("bound-founder-bound-again") => Ok(Accepted::Now),
            Some(bond) => Err(bond.refusal()),
            None if offer.ticket != self.ticket => {
                Err(Refusal::Failed("the offer comes too late".to_owned()))
            }
            None => Ok(Accepted::Now),
        }
    }
}

impl Bond {
    /// What is on disk of a store that is bound, or is free again.
    pub(crate) fn encode(bond: Option<&Self>) -> Vec<u8> {
        codec::encode(FORMAT, &bond)
    }

    pub(crate) fn decode(record: &[u8]) -> Result<Option<Self>, codec::CodecError> {
        codec::decode_as(FORMAT, record)
    }

    /// Why a store that is bound so takes part in nothing else.
    pub(crate) fn refusal(&self) -> Refusal {
        let Self { cluster, coordinator, store, .. } = *self;
        Refusal::Bound { cluster, coordinator, store }
    }

    /// Whether the coordinator's store says, by how it stands now, that it gave the id up. It was
    /// bound before it asked anybody, and stays bound, or belongs to the cluster, until it gives up.
    pub(crate) fn is_given_up(&self, said_by: u128, standing: &Standing) -> bool {
        let holds = standing.bond.as_ref().is_some_and(|bond| bond.cluster == self.cluster);
        said_by == self.store && !holds && standing.cluster != Some(self.cluster)
    }

    /// Whether the store `by` may end this bond by giving up `cluster`.
    pub(crate) fn ends_with(&self, cluster: u128, by: u128) -> bool {
        self.cluster == cluster && (self.store == by || planted("bond-ended-by-anybody"))
    }
}

/// Refuses founders that were started with another list: each might form a cluster of its own.
pub(crate) fn check_lists(ours: &str, theirs: &str) -> Result<(), Refusal> {
    if ours == theirs || planted("lists-not-compared") {
        return Ok(());
    }
    let why = format!(
        "this node was started with --peers {ours}, the other with {theirs}: give all founders the \
         same list, letter by letter"
    );
    Err(Refusal::Failed(why))
}

/// What a founder answered to the coordinator in one round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Stands(Standing),
    /// It refused, and says why.
    Refused(String),
    /// Nothing that counts, and why.
    Silent(String),
}

/// What the coordinator does after a round of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing: asks again.
    Wait(String),
    /// Draws a cluster id, binds itself to it, then the others.
    Draw,
    /// Offers the bond that it has itself to all others.
    Offer,
    /// Gives its id up.
    GiveUp(String),
}

/// What the coordinator does, in the store `me`, given the answers of all other founders.
pub(crate) fn plan<'a>(
    me: u128,
    own: Option<&Bond>,
    founders: &str,
    answers: impl IntoIterator<Item = (u64, &'a Answer)>,
) -> Plan {
    match own {
        Some(own) if own.store != me => return Plan::Wait(own.refusal().to_string()),
        Some(own) if own.founders != founders => {
            return Plan::GiveUp(format!("--peers has changed since, from {}", own.founders));
        }
        _ => {}
    }
    let mut missing = None;
    for (id, answer) in answers {
        let hindrance = match answer {
            Answer::Silent(why) => Hindrance::Passing(why.clone()),
            Answer::Refused(why) => Hindrance::Final(why.clone()),
            Answer::Stands(standing) => match hindrance(me, own, standing) {
                Some(hindrance) => hindrance,
                None => continue,
            },
        };
        match hindrance {
            Hindrance::Final(why) if own.is_some() => {
                return Plan::GiveUp(format!("node {id}: {why}"));
            }
            Hindrance::Final(why) | Hindrance::Passing(why) => {
                missing.get_or_insert_with(|| format!("node {id}: {why}"));
            }
        }
    }
    match (missing, own) {
        (Some(missing), _) => Plan::Wait(missing),
        (None, None) => Plan::Draw,
        (None, Some(_)) => Plan::Offer,
    }
}

/// Why a founder cannot be bound now.
enum Hindrance {
    /// It will not be, for all that is known.
    Final(String),
    /// It may be soon.
    Passing(String),
}

fn hindrance(me: u128, own: Option<&Bond>, standing: &Standing) -> Option<Hindrance> {
    if standing.cluster.is_some() {
        let why = "it belongs to a cluster already; waiting to be let in";
        return Some(Hindrance::Final(why.to_owned()));
    }
    match (&standing.bond, own) {
        (None, _) => None,
        (Some(bond), Some(own)) if bond == own => None,
        (Some(bond), _) if bond.store == me => Some(Hindrance::Passing(
            "it is still to hear that a cluster id was given up".to_owned(),
        )),
        (Some(bond), _) => Some(Hindrance::Final(bond.refusal().to_string())),
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
