//! Which worker ids a cluster uses.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::layout::Layout;

/// Ranges in a pool at most: more than an operator types.
const RANGES_MAX: usize = 64;

/// A set of worker ids, at least one: those that a cluster uses for its own ids, which its layout bounds, or those that
/// it leases to programs. Ids of another system that uses the others, such as a Leaf beside the cluster, are never
/// repeated.
///
/// Written as worker ids and ranges of them, both ends included, joined by commas: `512-1023`, `0-9,20`. However it was
/// typed, a pool is kept and shown as its fewest ranges in ascending order.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u16, u16)>", into = "Vec<(u16, u16)>")]
#[cfg_attr(test, derive(Hash))]
pub struct WorkerPool {
    /// First and last of each range, ascending; between two ranges lies one worker id at least.
    ranges: Vec<(u16, u16)>,
}

impl WorkerPool {
    /// Every worker id of a layout.
    pub fn all(layout: Layout) -> Self {
        Self { ranges: vec![(0, layout.worker_ids() - 1)] }
    }

    /// Whether a worker id belongs to it.
    pub fn contains(&self, worker_id: u16) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&worker_id))
    }

    /// Its worker ids, ascending.
    pub fn worker_ids(&self) -> impl Iterator<Item = u16> {
        self.worker_ids_from(0)
    }

    /// Its worker ids from this one on, ascending.
    pub fn worker_ids_from(&self, begin: u16) -> impl Iterator<Item = u16> {
        self.ranges.iter().flat_map(move |&(first, last)| first.max(begin)..=last)
    }

    /// How many worker ids it has: 1 to 65,536.
    pub fn size(&self) -> u32 {
        self.ranges.iter().map(|&(first, last)| u32::from(last - first) + 1).sum()
    }

    /// Its highest worker id.
    pub fn highest(&self) -> u16 {
        self.ranges.last().map_or(0, |&(_, last)| last)
    }

    /// The worker ids that both pools have, if there are any.
    pub fn shared_with(&self, other: &Self) -> Option<Self> {
        let pairs =
            self.ranges.iter().flat_map(|one| other.ranges.iter().map(move |two| (one, two)));
        let ranges: Vec<(u16, u16)> = pairs
            .map(|(one, two)| (one.0.max(two.0), one.1.min(two.1)))
            .filter(|(first, last)| first <= last)
            .collect();
        (!ranges.is_empty()).then_some(Self { ranges })
    }

    /// The pool of these worker ids, in any order.
    ///
    /// # Errors
    /// [`InvalidPool`] for none, or for too many that are not neighbours.
    pub fn of_ids(ids: impl IntoIterator<Item = u16>) -> Result<Self, InvalidPool> {
        Self::of(ids.into_iter().map(|id| (id, id)).collect())
    }

    /// The pool of these ranges, which may touch and overlap.
    fn of(mut ranges: Vec<(u16, u16)>) -> Result<Self, InvalidPool> {
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(ranges.len().min(RANGES_MAX));
        for (first, last) in ranges {
            if first > last {
                return Err(InvalidPool::Range(first, last));
            }
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        match merged.len() {
            1..=RANGES_MAX => Ok(Self { ranges: merged }),
            0 => Err(InvalidPool::NotRanges),
            _ => Err(InvalidPool::TooMany),
        }
    }
}

impl FromStr for WorkerPool {
    type Err = InvalidPool;

    fn from_str(text: &str) -> Result<Self, InvalidPool> {
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse().ok()).flatten().ok_or(InvalidPool::NotRanges)
        };
        let range = |text: &str| match text.split_once('-') {
            Some((first, last)) => Ok((number(first.trim())?, number(last.trim())?)),
            None => number(text).map(|worker_id| (worker_id, worker_id)),
        };
        Self::of(text.split(',').map(|text| range(text.trim())).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{first}")?;
            if first < last {
                write!(f, "-{last}")?;
            }
        }
        Ok(())
    }
}

impl TryFrom<Vec<(u16, u16)>> for WorkerPool {
    type Error = InvalidPool;

    /// Takes a pool as it was stored, and no other form of it: equal pools have equal bytes.
    fn try_from(ranges: Vec<(u16, u16)>) -> Result<Self, InvalidPool> {
        let pool = Self::of(ranges.clone())?;
        if pool.ranges == ranges { Ok(pool) } else { Err(InvalidPool::NotRanges) }
    }
}

