//! Clients of tags with shapes: a strict one, a sequence, one with periods, and a strict one with periods.

use std::sync::LazyLock;
use std::time::Duration;

use mintleaf::service::{Actor, Error, KeyName, KeyRequest, ShapeSpec, TagSpec};
use mintleaf_core::sequence::{SequenceKey, section_of};
use mintleaf_core::shape::{Kind, Order};
use mintleaf_core::tag::BizTag;
use tokio::time::timeout;

use super::registers::{REGISTER, REGISTER_OF_PERIODS};
use super::{Clients, Outcome};
use crate::machine::Serving;

/// A tag whose ids rise over the whole cluster.
const STRICT: &str = "invoices";
/// A counter for each key.
const SEQUENCE: &str = "rooms";
/// Tags whose ids begin at 1 in each period. The ids of the second rise over the whole cluster.
const PERIODS: &str = "receipts";
const STRICT_PERIODS: &str = "bills";

/// How many ids one grab of a tag with a shape reserves. They are few, so that there are many grabs.
const STEP: u32 = 20;
/// The keys of the sequence that half of the requests use.
const HOT_KEYS: u64 = 4;
/// The number of keys. They lie in few sections, so that nodes forget keys without forgetting their sections.
const KEYS: usize = 240;
const SECTIONS_USED: u16 = 48;
/// How long the check takes at most, for each tag with a shape.
const ASKED: Duration = Duration::from_secs(3);

static KEY_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let all = (0_u32..).map(|number| format!("room-{number}"));
    let is_used =
        |key: &String| SequenceKey::parse(key).is_ok_and(|key| section_of(key) < SECTIONS_USED);
    all.filter(is_used).take(KEYS).collect()
});

impl Clients {
    /// Takes ids of the strict tag. Sometimes creates it, deletes it, or freezes it for a while.
    pub(super) async fn strict(&self, serving: &Serving, count: u64) -> Outcome {
        match self.random.within(0..100) {
            0..14 => self.meddle(serving, STRICT).await,
            _ => self.take_strict(serving, count).await,
        }
    }

    /// Takes numbers of keys, or asks for the last one. Sometimes creates, deletes or freezes the sequence.
    pub(super) async fn sequence(&self, serving: &Serving) -> Outcome {
        match self.random.within(0..100) {
            0..10 => self.meddle(serving, SEQUENCE).await,
            10..22 => self.last_number(serving).await,
            _ => {
                let keys = (0..self.random.within(1..6)).map(|_| self.key());
                let counts = keys.map(|key| (key, self.random.pick(&[1, 1, 1, 1, 1, 2, 3, 12])));
                let counts = counts.collect();
                self.take_numbers(serving, counts).await
            }
        }
    }

    /// Takes ids of a tag with periods. Sometimes creates, deletes or freezes it.
    pub(super) async fn periods(&self, serving: &Serving, count: u64) -> Outcome {
        let tag = self.random.pick(&[PERIODS, STRICT_PERIODS]);
        match self.random.within(0..100) {
            0..14 => self.meddle(serving, tag).await,
            _ => self.take_of_period(serving, tag, count).await,
        }
    }

    /// Takes ids or numbers of every tag with a shape. Returns the first error that a healed cluster must not return.
    pub(crate) async fn take_shaped(&self, serving: &Serving, key: Option<String>) -> Outcome {
        let strict = self.take_strict(serving, 1).await;
        let key = key.unwrap_or_else(|| self.key().to_owned());
        let numbers = self.take_numbers(serving, vec![(&key, 1)]).await;
        let ids = self.take_of_period(serving, PERIODS, 1).await;
        // A strict tag that followed most clocks into a later period never goes back.
        drop(self.take_of_period(serving, STRICT_PERIODS, 1).await);
        let is_fault =
            |outcome: &Outcome| matches!(outcome, Err(Error::Unavailable(_) | Error::Overloaded));
        let registered = self.take_registered(serving, &key).await;
        [strict, numbers, ids, registered].into_iter().find(is_fault).unwrap_or(Ok(()))
    }

    /// Takes ids of a tag that another cluster had. Creates the tag here first if necessary.
    pub(crate) async fn use_again(&self, serving: &Serving, tag: &str) {
        let used = async {
            if self.shape_of(tag).is_none() {
                return self.take(serving, tag, 1).await;
            }
            drop(self.create_shaped(serving, tag).await);
            match tag {
                STRICT => self.take_strict(serving, 1).await,
                REGISTER | REGISTER_OF_PERIODS => {
                    self.ask_for_number(serving, tag, "a key of before").await
                }
                SEQUENCE => {
                    let hot = &KEY_NAMES[..HOT_KEYS as usize];
                    self.take_numbers(serving, hot.iter().map(|key| (&**key, 1)).collect()).await
                }
                _ => self.take_of_period(serving, tag, 1).await,
            }
        };
        // The tag that has moved most may be exhausted.
        drop(timeout(ASKED, used).await);
    }

    /// Creates a tag with a shape, deletes it, or freezes it for a while.
    pub(super) async fn meddle(&self, serving: &Serving, tag: &str) -> Outcome {
        match self.random.within(0..14) {
            0..10 => self.create_shaped(serving, tag).await,
            10..12 => self.delete_shared(serving, tag).await,
            _ => self.protect(serving, tag).await,
        }
    }

