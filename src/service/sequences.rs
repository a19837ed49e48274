//! Numbers of keys, and what is known of the last one.
//!
//! The node that is asked checks what it can see in its own copy: that the tag is a sequence, is not frozen, and is
//! within its rate limit here. The leader does the rest, for many requests at a time.

mod request;

use std::ops::Range;

use mintleaf_core::shape::Kind;
use mintleaf_core::tag::BizTag;
use tokio::time::Instant;

pub use request::{KeyName, KeyRequest, LastNumber};

use super::error::Error;
use super::ids::IdService;
use super::ordered::{Given, Request, Wanted};
use super::sequence_limits::{LimitedCall, SequenceLimits};
use crate::limits::GRAB_MAX;
use crate::metrics::Mode;

/// What the node's own copy says of a tag that is asked for.
#[derive(Clone, Debug)]
enum Seen {
    Sequence {
        rate_limit: Option<u32>,
    },
    Refused(Error),
    /// Another node may have created it a moment ago.
    Unknown,
}

impl IdService {
    /// The next numbers of a key: exactly `count` of them, without a gap.
    ///
    /// # Errors
    /// As [`take_of_keys`](Self::take_of_keys).
    pub async fn take_of_key(&self, request: KeyRequest) -> Result<Range<u64>, Error> {
        let taken = self.take_of_keys(vec![request]).await.pop();
        taken.unwrap_or_else(|| Err(Error::unavailable("no number came")))
    }

    /// The next numbers of some keys, or why there are none, in the order of the requests.
    ///
    /// # Errors
    /// For each request: [`Error::UnknownTag`], [`Error::NotFound`] if the tag is not a sequence, [`Error::Frozen`],
    /// [`Error::OverRateLimit`], [`Error::CountOverRateLimit`], [`Error::Exhausted`]; [`Error::Unavailable`] where no
    /// leader with a quorum gave numbers in time; [`Error::Overloaded`].
    pub async fn take_of_keys(&self, requests: Vec<KeyRequest>) -> Vec<Result<Range<u64>, Error>> {
        let deadline = self.replica.deadline(GRAB_MAX);
        let seen = self.see(requests.iter().map(|request| &request.of.tag), deadline).await;
        let refused = admit(&self.sequence_limits, &requests, seen, self.clock.monotonic_ms());
        let admitted = requests.into_iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let asked = admitted.map(|(KeyRequest { of, count }, _)| Request {
            tag: of.tag,
            wanted: Wanted::Numbers { key: of.key, count },
        });
        let asked: Vec<Request> = asked.collect();
        let mut outcomes = self.asked(asked, deadline).await.into_iter().map(numbers);
        let mut handed_out = 0;
        let taken = refused.into_iter().map(|refused| {
            let taken = match refused {
                Some(error) => Err(error),
                None => outcomes.next().unwrap_or_else(|| Err(not_understood())),
            };
            handed_out += taken.as_ref().map_or(0, |numbers| numbers.end - numbers.start);
            taken
        });
        let taken = taken.collect();
        self.metrics.ids_handed_out(Mode::Sequence, handed_out);
        taken
    }

    /// What is known of the last number of a key. It needs the quorum.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::NotFound`] if the tag is not a sequence; [`Error::Unavailable`].
    pub async fn last_of_key(&self, of: KeyName) -> Result<LastNumber, Error> {
        let deadline = self.replica.deadline(GRAB_MAX);
        match self.see([&of.tag].into_iter(), deadline).await.pop() {
            // Nothing is taken.
            Some(Seen::Sequence { .. } | Seen::Refused(Error::Frozen)) => {}
            Some(Seen::Refused(error)) => return Err(error),
            Some(Seen::Unknown) | None => return Err(Error::UnknownTag),
        }
        let wanted = Wanted::Last { key: of.key };
        let asked = vec![Request { tag: of.tag.clone(), wanted }];
        let outcome = self.asked(asked, deadline).await.pop();
        match outcome.unwrap_or_else(|| Err(not_understood()))? {
            Given::LastIs(number) => Ok(LastNumber { number: Some(number), is_exact: true }),
            Given::LastBelow(end) => Ok(LastNumber::below(end)),
            Given::NothingHeld { section } => {
                // The leader was confirmed after this request arrived. So after the barrier this node has applied every
                // entry that reserved a number which a caller got before.
                self.replica.read_barrier(deadline).await?;
                let end = |tag: &str| self.replica.read(|state| state.section_end(tag, section));
                end(of.tag.as_str()).map(LastNumber::below).ok_or(Error::UnknownTag)
            }
            Given::Ids { .. } => Err(not_understood()),
        }
    }

