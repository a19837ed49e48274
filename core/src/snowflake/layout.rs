//! Which bits of a snowflake id are what.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bits of an id at most: ids are positive in a signed 64-bit column.
const BITS_MAX: u8 = 63;
/// 2^39 ms are 17 years; a format that ends sooner is a mistake. 2^43 ms are 278.
const TIME_BITS: RangeInclusive<u8> = 39..=43;
/// A worker id of 12 bits has 4,096 values, which a table holds easily.
const WORKER_BITS_MAX: u8 = 12;
/// One id a millisecond is too few to be of use; 65,536 is more than a core makes.
const SEQUENCE_BITS: RangeInclusive<u8> = 1..=16;
/// The latest origin of times, in Unix milliseconds: 41 bits' worth after 1970, in 2039.
pub const EPOCH_MS_MAX: u64 = (1 << 41) - 1;

/// The widths of an id's fields, from the highest bits to the lowest: milliseconds since the epoch,
/// worker id, sequence number within the millisecond.
///
/// Written as its widths joined by `+`, in that order:
///
/// | layout | lasts | worker ids | ids a second and worker id | |
/// | --- | --- | --- | --- | --- |
/// | `41+10+12` | 69.7 years | 1,024 | 4,096,000 | Leaf's and Twitter's; the default |
/// | `41+5+5+12` | 69.7 years | 32 · 32 | 4,096,000 | the same ids; the worker id shown in two parts |
/// | `41+6+6` | 69.7 years | 64 | 64,000 | below 2^53: JavaScript holds it exactly |
///
/// Other widths may be given: time 39 to 43, worker id up to 12, sequence 1 to 16, 63 in all.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Widths", into = "Widths")]
#[cfg_attr(test, derive(Hash))]
pub struct Layout {
    time_bits: u8,
    /// The upper part of the worker id, where it is shown in two parts; else 0.
    data_center_bits: u8,
    /// The whole worker id.
    worker_bits: u8,
    sequence_bits: u8,
}

/// A layout as it is stored: time, data centre, the rest of the worker id, sequence.
type Widths = (u8, u8, u8, u8);

impl Layout {
    /// The layout of Leaf and Twitter.
    pub const LEAF: Self =
        Self { time_bits: 41, data_center_bits: 0, worker_bits: 10, sequence_bits: 12 };

    /// How many worker ids there are: 1 to 4,096.
    pub fn worker_ids(self) -> u16 {
        1 << self.worker_bits
    }

    /// How many ids there are in each millisecond of a worker id: 2 to 65,536.
    pub fn ids_per_ms(self) -> u64 {
        1 << self.sequence_bits
    }

    /// A worker id's two parts, data centre and worker within it, if the layout has them.
    pub fn split_worker(self, worker_id: u16) -> Option<(u16, u16)> {
        let low_bits = self.worker_bits - self.data_center_bits;
        (self.data_center_bits > 0)
            .then(|| (worker_id >> low_bits, worker_id & ((1 << low_bits) - 1)))
    }
}

impl TryFrom<Widths> for Layout {
    type Error = InvalidFormat;

    fn try_from(widths: Widths) -> Result<Self, InvalidFormat> {
        let (time_bits, data_center_bits, low_bits, sequence_bits) = widths;
        if !TIME_BITS.contains(&time_bits) {
            return Err(InvalidFormat::TimeBits);
        }
        let worker_bits = data_center_bits.saturating_add(low_bits);
        if worker_bits > WORKER_BITS_MAX {
            return Err(InvalidFormat::WorkerBits);
        }
        if !SEQUENCE_BITS.contains(&sequence_bits) {
            return Err(InvalidFormat::SequenceBits);
        }
        let bits = time_bits + worker_bits + sequence_bits;
        if bits > BITS_MAX {
            return Err(InvalidFormat::TooManyBits(bits));
        }
        Ok(Self { time_bits, data_center_bits, worker_bits, sequence_bits })
    }
}

impl From<Layout> for Widths {
    fn from(layout: Layout) -> Self {
        let Layout { time_bits, data_center_bits, worker_bits, sequence_bits } = layout;
        (time_bits, data_center_bits, worker_bits - data_center_bits, sequence_bits)
    }
}

impl FromStr for Layout {
    type Err = InvalidFormat;