    async fn create_shaped(&self, serving: &Serving, tag: &str) -> Outcome {
        let shape = self.shape_of(tag).expect("a tag with a shape");
        let tag = BizTag::parse(tag).expect("a possible name");
        let step = match shape.kind {
            Kind::Register => None,
            Kind::Sequence => Some(STEP / 4),
            Kind::Segment => Some(STEP),
        };
        let spec = TagSpec { step, shape, ..TagSpec::default() };
        serving.services.tags.create(&Actor::default(), tag, spec).await.map(drop)
    }

    /// The shape of a tag that has one.
    fn shape_of(&self, tag: &str) -> Option<ShapeSpec> {
        let turn = &self.machines[0].site.turn;
        let (period, time_zone) = (Some(turn.length), Some(turn.time_zone.to_owned()));
        let plain = ShapeSpec::default();
        match tag {
            STRICT => Some(ShapeSpec { order: Order::Strict, ..plain }),
            SEQUENCE => Some(ShapeSpec { kind: Kind::Sequence, ..plain }),
            PERIODS => Some(ShapeSpec { period, time_zone, ..plain }),
            REGISTER => Some(ShapeSpec { kind: Kind::Register, ..plain }),
            REGISTER_OF_PERIODS => {
                Some(ShapeSpec { kind: Kind::Register, period, time_zone, ..plain })
            }
            STRICT_PERIODS => Some(ShapeSpec { order: Order::Strict, period, time_zone, ..plain }),
            _ => None,
        }
    }

    fn key(&self) -> &'static str {
        let range = if self.random.chance(50) { 0..HOT_KEYS } else { 0..KEYS as u64 };
        &KEY_NAMES[self.random.within(range) as usize]
    }

    /// Takes ids of the strict tag, if this node knows that the tag exists; the oracle judges them.
    async fn take_strict(&self, serving: &Serving, count: u64) -> Outcome {
        if !serving.services.ids.is_in_strict_order(STRICT) {
            return Ok(());
        }
        let before = self.oracle.highest_answered(STRICT);
        let ranges = serving.services.ids.take(STRICT, count).await?.numbers;
        self.check_count(&ranges, count);
        self.oracle.given_in_strict_order(serving.incarnation, (STRICT, None), &ranges, before);
        Ok(())
    }

    /// Takes ids of a tag with periods, if this node knows that the tag exists; the oracle judges them.
    async fn take_of_period(&self, serving: &Serving, tag: &str, count: u64) -> Outcome {
        // Otherwise the request would create a plain tag.
        if serving.services.ids.shape(tag).is_none() {
            return Ok(());
        }
        let by = serving.incarnation;
        let (before, latest) = (self.oracle.highest_of(by, tag), self.oracle.highest_answered(tag));
        let frozen_since = self.oracle.frozen_since(by, tag);
        let taken = serving.services.ids.take(tag, count).await?;
        self.oracle.check_thawed(by, tag, frozen_since);
        self.check_count(&taken.numbers, count);
        let period = taken.text.and_then(|text| text.period());
        if period.is_none() {
            self.trace.violation(&format!("ids of {tag} were given, and of no period"));
        }
        if tag == STRICT_PERIODS {
            self.oracle.given_in_strict_order(by, (tag, period), &taken.numbers, latest);
        } else {
            self.oracle.given(by, (tag, period), &taken.numbers, &before);
        }
        Ok(())
    }

    /// Takes the given count of numbers of each key; the oracle judges them.
    async fn take_numbers(&self, serving: &Serving, counts: Vec<(&str, u64)>) -> Outcome {
        let floor = |(key, _): &(&str, u64)| self.oracle.highest_number(SEQUENCE, key);
        let floors: Vec<u64> = counts.iter().map(floor).collect();
        let request = |&(key, count): &(&str, u64)| KeyRequest { of: name(key), count };
        let requests = counts.iter().map(request).collect();
        let frozen_since = self.oracle.frozen_since(serving.incarnation, SEQUENCE);
        let outcomes = serving.services.ids.take_of_keys(requests).await;
        let mut outcome = Ok(());
        for ((key, count), (floor, taken)) in
            counts.into_iter().zip(floors.into_iter().zip(outcomes))
        {
            match taken {
                Ok(numbers) => {
                    self.oracle.check_thawed(serving.incarnation, SEQUENCE, frozen_since);
                    self.check_count(std::slice::from_ref(&numbers), count);
                    let of = (SEQUENCE, key);
                    self.oracle.given_numbers(serving.incarnation, of, &numbers, floor);
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    async fn last_number(&self, serving: &Serving) -> Outcome {
        let key = self.key();
        let floor = self.oracle.highest_number(SEQUENCE, key);
        let last = serving.services.ids.last_of_key(name(key)).await?;
        self.oracle.told_of_last((SEQUENCE, key), last, floor);
        Ok(())
    }
}

fn name(key: &str) -> KeyName {
    KeyName::parse(SEQUENCE, key).expect("a key")
}
