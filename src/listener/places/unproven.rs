//! The connections that have not shown a token yet, in the order that they make room in.
//!
//! The network that holds most of them makes room: of its origins the one that holds most, and of that one's
//! connections the oldest. So a caller that opens one connection after the other pushes out its own, even from many
//! addresses of its network, and a newcomer from elsewhere has the time to show its token. A connection that shows one
//! does not report it here: it is skipped when its turn comes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use crate::connection::origin::ClientSubnet;
use crate::connection::watchdog::Progress;

/// The name of a place: its holder, and a number that no other place of the registry had.
pub(super) type PermitId = (ClientSubnet, u64);

/// The connections of one origin, by the numbers of their places: the oldest is the first.
type Line = BTreeMap<u64, Arc<Progress>>;

/// The connections that may have to make room before all others.
#[derive(Debug, Default)]
pub(super) struct Unproven(Groups<IpAddr, Groups<ClientSubnet, Line>>);

impl Unproven {
    pub(super) fn add(&mut self, (origin, number): PermitId, progress: Arc<Progress>) {
        self.of(origin, |line| drop(line.insert(number, progress)));
    }

    pub(super) fn remove(&mut self, (origin, number): PermitId) {
        self.of(origin, |line| drop(line.remove(&number)));
    }

    /// Takes out the connection of an origin that makes room first; `None`: of all origins.
    pub(super) fn next(
        &mut self,
        origin: Option<ClientSubnet>,
    ) -> Option<(PermitId, Arc<Progress>)> {
        // Each turn takes one out, so each connection is skipped at most once in its life.
        loop {
            let of = match origin {
                Some(origin) => origin,
                None => self.0.by_key.get(&self.0.first()?)?.first()?,
            };
            let (number, progress) = self.of(of, Line::pop_first)?;
            if progress.is_unproven() {
                return Some(((of, number), progress));
            }
        }
    }

    fn of<T>(&mut self, origin: ClientSubnet, act: impl FnOnce(&mut Line) -> T) -> T {
        self.0.change(origin.network(), |origins| origins.change(origin, act))
    }
}

/// A number of connections.
trait Group: Default {
    fn count(&self) -> usize;
    /// The number of the place that is the next one to become free.
    fn next(&self) -> Option<u64>;
}

impl Group for Line {
    fn count(&self) -> usize {
        self.len()
    }

    fn next(&self) -> Option<u64> {
        self.first_key_value().map(|(number, _)| *number)
    }
}

/// Connections in groups. The largest group is the first; among equal ones, the one whose next connection is older.
#[derive(Debug)]
struct Groups<K, G> {
    by_key: HashMap<K, G>,
    ranked: BTreeSet<(Reverse<usize>, u64, K)>,
    count: usize,
}

impl<K, G> Default for Groups<K, G> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), ranked: BTreeSet::new(), count: 0 }
    }
}

impl<K: Copy + Eq + Hash + Ord, G: Group> Groups<K, G> {
    fn first(&self) -> Option<K> {
        self.ranked.first().map(|(.., key)| *key)
    }

    /// Changes a group. A missing group is made, and an empty one is forgotten.
    fn change<T>(&mut self, key: K, act: impl FnOnce(&mut G) -> T) -> T {
        let group = self.by_key.entry(key).or_default();
        let rank = |group: &G| Some((Reverse(group.count()), group.next()?, key));
        self.count -= group.count();
        if let Some(rank) = rank(group) {
            self.ranked.remove(&rank);
        }
        let outcome = act(group);
        self.count += group.count();
        match rank(group) {
            Some(rank) => drop(self.ranked.insert(rank)),
            None => drop(self.by_key.remove(&key)),
        }
        outcome
    }
}

impl<K: Copy + Eq + Hash + Ord, G: Group> Group for Groups<K, G> {
    fn count(&self) -> usize {
        self.count
    }

    fn next(&self) -> Option<u64> {
        self.ranked.first().map(|(_, next, _)| *next)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn origin(network: u8, last: u8) -> ClientSubnet {
        IpAddr::from(Ipv4Addr::new(10, 0, network, last)).into()
    }

    /// The connection that makes room, found by looking at all of them.
    fn expected(all: &BTreeMap<u64, ClientSubnet>) -> Option<PermitId> {
        let most =
            |held: &dyn Fn(ClientSubnet) -> bool| all.values().filter(|&&it| held(it)).count();
        let rank = |(&number, &origin): (&u64, &ClientSubnet)| {
            let of_network = most(&|other| other.network() == origin.network());
            (of_network, most(&|other| other == origin), Reverse(number), origin)
        };
        // Of networks that hold as many, the one whose next connection is the oldest.
        let in_turn = |network: IpAddr| {
            let own = all.iter().filter(|(_, origin)| origin.network() == network).map(rank).max();
            own.map(|(of_network, _, number, origin)| (of_network, number, origin))
        };
        let networks = all.values().map(|origin| in_turn(origin.network()));
        let (_, Reverse(number), origin) = networks.max()??;
        Some((origin, number))
    }

    proptest! {
        #[test]
        fn the_largest_network_makes_room_with_its_largest_origins_oldest(
            steps in prop::collection::vec((0_u8..4, 0_u8..3, 0_u8..3), 1..80),
        ) {
            let (mut unproven, mut all) = (Unproven::default(), BTreeMap::new());
            for (number, (what, network, last)) in (0_u64..).zip(steps) {
                match what {
                    0 => {
                        let next = unproven.next(None).map(|(id, _)| id);
                        prop_assert_eq!(next, expected(&all));
                        all.retain(|number, _| next.is_none_or(|id| id.1 != *number));
                    }
                    1 => {
                        let gone = all.iter().nth(usize::from(last)).map(|(&a, &b)| (b, a));
                        gone.into_iter().for_each(|id| unproven.remove(id));
                        all.retain(|number, _| gone.is_none_or(|id| id.1 != *number));
                    }
                    _ => {
                        let origin = origin(network, last);
                        unproven.add((origin, number), Arc::new(Progress::unproven()));
                        all.insert(number, origin);
                    }
                }
                prop_assert_eq!(unproven.0.count(), all.len());
            }
            while unproven.next(None).is_some() {}
            prop_assert!(unproven.0.by_key.is_empty() && unproven.0.ranked.is_empty());
        }
    }

    #[test]
    fn one_that_has_shown_a_token_is_passed_over() {
        let mut unproven = Unproven::default();
        let all = [(); 3].map(|()| Arc::new(Progress::unproven()));
        for (number, progress) in (0..).zip(&all) {
            unproven.add((origin(0, 1), number), Arc::clone(progress));
        }
        all[0].prove();
        assert_eq!(unproven.next(Some(origin(0, 2))).map(|(id, _)| id), None);
        assert_eq!(unproven.next(Some(origin(0, 1))).map(|(id, _)| id.1), Some(1));
        assert_eq!(unproven.next(None).map(|(id, _)| id.1), Some(2));
        assert!(unproven.next(None).is_none());
    }
}
