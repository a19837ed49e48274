//! A frozen state as a stream of bytes, and back.
//!
//! The stream is a run of sections, each `[length u32 LE][record]`: a header, the lines in
//! ascending order in chunks, the worker ids if there are any, the end mark. What each section is stands in
//! its record, so a later release can append kinds, each from a level of the cluster on. A level above the
//! first has a section right behind the header: a build that does not support it reads no further, and can
//! say which version does. Neither side holds more than one section beside the state itself.
//! Equal states have equal streams, however they came about, so that replicas can be compared by
//! [`digest`].
//!
//! Reading trusts nothing: a section out of place, an odd count, a name out of order or bytes past
//! the end refuse the whole stream.
//!
//! [`digest`]: FrozenState::digest

use std::io::{self, Read, Write};

use mintleaf_storage::{codec, planted};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::State;
use super::command::{self, DecodeError};
use super::level::{LEVEL_MAX, Level};
use super::line::Line;
use super::workers::Workers;

/// The one format of sections so far.
const FORMAT: u8 = 1;
/// Lines in one section at most.
const SECTION_LINES_MAX: usize = 256;
/// Bytes in one section at most; a section of the longest lines takes less than half of it, and so
/// do 4,096 worker ids.
const SECTION_BYTES_MAX: u32 = 1 << 20;

/// One section; `L` is a line and `W` the worker ids, owned or borrowed. Kinds are only ever
/// appended.
#[derive(Serialize, Deserialize)]
enum Section<L, W> {
    Header {
        clock_ms: u64,
        lines: u64,
    },
    Lines(Vec<L>),
    End,
    Workers(W),
    Level(Level),
    #[cfg(feature = "next-level")]
    Note(String),
}

type Written<'a> = Section<&'a Line, &'a Workers>;
type ReadBack = Section<Line, Workers>;

/// The state at one moment, shared with the state it was taken from. Cheap to take and to keep; may
/// be written on any thread.
#[derive(Clone, Debug)]
pub struct FrozenState(State);

impl FrozenState {
    pub(super) fn new(state: State) -> Self {
        Self(state)
    }

    /// Writes the whole stream, in many small writes: give it a buffered writer.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, mut out: impl Write) -> io::Result<()> {
        let State { clock_ms, lines, workers, level, .. } = &self.0;
        let missed = usize::from(planted("snapshot-misses-a-tag")).min(lines.len());
        let header = Section::Header { clock_ms: *clock_ms, lines: (lines.len() - missed) as u64 };
        write_section(&mut out, &header)?;
        if !level.is_first() {
            write_section(&mut out, &Section::Level(level.clone()))?;
        }
        let mut rest = lines.after(None).skip(missed).peekable();
        while rest.peek().is_some() {
            let chunk = rest.by_ref().take(SECTION_LINES_MAX).collect();
            write_section(&mut out, &Section::Lines(chunk))?;
        }
        if !workers.is_empty() && !planted("snapshot-misses-the-workers") {
            write_section(&mut out, &Section::Workers(workers))?;
        }
        #[cfg(feature = "next-level")]
        if !self.0.note.is_empty() {
            write_section(&mut out, &Section::Note(self.0.note.clone()))?;
        }
        write_section(&mut out, &Section::End)
    }

    /// A checksum of the stream that stays the same across builds and releases of one format. Two
    /// replicas at the same log index must agree on it.
    pub fn digest(&self) -> u64 {
        let mut digest = Fnv1a::default();
        self.write_to(&mut digest).expect("a digest takes every byte");
        digest.0
    }
}

impl State {
    /// Reads back what [`FrozenState::write_to`] wrote, up to the end of `input`. Small reads: give
    /// it a buffered reader.
    ///
    /// # Errors
    /// [`SnapshotError`] if `input` fails or is anything but one whole stream, of a level that this
    /// build supports.
    pub fn restore(input: impl Read) -> Result<Self, SnapshotError> {
        Self::restore_up_to(LEVEL_MAX, input)
    }

