//! A bounded number of connections, with a limited share for each caller.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Places for connections. Each place belongs to a caller, identified by its address or its proven name.
pub(super) struct Places<K> {
    max: usize,
    max_per_caller: usize,
    taken: Mutex<Taken<K>>,
}

struct Taken<K> {
    /// Ordered by when they were taken: the oldest comes first.
    places: BTreeMap<u64, (K, oneshot::Sender<()>)>,
    next: u64,
}

/// A place that a connection holds until it is dropped.
pub(super) struct Place<K: Copy + Eq> {
    number: u64,
    places: Arc<Places<K>>,
    lost: oneshot::Receiver<()>,
}

/// The address that connections are counted under: for IPv6 the /64, which is what one subscriber gets.
pub(super) fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

impl<K: Copy + Eq> Places<K> {
    pub(super) fn new(max: usize, max_per_caller: usize) -> Arc<Self> {
        let taken = Mutex::new(Taken { places: BTreeMap::new(), next: 0 });
        Arc::new(Self { max, max_per_caller, taken })
    }

    /// Takes a place. If the caller already holds its share, its oldest connection has to go. If all places are
    /// taken, the oldest connection of all has to go.
    pub(super) fn take(self: &Arc<Self>, caller: K) -> Place<K> {
        let mut taken = self.taken.lock();
        if self.share_is_used_up(&taken, caller) {
            let oldest = taken.places.iter().find(|(_, (held_by, _))| *held_by == caller);
            let oldest = oldest.map(|(number, _)| *number);
            oldest.and_then(|oldest| taken.places.remove(&oldest));
        } else if taken.places.len() >= self.max {
            taken.places.pop_first();
        }
        self.enter(&mut taken, caller)
    }

    /// Takes a place if one is free and the caller's share is not used up.
    pub(super) fn try_take(self: &Arc<Self>, caller: K) -> Option<Place<K>> {
        let mut taken = self.taken.lock();
        if taken.places.len() >= self.max || self.share_is_used_up(&taken, caller) {
            return None;
        }
        Some(self.enter(&mut taken, caller))
    }

    fn share_is_used_up(&self, taken: &Taken<K>, caller: K) -> bool {
        let held = taken.places.values().filter(|(held_by, _)| *held_by == caller).count();
        held >= self.max_per_caller
    }

    fn enter(self: &Arc<Self>, taken: &mut Taken<K>, caller: K) -> Place<K> {
        let (keep, lost) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        taken.places.insert(number, (caller, keep));
        Place { number, places: Arc::clone(self), lost }
    }
}

impl<K: Copy + Eq> Place<K> {
    /// Resolves when the place is lost to a newer connection.
    pub(super) async fn lost(&mut self) {
        // Nothing is ever sent: the channel closes when the sender is removed.
        let _ = (&mut self.lost).await;
    }
}

impl<K: Copy + Eq> Drop for Place<K> {
    fn drop(&mut self) {
        self.places.taken.lock().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost<K: Copy + Eq>(place: &mut Place<K>) -> bool {
        place.lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_of_a_caller_that_used_up_its_share_makes_room() {
        let places = Places::new(4, 2);
        let mut held: Vec<_> = [1, 2, 2].into_iter().map(|caller| places.take(caller)).collect();
        let mut newest = places.take(2);
        let lost: Vec<bool> = held.iter_mut().map(is_lost).collect();
        assert_eq!((lost, is_lost(&mut newest)), (vec![false, true, false], false));
    }

    #[test]
    fn addresses_are_counted_together_as_subscribers_get_them() {
        let counted = |text: &str| counted(text.parse().unwrap());
        assert_eq!(counted("2001:db8:1:2:ffff::9"), counted("2001:db8:1:2::1"));
        assert_ne!(counted("2001:db8:1:3::1"), counted("2001:db8:1:2::1"));
        assert_eq!(counted("::ffff:10.0.0.1"), counted("10.0.0.1"));
        assert_ne!(counted("10.0.0.1"), counted("10.0.0.2"));
    }

    #[test]
    fn the_oldest_of_all_makes_room_when_every_place_is_taken() {
        let places = Places::new(2, 2);
        let (mut first, mut second) = (places.take(1), places.take(2));
        let _third = places.take(3);
        assert_eq!((is_lost(&mut first), is_lost(&mut second)), (true, false));
    }

    #[test]
    fn a_place_is_free_again_once_its_holder_is_gone() {
        let places = Places::new(2, 1);
        let first = places.try_take(1).expect("it is free");
        assert!(places.try_take(1).is_none(), "the share of a caller");
        let _second = places.try_take(2).expect("it is free");
        assert!(places.try_take(3).is_none(), "all places");
        drop(first);
        assert!(places.try_take(1).is_some());
    }
}