    fn from_str(text: &str) -> Result<Self, InvalidFormat> {
        let widths: Result<Vec<u8>, _> = text.split('+').map(str::parse).collect();
        match widths.as_deref() {
            Ok(&[time, worker, sequence]) => (time, 0, worker, sequence).try_into(),
            Ok(&[time, data_center, worker, sequence]) if data_center > 0 => {
                (time, data_center, worker, sequence).try_into()
            }
            _ => Err(InvalidFormat::NotWidths),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, data_center, worker, sequence) = Widths::from(*self);
        write!(f, "{time}+")?;
        if data_center > 0 {
            write!(f, "{data_center}+")?;
        }
        write!(f, "{worker}+{sequence}")
    }
}

/// Why a layout or an epoch cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidFormat {
    /// The text is not written as widths.
    NotWidths,
    /// The time would end too soon, or leave too little.
    TimeBits,
    /// There would be too many worker ids.
    WorkerBits,
    /// There would be too few or too many ids a millisecond.
    SequenceBits,
    /// An id of this many bits would not be positive in 64 bits.
    TooManyBits(u8),
    /// The epoch lies too far ahead.
    Epoch,
}

impl fmt::Display for InvalidFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWidths => f.write_str(
                "must be widths of time, worker id and sequence, such as 41+10+12 or 41+5+5+12",
            ),
            Self::TimeBits => f.write_str("must give the time 39 to 43 bits"),
            Self::WorkerBits => {
                write!(f, "must give the worker id at most {WORKER_BITS_MAX} bits")
            }
            Self::SequenceBits => f.write_str("must give the sequence 1 to 16 bits"),
            Self::TooManyBits(bits) => {
                write!(f, "must have at most {BITS_MAX} bits in all, and has {bits}")
            }
            Self::Epoch => write!(f, "must be Unix milliseconds of at most {EPOCH_MS_MAX}"),
        }
    }
}

impl Error for InvalidFormat {}

/// How a cluster's snowflake ids are made: a [`Layout`], and the moment that its times count from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "(Layout, u64)", into = "(Layout, u64)")]
#[cfg_attr(test, derive(Hash))]
pub struct Format {
    layout: Layout,
    epoch_ms: u64,
}

/// The fields of an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IdParts {
    /// Unix milliseconds.
    pub time_ms: u64,
    /// The worker id that made it.
    pub worker_id: u16,
    /// Its number within the millisecond.
    pub sequence: u64,
}

impl Format {
    /// The layout and the epoch of Leaf and Twitter, so that ids go on where theirs ended.
    pub const LEAF: Self = Self { layout: Layout::LEAF, epoch_ms: 1_288_834_974_657 };

    /// Ids of `layout` whose times count from `epoch_ms` (Unix milliseconds).
    ///
    /// # Errors
    /// When the epoch is above [`EPOCH_MS_MAX`].
    pub fn new(layout: Layout, epoch_ms: u64) -> Result<Self, InvalidFormat> {
        if epoch_ms > EPOCH_MS_MAX {
            return Err(InvalidFormat::Epoch);
        }
        Ok(Self { layout, epoch_ms })
    }

    /// The widths.
    pub fn layout(self) -> Layout {
        self.layout
    }

    /// The origin of times, in Unix milliseconds.
    pub fn epoch_ms(self) -> u64 {
        self.epoch_ms
    }

    /// The milliseconds that ids can show: after the epoch, so that no id is 0, and before the time
    /// bits are spent.
    pub fn times_ms(self) -> std::ops::Range<u64> {
        self.epoch_ms + 1..self.epoch_ms + (1 << self.layout.time_bits)
    }

    /// Puts an id together. The parts must be within the format: a time within
    /// [`times_ms`](Self::times_ms), worker id and sequence within their bits.
    #[inline]
    pub fn encode(self, parts: IdParts) -> u64 {
        let Layout { worker_bits, sequence_bits, .. } = self.layout;
        let IdParts { time_ms, worker_id, sequence } = parts;
        debug_assert!(self.times_ms().contains(&time_ms) && worker_id < self.layout.worker_ids());
        debug_assert!(sequence < self.layout.ids_per_ms());
        let time_and_worker = ((time_ms - self.epoch_ms) << worker_bits) | u64::from(worker_id);
        (time_and_worker << sequence_bits) | sequence
    }

    /// Takes an id apart; `None` when it has more bits than the layout.
    #[inline]
    pub fn decode(self, id: u64) -> Option<IdParts> {
        let Layout { time_bits, worker_bits, sequence_bits, .. } = self.layout;
        let since_epoch_ms = id >> (worker_bits + sequence_bits);
        (since_epoch_ms < 1 << time_bits).then(|| IdParts {
            time_ms: self.epoch_ms + since_epoch_ms,
            worker_id: (id >> sequence_bits) as u16 & (self.layout.worker_ids() - 1),
            sequence: id & (self.layout.ids_per_ms() - 1),
        })
    }
}