    /// As [`State::restore`], in a build that supports levels up to `level_max`.
    ///
    /// # Errors
    /// As [`State::restore`].
    pub fn restore_up_to(level_max: u32, mut input: impl Read) -> Result<Self, SnapshotError> {
        let Section::Header { clock_ms, lines } = read_section(&mut input)? else {
            return Err(SnapshotError::Malformed("it does not begin with a header"));
        };
        let mut state = Self { clock_ms, ..Self::default() };
        loop {
            match read_section(&mut input)? {
                Section::Lines(chunk) => chunk.into_iter().try_for_each(|line| state.push(line))?,
                Section::Workers(workers) => state.take_in(workers)?,
                Section::Level(level) => state.begin_at(level, level_max)?,
                #[cfg(feature = "next-level")]
                Section::Note(note) => state.note = note,
                Section::End => break,
                Section::Header { .. } => {
                    return Err(SnapshotError::Malformed("it has two headers"));
                }
            }
        }
        if state.lines.len() as u64 != lines {
            return Err(SnapshotError::Malformed("it has another number of lines than it says"));
        }
        match input.read(&mut [0])? {
            0 => Ok(state),
            _ => Err(SnapshotError::Malformed("it goes on past its end")),
        }
    }

    /// Takes in the level, which stands before everything that may depend on it.
    fn begin_at(&mut self, level: Level, level_max: u32) -> Result<(), SnapshotError> {
        if level.number() > level_max {
            let (level, version) = (level.number(), level.version().to_owned());
            return Err(SnapshotError::Newer { level, version });
        }
        let is_at_its_place =
            self.level.is_first() && self.lines.len() == 0 && self.workers.is_empty();
        if level.is_first() || !is_at_its_place {
            return Err(SnapshotError::Malformed("its level stands in the wrong place"));
        }
        self.level = level;
        Ok(())
    }

    /// Takes in the worker ids, of which there is one section at most.
    fn take_in(&mut self, workers: Workers) -> Result<(), SnapshotError> {
        if !self.workers.is_empty() || workers.is_empty() {
            return Err(SnapshotError::Malformed("its worker ids come twice or not at all"));
        }
        if !workers.is_sound() {
            return Err(SnapshotError::Malformed("a worker id is out of bounds"));
        }
        self.workers = workers;
        Ok(())
    }

    /// Adds a line above all others.
    fn push(&mut self, line: Line) -> Result<(), SnapshotError> {
        if !line.is_sound() {
            return Err(SnapshotError::Malformed("a step is out of bounds"));
        }
        if self.lines.last().is_some_and(|last| last.name() >= line.name()) {
            return Err(SnapshotError::Malformed("its names do not ascend"));
        }
        self.tags += usize::from(line.is_live());
        self.lines.insert(line);
        Ok(())
    }
}

/// Why a stream is not a state.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// Reading failed, or the stream ends too early.
    #[error("cannot read the snapshot: {0}")]
    Io(#[from] io::Error),
    /// A section is damaged or of an unknown format.
    #[error("a section of the snapshot is no use: {0}")]
    Section(#[from] DecodeError),
    /// It is of a level that this build does not support.
    #[error("it is of level {level}; version {version} supports that")]
    Newer {
        /// The cluster's level when it was written.
        level: u32,
        /// The first version that supports it.
        version: String,
    },
    /// The sections do not make a state.
    #[error("the snapshot is malformed: {0}")]
    Malformed(&'static str),
}

fn write_section(out: &mut impl Write, section: &Written<'_>) -> io::Result<()> {
    let record = codec::encode(FORMAT, section);
    let length = u32::try_from(record.len()).map_err(io::Error::other)?;
    assert!(length <= SECTION_BYTES_MAX, "section of {length} bytes");
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&record)
}

fn read_section(input: &mut impl Read) -> Result<ReadBack, SnapshotError> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > SECTION_BYTES_MAX {
        return Err(SnapshotError::Malformed("a section is too long"));
    }
    let mut record = vec![0; length as usize];
    input.read_exact(&mut record)?;
    Ok(command::decode(FORMAT, &record)?)
}

