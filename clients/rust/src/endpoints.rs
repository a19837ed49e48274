//! Chooses the endpoint to ask next. An endpoint that has failed rests for a while.

use std::time::Duration;

/// The rest after the first failure since an answer.
const REST_MIN: Duration = Duration::from_millis(50);
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(5);

/// The endpoints of a client, numbered by their place in its settings.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// The endpoints, in this client's order of preference.
    order: Vec<Endpoint>,
    random: Random,
}

#[derive(Debug)]
struct Endpoint {
    number: usize,
    is_in_zone: bool,
    /// Failures since the last answer.
    failures: u32,
    rests_until: Duration,
}

impl Endpoints {
    /// `count` endpoints, in an order that `seed` decides.
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let rested = |number| Endpoint {
            number,
            is_in_zone: false,
            failures: 0,
            rests_until: Duration::ZERO,
        };
        let mut order: Vec<_> = (0..count).map(rested).collect();
        for place in (1..count).rev() {
            order.swap(place, random.below(place as u64 + 1) as usize);
        }
        Self { order, random }
    }

    /// The endpoint to ask, and the end of its rest.
    pub(crate) fn pick(&self, now: Duration) -> (usize, Duration) {
        let rested = |endpoint: &&Endpoint| endpoint.rests_until <= now;
        let first = self.order.iter().find(rested);
        let first = first.or_else(|| self.order.iter().min_by_key(|endpoint| endpoint.rests_until));
        first.map_or((0, now), |endpoint| (endpoint.number, endpoint.rests_until))
    }

    /// An endpoint failed. `asked_for` is the rest that its answer requested, if any.
    pub(crate) fn failed(&mut self, number: usize, now: Duration, asked_for: Option<Duration>) {
        let factor = 0.5 + self.random.unit() / 2.0;
        if let Some(endpoint) = self.endpoint(number) {
            let rest = REST_MIN.saturating_mul(1 << endpoint.failures.min(16)).min(REST_MAX);
            let rest = rest.mul_f64(factor).max(asked_for.unwrap_or_default().min(REST_MAX));
            endpoint.failures += 1;
            endpoint.rests_until = endpoint.rests_until.max(now + rest);
        }
    }

    /// An endpoint answered.
    pub(crate) fn answered(&mut self, number: usize) {
        if let Some(endpoint) = self.endpoint(number) {
            endpoint.failures = 0;
        }
    }

    /// Notes whether an endpoint is in the client's zone. Endpoints in the zone are asked before all others.
    pub(crate) fn set_in_zone(&mut self, number: usize, is_in_zone: bool) {
        if let Some(endpoint) = self.endpoint(number) {
            endpoint.is_in_zone = is_in_zone;
        }
        self.order.sort_by_key(|endpoint| !endpoint.is_in_zone);
    }

    /// `period`, varied by up to a tenth either way.
    pub(crate) fn about(&mut self, period: Duration) -> Duration {
        period.mul_f64(0.9 + self.random.unit() / 5.0)
    }

    fn endpoint(&mut self, number: usize) -> Option<&mut Endpoint> {
        self.order.iter_mut().find(|endpoint| endpoint.number == number)
    }
}

/// Random numbers that need not be secret (SplitMix64). They spread clients over nodes, and attempts over time.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn clients_begin_at_different_endpoints() {
        let first = |seed| Endpoints::new(3, seed).pick(ms(0)).0;
        assert_eq!((0..50).map(first).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));
    }

    #[test]
    fn rests_grow_and_end() {
        for seed in 0..50 {
            let mut endpoints = Endpoints::new(1, seed);
            let mut now = ms(1_000);
            for longest in [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000] {
                endpoints.failed(0, now, None);
                let rest = endpoints.pick(now).1 - now;
                assert!((ms(longest / 2)..=ms(longest)).contains(&rest), "{rest:?} of {longest}");
                now += rest;
                assert_eq!(endpoints.pick(now), (0, now));
            }
            endpoints.answered(0);
            endpoints.failed(0, now, None);
            assert!(endpoints.pick(now).1 - now <= ms(50));
        }
    }

    #[test]
    fn an_endpoint_that_rests_is_asked_only_if_all_do() {
        let mut endpoints = Endpoints::new(2, 7);
        let (first, _) = endpoints.pick(ms(0));
        endpoints.failed(first, ms(0), Some(ms(2_000)));
        let (second, _) = endpoints.pick(ms(1_999));
        assert_ne!(first, second);
        assert_eq!(endpoints.pick(ms(2_000)), (first, ms(2_000)));
        endpoints.failed(second, ms(10), Some(ms(60_000)));
        assert_eq!(endpoints.pick(ms(20)), (first, ms(2_000)), "the one whose rest ends first");
        endpoints.failed(first, ms(3_000), Some(ms(60_000)));
        assert_eq!(endpoints.pick(ms(4_000)), (second, ms(5_010)), "5 s are the longest");
    }

    #[test]
    fn own_zone_first() {
        for seed in 0..50 {
            let mut endpoints = Endpoints::new(3, seed);
            endpoints.set_in_zone(2, true);
            assert_eq!(endpoints.pick(ms(0)).0, 2);
            endpoints.failed(2, ms(0), None);
            assert_ne!(endpoints.pick(ms(1)).0, 2, "another one while it rests");
            assert_eq!(endpoints.pick(ms(50)).0, 2, "and then it again");
            endpoints.set_in_zone(2, false);
            endpoints.set_in_zone(0, true);
            assert_eq!(endpoints.pick(ms(50)).0, 0);
        }
    }
}