impl TryFrom<(Layout, u64)> for Format {
    type Error = InvalidFormat;

    fn try_from((layout, epoch_ms): (Layout, u64)) -> Result<Self, InvalidFormat> {
        Self::new(layout, epoch_ms)
    }
}

impl From<Format> for (Layout, u64) {
    fn from(format: Format) -> Self {
        (format.layout, format.epoch_ms)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layout {} with epoch {}", self.layout, self.epoch_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(layout: &str) -> Format {
        Format::new(layout.parse().unwrap(), Format::LEAF.epoch_ms()).unwrap()
    }

    #[test]
    fn an_id_that_leaf_gave_reads_as_leaf_reads_it() {
        let parts = IdParts { time_ms: 1_567_733_700_834, worker_id: 39, sequence: 3448 };
        let id = 1_169_786_042_799_259_000;
        assert_eq!(format("41+10+12").encode(parts), id);
        assert_eq!(format("41+10+12").decode(id), Some(parts));
    }

    #[test]
    fn the_largest_parts_make_the_largest_id() {
        for (layout, bits) in [("41+10+12", 63), ("41+5+5+12", 63), ("41+6+6", 53)] {
            let format = format(layout);
            let parts = IdParts {
                time_ms: format.times_ms().end - 1,
                worker_id: format.layout().worker_ids() - 1,
                sequence: format.layout().ids_per_ms() - 1,
            };
            assert_eq!(format.encode(parts), (1 << bits) - 1, "{layout}");
            assert_eq!(format.decode((1 << bits) - 1), Some(parts));
            assert_eq!(format.decode(1 << bits), None);
            assert!(format.encode(IdParts { time_ms: format.times_ms().start, ..parts }) > 0);
        }
    }

    #[test]
    fn a_split_worker_id_is_the_same_id_shown_in_two_parts() {
        let (whole, split) = (format("41+10+12"), format("41+5+5+12"));
        let parts =
            IdParts { time_ms: Format::LEAF.epoch_ms() + 5, worker_id: 0b10110_00111, sequence: 9 };
        assert_eq!(whole.encode(parts), split.encode(parts));
        assert_eq!(split.layout().split_worker(parts.worker_id), Some((0b10110, 0b00111)));
        assert_eq!(whole.layout().split_worker(parts.worker_id), None);
    }

    #[test]
    fn layouts_are_written_as_they_are_read() {
        for layout in ["41+10+12", "41+5+5+12", "41+6+6", "39+0+14", "43+12+8"] {
            assert_eq!(layout.parse::<Layout>().unwrap().to_string(), layout);
        }
    }

    #[test]
    fn combinations_that_do_not_fit_are_refused() {
        let cases = [
            ("41+10+13", InvalidFormat::TooManyBits(64)),
            ("38+10+12", InvalidFormat::TimeBits),
            ("44+4+4", InvalidFormat::TimeBits),
            ("41+13+9", InvalidFormat::WorkerBits),
            ("41+200+200+9", InvalidFormat::WorkerBits),
            ("41+10+0", InvalidFormat::SequenceBits),
            ("41+5+17", InvalidFormat::SequenceBits),
            ("41+10", InvalidFormat::NotWidths),
            ("41+0+10+12", InvalidFormat::NotWidths),
            ("41+10+12+0+0", InvalidFormat::NotWidths),
            ("a+b+c", InvalidFormat::NotWidths),
            ("", InvalidFormat::NotWidths),
        ];
        for (layout, why) in cases {
            assert_eq!(layout.parse::<Layout>(), Err(why), "{layout}");
        }
        assert_eq!(Format::new(Layout::LEAF, EPOCH_MS_MAX + 1), Err(InvalidFormat::Epoch));
    }

    #[test]
    fn decoding_checks_the_widths_again() {
        let json = serde_json::to_string(&format("41+5+5+12")).unwrap();
        assert_eq!(json, "[[41,5,5,12],1288834974657]");
        assert_eq!(serde_json::from_str::<Format>(&json).unwrap(), format("41+5+5+12"));
        assert!(serde_json::from_str::<Format>("[[41,0,10,13],0]").is_err());
        assert!(serde_json::from_str::<Format>("[[41,0,10,12],9999999999999]").is_err());
    }
}