/// FNV-1a, 64 bits.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv1a {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snowflake::{Format, Layout};
    use crate::state::Command;
    use crate::state::tests::{create, hex, tag, written};

    fn two_tags_and_a_tombstone() -> State {
        let mut state = State::default();
        for (now_ms, name) in [(1000, "a"), (2000, "b"), (3000, "c")] {
            state.apply(now_ms, &create(name, 10, 1));
            state.apply(now_ms, &Command::Grab { tag: tag(name), size: 0 });
        }
        state.apply(4000, &Command::DeleteTag { tag: tag("b") });
        state
    }

    /// One worker id held, one released, and a report.
    fn with_worker_ids() -> State {
        let mut state = two_tags_and_a_tombstone();
        let format = Format::new(Layout::LEAF, 0).unwrap();
        let acquire = |nonce| Command::AcquireWorker {
            node_id: 1,
            nonce,
            worker_id: None,
            window_ms: 60_000,
        };
        let release = Command::ReleaseWorker { worker_id: 1, nonce: 8, unused_from_ms: 5_000 };
        let report = Command::ReportClock { node_id: 1, clock_ms: 4_001 };
        for command in [Command::FixFormat { format }, acquire(7), acquire(8), release, report] {
            state.apply(4_000, &command);
        }
        state
    }

    /// A stream of these sections.
    fn stream(sections: &[Written<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for section in sections {
            write_section(&mut bytes, section).unwrap();
        }
        bytes
    }

    fn refusal(bytes: &[u8]) -> String {
        State::restore_up_to(9, bytes).unwrap_err().to_string()
    }

    #[test]
    fn a_snapshot_keeps_its_bytes() {
        let state = two_tags_and_a_tombstone();
        let sections = [
            "0a00000001b5f310ec00fba00f03",
            "2b000000012c555eea0103",
            "01610b0a01fbe803fbe80300",
            "01620b0a00fbd007fba00f00",
            "01630b0a01fbb80bfbb80b00",
            "06000000019242ccb602",
        ];
        assert_eq!(hex(&written(&state)), sections.concat());
        assert_eq!(state.freeze().digest(), 0x1b4e_3d2f_c88e_1777);
    }

    #[test]
    fn worker_ids_keep_their_bytes() {
        let sections = [
            "0a00000001b5f310ec00fba00f03",
            "2b000000012c555eea0103",
            "01610b0a01fbe803fbe80300",
            "01620b0a00fbd007fba00f00",
            "01630b0a01fbb80bfbb80b00",
            "280000000183352081030129000a0c000200",
            "010107fba00ffb00fa010100fba00ffb8813",
            "0101fba10ffba00f",
            "06000000019242ccb602",
        ];
        assert_eq!(hex(&written(&with_worker_ids())), sections.concat());
    }

    fn at_level(number: u32) -> State {
        State { level: Level::new(number, "0.2.0"), ..two_tags_and_a_tombstone() }
    }

    #[test]
    fn a_level_above_the_first_keeps_its_bytes() {
        let sections = [
            "0a00000001b5f310ec00fba00f03",
            "0d0000000178e69759040205302e322e30",
            "2b000000012c555eea0103",
            "01610b0a01fbe803fbe80300",
            "01620b0a00fbd007fba00f00",
            "01630b0a01fbb80bfbb80b00",
            "06000000019242ccb602",
        ];
        assert_eq!(hex(&written(&at_level(2))), sections.concat());
    }

    #[test]
    fn a_snapshot_above_what_a_build_supports_names_the_version_that_it_needs() {
        let snapshot = written(&at_level(3));
        assert_eq!(State::restore_up_to(3, &snapshot[..]).unwrap().level(), 3);
        // Whatever comes behind, of which this build may know nothing.
        let cut = &snapshot[..40];
        for stream in [&snapshot, cut] {
            let refused = State::restore_up_to(2, stream).unwrap_err();
            assert!(
                matches!(&refused, SnapshotError::Newer { level: 3, version } if version == "0.2.0"),
                "{refused}"
            );
        }
    }

    #[cfg(feature = "next-level")]
    #[test]
    fn what_level_two_brings_is_written_and_read_back() {
        let state = State { note: "é".to_owned(), ..at_level(2) };
        let snapshot = written(&state);
        assert!(hex(&snapshot).contains("0502c3a9"), "{}", hex(&snapshot));
        assert_eq!(State::restore(&snapshot[..]).unwrap().note(), "é");
    }

    #[test]
    fn any_changed_bit_and_any_cut_is_noticed() {
        let whole = written(&State { level: Level::new(2, "0.2.0"), ..with_worker_ids() });
        for length in 0..whole.len() {
            assert!(State::restore_up_to(2, &whole[..length]).is_err(), "cut to {length} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(State::restore_up_to(2, &damaged[..]).is_err(), "bit {bit} changed");
        }
    }

    #[test]
    fn sections_that_make_no_state_are_refused() {
        let [a, b] = ["a", "b"].map(|name| Line::unborn(tag(name)));
        let mut stepless = a.clone();
        stepless.create(0, 1, "", 0);
        let header = |lines| Section::Header { clock_ms: 0, lines };
        let (none, held) = (Workers::default(), with_worker_ids().workers);
        let workers = || Section::Workers(&held);
        let level = |number| Section::Level(Level::new(number, "0.1.0"));
        let cases = [
            (vec![Section::End], "does not begin with a header"),
            (vec![header(0), header(0), Section::End], "two headers"),
            (vec![header(2), Section::Lines(vec![&a]), Section::End], "another number of lines"),
            (vec![header(2), Section::Lines(vec![&b, &a]), Section::End], "do not ascend"),
            (
                vec![header(2), Section::Lines(vec![&a]), Section::Lines(vec![&a]), Section::End],
                "do not ascend",
            ),
            (
                vec![header(1), Section::Lines(vec![&stepless]), Section::End],
                "step is out of bounds",
            ),
            (vec![header(0), Section::End, Section::End], "goes on past its end"),
            (vec![header(0), Section::Workers(&none), Section::End], "twice or not at all"),
            (vec![header(0), workers(), workers(), Section::End], "twice or not at all"),
            (vec![header(0), level(1), Section::End], "level stands in the wrong place"),
            (vec![header(0), level(2), level(3), Section::End], "level stands in the wrong place"),
            (vec![header(0), workers(), level(2), Section::End], "level stands in the wrong place"),
        ];
        for (sections, reason) in cases {
            let refusal = refusal(&stream(&sections));
            assert!(refusal.contains(reason), "{refusal:?} does not say {reason:?}");
        }
    }

    #[test]
    fn a_section_of_absurd_length_is_refused_before_it_is_read() {
        assert!(refusal(&u32::MAX.to_le_bytes()).contains("a section is too long"));
    }

    #[test]
    fn a_section_of_the_longest_lines_fits() {
        let mut state = State::default();
        for number in 0..2 * SECTION_LINES_MAX {
            let name = format!("{number:08}{}", "🙂".repeat(120));
            let description = "🙂".repeat(256);
            let (tag, step, start) = (tag(&name), 1 << 30, 1 << 62);
            state.apply(u64::MAX, &Command::CreateTag { tag, step, start, description });
        }
        let restored = State::restore(written(&state).as_slice()).unwrap();
        assert_eq!(restored.len(), 2 * SECTION_LINES_MAX);
    }
}