    /// What came of each request.
    async fn asked(&self, requests: Vec<Request>, deadline: Instant) -> Vec<Result<Given, Error>> {
        let count = requests.len();
        match self.ordered.ask(requests, deadline).await {
            Ok(outcomes) => outcomes.into_iter().map(|outcome| Ok(outcome?)).collect(),
            Err(error) => vec![Err(error); count],
        }
    }

    /// Whether `count` numbers of a key would be given, as far as this node's copy and its rate limit say.
    ///
    /// # Errors
    /// As [`take_of_keys`](Self::take_of_keys).
    pub async fn could_take_of_key(
        &self,
        KeyRequest { of, count }: &KeyRequest,
    ) -> Result<(), Error> {
        let (tag, count) = (&of.tag, *count);
        match self.see([tag].into_iter(), self.replica.deadline(GRAB_MAX)).await.pop() {
            Some(Seen::Sequence { rate_limit: None }) => Ok(()),
            Some(Seen::Sequence { rate_limit: Some(rate) }) => {
                let now_ms = self.clock.monotonic_ms();
                self.sequence_limits.would_admit(LimitedCall { tag, rate, count, now_ms })
            }
            Some(Seen::Refused(error)) => Err(error),
            Some(Seen::Unknown) | None => Err(Error::UnknownTag),
        }
    }

    /// What the node's copy says of each of these tags, once it is fresh enough to know them.
    async fn see(
        &self,
        tags: impl Iterator<Item = &BizTag> + Clone,
        deadline: Instant,
    ) -> Vec<Seen> {
        let seen = self.seen(tags.clone());
        if !seen.iter().any(|seen| matches!(seen, Seen::Unknown)) {
            return seen;
        }
        match self.replica.read_barrier(deadline).await {
            Ok(()) => self.seen(tags),
            Err(error) => {
                let error = Error::from(error);
                let or_error = |seen| match seen {
                    Seen::Unknown => Seen::Refused(error.clone()),
                    seen => seen,
                };
                seen.into_iter().map(or_error).collect()
            }
        }
    }

    fn seen<'a>(&self, tags: impl Iterator<Item = &'a BizTag>) -> Vec<Seen> {
        self.replica.read(|state| {
            let look = |tag: &BizTag| {
                let Some(protection) = state.protection(tag.as_str()) else { return Seen::Unknown };
                if state.shape(tag.as_str()).is_none_or(|shape| shape.kind != Kind::Sequence) {
                    return Seen::Refused(no_sequence(tag));
                }
                match protection.frozen {
                    true => Seen::Refused(Error::Frozen),
                    false => Seen::Sequence { rate_limit: protection.rate_limit },
                }
            };
            tags.map(look).collect()
        })
    }
}

/// Why each request is refused, if it is. What passes is paid for.
fn admit(
    limits: &SequenceLimits,
    requests: &[KeyRequest],
    seen: Vec<Seen>,
    now_ms: u64,
) -> Vec<Option<Error>> {
    let judge = |(request, seen): (&KeyRequest, Seen)| match seen {
        Seen::Sequence { rate_limit: None } => None,
        Seen::Sequence { rate_limit: Some(rate) } => {
            let (tag, count) = (&request.of.tag, request.count);
            limits.pay(LimitedCall { tag, rate, count, now_ms }).err()
        }
        Seen::Refused(error) => Some(error),
        Seen::Unknown => Some(Error::UnknownTag),
    };
    requests.iter().zip(seen).map(judge).collect()
}

fn numbers(outcome: Result<Given, Error>) -> Result<Range<u64>, Error> {
    match outcome? {
        Given::Ids { ranges, .. } => ranges.into_iter().next().ok_or_else(not_understood),
        _ => Err(not_understood()),
    }
}

fn no_sequence(tag: &BizTag) -> Error {
    Error::NotFound { detail: format!("the tag {tag} is no sequence, it has no keys") }
}

fn not_understood() -> Error {
    Error::unavailable("the leader answered something else than was asked")
}
