//! Ids for requests of one id each that came together, where one round to the quorum is to do for all of them.
//!
//! Each of them gets here what it would get by itself: a rate limit counts each id, and the last ids of a tag go to the
//! first of them.

use super::error::Error;
use super::ids::IdService;
use super::taken::TakenIds;

/// What requests of one id each have got.
#[derive(Debug, Default)]
pub struct SingleIds {
    /// The ids of the first of them, ascending within each part and from part to part, unless the tag hides them.
    pub taken: Vec<TakenIds>,
    /// Why the rest got none; `None` where all have one.
    pub refused: Option<Error>,
}

impl SingleIds {
    /// How many ids there are.
    pub fn count(&self) -> u64 {
        self.taken.iter().map(TakenIds::count).sum()
    }
}

impl IdService {
    /// An id of a strict tag for each of `count` requests, 1 or more: as many as there are and as the tag's rate limit
    /// lets through. The rest are refused as the next one is by itself.
    pub async fn take_singles(&self, tag: &str, count: u64) -> SingleIds {
        let (mut singles, mut run) = (SingleIds::default(), count);
        loop {
            let missing = count - singles.count();
            if missing == 0 {
                return singles;
            }
            let together = self.passed_now(tag, run.min(missing));
            match self.take(tag, together).await {
                Ok(taken) => singles.taken.push(taken),
                // Fewer are left, or others have used up the limit since.
                Err(
                    Error::Exhausted
                    | Error::OverRateLimit { .. }
                    | Error::CountOverRateLimit { .. },
                ) if together > 1 => run = together / 2,
                Err(error) => {
                    singles.refused = Some(error);
                    return singles;
                }
            }
        }
    }

    /// How many of `count` requests for one id each the rate limit admits now; at least 1, which is then refused if it
    /// must be. A tag that this node was not asked for yet has no bucket before the first.
    fn passed_now(&self, tag: &str, count: u64) -> u64 {
        let shaped = self.table.shaped().get(tag);
        shaped.map_or(1, |shaped| shaped.passed_now(count)).max(1)
    }
}
