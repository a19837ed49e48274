//! What founders may say while clusters form: the specification of bootstrap, a two-phase commit.

use std::collections::{BTreeMap, BTreeSet};

use super::refusal::Refusal;

/// A message of bootstrap, or what another message shows of it. Clusters and data directories are named by their ids.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum FormingStep {
    /// A coordinator asks founders to prepare.
    Offer {
        /// The cluster.
        cluster: u128,
        /// The coordinator's data directory.
        by: u128,
    },
    /// A founder answers that it is prepared.
    Accept {
        /// The cluster.
        cluster: u128,
        /// The founder's data directory.
        store: u128,
    },
    /// A coordinator shows that it has aborted a cluster.
    Abort {
        /// The cluster.
        cluster: u128,
        /// The coordinator's data directory.
        by: u128,
    },
    /// The first membership is sent.
    Begin {
        /// The cluster.
        cluster: u128,
        /// The data directories that the membership names.
        founders: BTreeSet<u128>,
    },
    /// A node votes or acknowledges an entry in a cluster.
    TakePart {
        /// The cluster.
        cluster: u128,
        /// The node's data directory.
        store: u128,
    },
}

/// What has been said about all clusters.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Forming {
    /// By cluster, the coordinator's data directory.
    offered: BTreeMap<u128, u128>,
    aborted: BTreeSet<u128>,
    begun: BTreeMap<u128, BTreeSet<u128>>,
    /// By data directory, the clusters that it was ever prepared for.
    accepted: BTreeMap<u128, BTreeSet<u128>>,
}

impl Forming {
    /// Takes a step.
    ///
    /// # Errors
    /// The step is not allowed.
    pub fn step(&mut self, step: FormingStep) -> Result<(), Refusal> {
        match step {
            FormingStep::Offer { cluster, by } => {
                // A coordinator draws one id at a time.
                for earlier in self.offers_of(by).filter(|id| *id != cluster).collect::<Vec<_>>() {
                    self.step(FormingStep::Abort { cluster: earlier, by })?;
                }
                let is_its_own = *self.offered.entry(cluster).or_insert(by) == by;
                require(is_its_own && !self.aborted.contains(&cluster), Refusal::Aborted)?;
                self.accepts(cluster, by)
            }
            FormingStep::Accept { cluster, store } => self.accepts(cluster, store),
            FormingStep::Abort { cluster, by } => {
                // A coordinator may have crashed after it drew the id, and before it asked a founder.
                let may = *self.offered.entry(cluster).or_insert(by) == by;
                require(may && !self.begun.contains_key(&cluster), Refusal::Aborted)?;
                self.aborted.insert(cluster);
                Ok(())
            }
            FormingStep::Begin { cluster, founders } => {
                if let Some(known) = self.begun.get(&cluster) {
                    return require(*known == founders, Refusal::TwoEntries);
                }
                require(!self.aborted.contains(&cluster), Refusal::Aborted)?;
                let accepts =
                    |store| self.accepted.get(store).is_some_and(|of| of.contains(&cluster));
                // A cluster of one node asks no other.
                let are_prepared = founders.len() == 1 || founders.iter().all(accepts);
                require(are_prepared, Refusal::NotPrepared)?;
                self.begun.insert(cluster, founders);
                Ok(())
            }
            FormingStep::TakePart { cluster, store } => {
                require(self.is_free(store, cluster), Refusal::TwoClusters)
            }
        }
    }

    /// All clusters that were ever offered.
    pub fn offers(&self) -> impl Iterator<Item = u128> {
        self.offered.keys().copied()
    }

    /// The clusters that a coordinator has offered and that it has not aborted.
    pub fn offers_of(&self, coordinator: u128) -> impl Iterator<Item = u128> {
        let offers = self.offered.iter().filter(move |(_, by)| **by == coordinator);
        offers.map(|(cluster, _)| *cluster).filter(|cluster| !self.aborted.contains(cluster))
    }

    fn accepts(&mut self, cluster: u128, store: u128) -> Result<(), Refusal> {
        require(self.is_free(store, cluster), Refusal::TwoClusters)?;
        self.accepted.entry(store).or_default().insert(cluster);
        Ok(())
    }

    /// Whether a data directory is prepared for no other cluster than this one.
    fn is_free(&self, store: u128, cluster: u128) -> bool {
        let mut accepted = self.accepted.get(&store).into_iter().flatten();
        accepted.all(|other| *other == cluster || self.aborted.contains(other))
    }
}

fn require(holds: bool, refusal: Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(refusal) }
}

#[cfg(test)]
mod tests {
    use stateright::{Checker, Model, Property};

    use super::*;

    const COORDINATORS: [u128; 2] = [10, 11];
    const FOUNDERS: [u128; 2] = [20, 21];

    /// Two coordinators that do not know of each other, with two ids each, and two founders that both of them ask.
    struct TwoCoordinators;

    impl Model for TwoCoordinators {
        type State = Forming;
        type Action = FormingStep;

        fn init_states(&self) -> Vec<Forming> {
            vec![Forming::default()]
        }

        fn actions(&self, _: &Forming, steps: &mut Vec<FormingStep>) {
            for (by, cluster) in COORDINATORS.into_iter().flat_map(|by| [(by, by), (by, by + 100)])
            {
                steps.push(FormingStep::Offer { cluster, by });
                steps.push(FormingStep::Abort { cluster, by });
                let founders = FOUNDERS.into_iter().chain([by]).collect();
                steps.push(FormingStep::Begin { cluster, founders });
                let accept = |store| FormingStep::Accept { cluster, store };
                steps.extend(FOUNDERS.into_iter().map(accept));
            }
        }

        fn next_state(&self, last: &Forming, step: FormingStep) -> Option<Forming> {
            let mut next = last.clone();
            next.step(step).is_ok().then_some(next).filter(|next| next != last)
        }

        fn properties(&self) -> Vec<Property<Self>> {
            vec![
                Property::<Self>::always("one cluster", |_, world| world.begun.len() <= 1),
                Property::<Self>::sometimes(
                    "the second coordinator's second cluster begins",
                    |_, world| world.begun.contains_key(&111),
                ),
            ]
        }
    }

    #[test]
    fn whatever_founders_may_say_no_two_clusters_share_one_of_them() {
        let found = TwoCoordinators.checker().spawn_bfs().join();
        found.assert_properties();
        println!("{} states", found.unique_state_count());
        assert!(found.unique_state_count() > 100);
    }
}