impl From<WorkerPool> for Vec<(u16, u16)> {
    fn from(pool: WorkerPool) -> Self {
        pool.ranges
    }
}

/// Why ranges are not a pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidPool {
    /// The text is not written as worker ids and ranges of them.
    NotRanges,
    /// A range ends before it begins.
    Range(u16, u16),
    /// There are too many ranges.
    TooMany,
}

impl fmt::Display for InvalidPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRanges => f.write_str(
                "must be worker ids up to 65535 and ranges of them, such as 512-1023 or 0-9,20",
            ),
            Self::Range(first, last) => {
                write!(f, "has {first}-{last}, which ends before it begins")
            }
            Self::TooMany => write!(f, "must have at most {RANGES_MAX} ranges"),
        }
    }
}

impl Error for InvalidPool {}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(text: &str) -> WorkerPool {
        text.parse().unwrap()
    }

    #[test]
    fn a_pool_is_kept_as_its_fewest_ranges() {
        let cases = [
            ("512-1023", "512-1023"),
            ("7", "7"),
            (" 20, 0 - 9 ", "0-9,20"),
            ("0-9,10-11,5-6,13", "0-11,13"),
            ("3,2,1,2", "1-3"),
            ("0-4095", "0-4095"),
            ("0-65534,65535", "0-65535"),
        ];
        for (typed, kept) in cases {
            assert_eq!(pool(typed).to_string(), kept);
            assert_eq!(pool(kept), pool(typed));
        }
    }

    #[test]
    fn its_worker_ids_are_those_of_its_ranges() {
        let pool = pool("0-2,7,9-10");
        let ids: Vec<u16> = pool.worker_ids().collect();
        assert_eq!(ids, [0, 1, 2, 7, 9, 10]);
        assert_eq!((pool.size(), pool.highest()), (6, 10));
        assert!((0..4096).all(|id| pool.contains(id) == ids.contains(&id)));
        assert_eq!(WorkerPool::all(Layout::LEAF).to_string(), "0-1023");
        assert_eq!(WorkerPool::all("43+12+8".parse().unwrap()).size(), 4096);
        assert_eq!(self::pool("0-65535").size(), 65_536);
        assert_eq!(self::pool("0-9,20").worker_ids_from(8).collect::<Vec<_>>(), [8, 9, 20]);
        assert_eq!(WorkerPool::of_ids([7, 3, 4]).unwrap(), self::pool("3-4,7"));
    }

    #[test]
    fn pools_share_the_worker_ids_that_both_have() {
        let shared = |one: &str, two: &str| {
            let found = pool(one).shared_with(&pool(two));
            assert_eq!(found, pool(two).shared_with(&pool(one)));
            found.map(|found| found.to_string())
        };
        assert_eq!(shared("0-1023", "0-1023").as_deref(), Some("0-1023"));
        assert_eq!(shared("0-9,20,30-40", "5-25,40").as_deref(), Some("5-9,20,40"));
        assert_eq!(shared("0-15", "16-1023"), None);
    }

    #[test]
    fn what_is_no_pool_is_refused() {
        for text in ["", ",", "a", "1-", "-1", "1-2-3", "+1", "1..2", "65536", "0-65536", "0,,1"] {
            assert_eq!(text.parse::<WorkerPool>(), Err(InvalidPool::NotRanges), "{text:?}");
        }
        assert_eq!("9-3".parse::<WorkerPool>(), Err(InvalidPool::Range(9, 3)));
        let many: Vec<String> = (0..=RANGES_MAX).map(|id| (id * 2).to_string()).collect();
        assert_eq!(many.join(",").parse::<WorkerPool>(), Err(InvalidPool::TooMany));
        assert!(many[1..].join(",").parse::<WorkerPool>().is_ok());
    }

    #[test]
    fn a_stored_pool_has_one_form() {
        let read = |json: &str| serde_json::from_str::<WorkerPool>(json).ok();
        assert_eq!(read("[[0,9],[20,20]]"), Some(pool("0-9,20")));
        assert_eq!(serde_json::to_string(&pool("20,0-9")).unwrap(), "[[0,9],[20,20]]");
        for other in ["[]", "[[20,20],[0,9]]", "[[0,9],[10,12]]", "[[9,0]]", "[[0,65536]]"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
