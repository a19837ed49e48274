//! `mintleaf restore`: a new cluster of one node, made of a backup or of a directory that survived.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mintleaf_core::limits::{ID_END, UNFORCED_FLOOR_AHEAD_MS_MAX};
use mintleaf_core::shape::RootKey;
use mintleaf_core::state::{Raise, State};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::NewCluster;
use rustix::process::geteuid;
use serde_json::json;

use super::failure::Failure;
use super::inspect::progress;
use super::marks;
use super::new_file::existing;
use super::output;
use crate::machine::clock::{Clock, SystemClock};
use crate::machine::entropy;
use crate::replica::restore::{Copy, Plan, read_copy, restore};
use crate::text::timestamp::rfc3339;

/// A line may rise by at most this many ids: half of all that exist. More would use up what the restore is meant to
/// save.
const ADVANCE_MAX: u64 = ID_END / 2;

/// What a copy from before the root key of hidden ids cannot cover.
const NOT_COVERED: &str = "tags with digits that were made after this copy may repeat ids when they are made again: the \
                           copy is from before its cluster had a root key, so it does not know their keys. All other \
                           tags are covered, those with digits that the copy knows among them. Make such a tag under \
                           another name, or with other digits";

/// The risk of an advance of 0.
const NOT_RAISED: &str = "with --advance-all-by 0, a tag that neither --advance nor --marks names begins at its max_id in \
                          the copy: ids repeat if the old cluster gave any of it after the copy was taken";

/// What to make a cluster of, and how.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mintleaf restore backup --data data --node-id 1 --advance-all-by 1000000 --stopped-at now
  mintleaf serve --node-id 1 --data data

Two clusters restored from one copy repeat snowflake ids, and so does a restored one beside the old one. See \
`mintleaf help backup-and-restore`.")]
pub struct RestoreArgs {
    /// A backup, or the data directory of a stopped node; it is not written to
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The new node's data directory, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The new node's Raft id
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    node_id: u64,
    /// How many ids every tag rises by, including deleted tags and those created since the copy; more than any tag has
    /// given since
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=ADVANCE_MAX))]
    advance_all_by: Option<u64>,
    /// A tag that rises by more than --advance-all-by; may be given several times
    #[arg(long, value_name = "TAG=N")]
    advance: Vec<TagAdvance>,
    /// A list of lines with their last numbers, in the form of `inspect --marks`: these go on behind them, and
    /// --advance-all-by is for the others and for new ones
    #[arg(long, value_name = "FILE", conflicts_with = "advance")]
    marks: Option<PathBuf>,
    /// A time by which the old cluster had certainly stopped, as RFC 3339, or `now`: snowflake ids begin after it
    #[arg(long, value_name = "TIME", conflicts_with = "snowflake_above")]
    stopped_at: Option<Moment>,
    /// The highest snowflake id that the old cluster gave: snowflake ids begin after its time
    #[arg(long, value_name = "ID")]
    snowflake_above: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A tag, and by how many ids it rises.
#[derive(Clone, Debug)]
struct TagAdvance {
    tag: BizTag,
    by: u64,
}

impl FromStr for TagAdvance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tag, by) = text.rsplit_once('=').ok_or("must be TAG=N")?;
        let by = by.parse().ok().filter(|by| *by <= ADVANCE_MAX);
        let by = by.ok_or_else(|| format!("N must be a number of ids, {ADVANCE_MAX} at most"))?;
        Ok(Self { tag: BizTag::parse(tag).map_err(|error| error.to_string())?, by })
    }
}

/// A time, in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
struct Moment(u64);

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "now" {
            return Ok(Self(SystemClock::default().now_ms()));
        }
        let time: jiff::Timestamp =
            text.parse().map_err(|_| "must be a time such as 2026-11-22T09:00:00Z, or `now`")?;
        // A fraction of a millisecond counts as a whole one.
        let ms = time.as_nanosecond().div_euclid(1_000_000) + 1;
        u64::try_from(ms).map(Self).map_err(|_| "must be after 1970")
    }
}

/// Where snowflake ids begin.
#[derive(Clone, Copy)]
enum SnowflakesAfter {
    StoppedAt(Moment),
    Id(u64),
}

impl RestoreArgs {
    /// The two things that no copy holds.
    fn said(&self) -> Result<(u64, SnowflakesAfter), Failure> {
        let after = match (self.stopped_at, self.snowflake_above) {
            (Some(moment), _) => Some(SnowflakesAfter::StoppedAt(moment)),
            (None, Some(id)) => Some(SnowflakesAfter::Id(id)),
            (None, None) => None,
        };
        match (self.advance_all_by, after) {
            (Some(by), Some(after)) => Ok((by, after)),
            (by, after) => Err(Failure::new(unsaid(by.is_none(), after.is_none())).exiting(2)),
        }
    }
}

fn unsaid(by: bool, after: bool) -> String {
    let mut text =
        "the old cluster may have given ids after this copy was taken, and no copy knows which; \
                    nothing was changed. Say"
            .to_owned();
    if by {
        text += "\n  --advance-all-by N: every tag rises by N. N must be larger than what any tag gave since: its \
                 highest id, from your own tables, minus its mark in the copy; for a tag created since, the \
                 highest id itself. Too large an N wastes numbers, too small an N repeats ids";
    }
    if after {
        text += "\n  --stopped-at TIME: when the last node of the old cluster had stopped (`now`, if none is running), \
                 or --snowflake-above ID: the highest snowflake id that it gave";
    }
    text
}

pub(super) fn run(args: &RestoreArgs) -> Result<(), Failure> {
    let (all, after) = args.said()?;
    if let Some(less) = args.advance.iter().find(|advance| advance.by < all) {
        let TagAdvance { tag, by } = less;
        let text = format!(
            "--advance {tag}={by} is less than --advance-all-by {all}, by which every tag rises"
        );
        return Err(Failure::new(text).exiting(2));
    }
    if let Some(tag) = twice(&args.advance) {
        let text = format!(
            "--advance names {tag} twice: give it once, with the number of ids to raise it by"
        );
        return Err(Failure::new(text).exiting(2));
    }
    if is_within(&args.data, &args.source) {
        let text =
            "--data is within the source, which a restore only reads: name a directory beside it";
        return Err(Failure::new(text).exiting(2));
    }
    carry_out(args, all, after)
}

/// Whether a path, which need not exist yet, is a directory or lies within it.
fn is_within(path: &Path, directory: &Path) -> bool {
    let (existing, real) = (existing(path).canonicalize(), directory.canonicalize());
    directory.is_dir() && existing.is_ok_and(|path| real.is_ok_and(|real| path.starts_with(real)))
}

/// A tag that is named more than once.
fn twice(advances: &[TagAdvance]) -> Option<&BizTag> {
    let mut seen = BTreeSet::new();
    advances.iter().map(|advance| &advance.tag).find(|tag| !seen.insert(*tag))
}

fn carry_out(args: &RestoreArgs, all: u64, after: SnowflakesAfter) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(error.to_string());
    let random = || entropy::random_u128().map_err(|error| failed(&error));
    let new = NewCluster::prepare(&args.data).map_err(|error| failed(&error))?;
    let mut progress = progress(&args.source);
    let copy = read_copy(&args.source, &new.scratch(), &mut |done| progress.at(done));
    drop(progress);
    let copy = copy.map_err(|error| failed(&error))?;
    let now_ms = SystemClock::default().now_ms();
    let floor_ms = floor(&copy.state, after)?;
    let soon_ms = now_ms + UNFORCED_FLOOR_AHEAD_MS_MAX + copy.state.snowflake_window_ms_max();
    if floor_ms > soon_ms && !args.json {
        let time = rfc3339(floor_ms);
        output::warn(&format!("the new cluster gives no snowflake ids before {time}"));
    }
    let lasts = match &args.marks {
        Some(file) => marks::read(file, &copy.state)?,
        None => BTreeMap::new(),
    };
    let listed: usize = lasts.values().map(BTreeMap::len).sum();
    let tags = args.advance.iter().map(|advance| (advance.tag.clone(), advance.by));
    let tags = tags.collect::<BTreeMap<_, _>>();
    let root = RootKey(entropy::random_bytes().map_err(|error| failed(&error))?);
    let leased_before_ms = leased_before(&copy.state, after, now_ms);
    let raise = Raise { all, tags, lasts, floor_ms, leased_before_ms, root: Some(root) };
    let mut warnings = Vec::new();
    if !copy.state.has_root() {
        warnings.push(NOT_COVERED);
    }
    if all == 0 {
        warnings.push(NOT_RAISED);
    }
    let (store, cluster_id) = (random()?, random()?);
    let plan = Plan { raise, node_id: args.node_id, store, cluster_id, now_ms };
    let Copy { origin, .. } = &copy;
    let (tags, log_index) = (origin.tags, origin.log_index);
    let floor_ms = floor_ms.max(copy.state.snowflake_floor_ms());
    restore(new, copy, &plan).map_err(|error| failed(&error))?;
    let (data, node_id) = (args.data.display(), args.node_id);
    if args.json {
        return output::print_json(&json!({
            "cluster_id": format!("{cluster_id:032x}"),
            "node_id": node_id,
            "log_index": log_index,
            "tags": tags,
            "listed": listed,
            "snowflakes_from": rfc3339(floor_ms),
            "warnings": warnings,
        }));
    }
    if geteuid().is_root() {
        output::warn(&format!(
            "root runs this, so all that is in {data} belongs to root, and a node that runs as another user does not \
             start there: chown -R USER {data} first, or restore as that user: runuser -u USER -- mintleaf restore …"
        ));
    }
    let others = match listed {
        0 => "Every tag rose".to_owned(),
        1 => "1 line goes on behind its last number, and everything else rose".to_owned(),
        _ => format!("{listed} lines go on behind their last numbers, and everything else rose"),
    };
    let warned: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    output::print(&format!(
        "{warned}{data}: cluster {cluster_id:032x} of node {node_id} alone, with {tags} tags. {others} by {all} \
         ids at least; snowflake ids begin at {}.\nStart it with `mintleaf serve --node-id {node_id} --data \
         {data}`, and others with --join. Never start a node of the old cluster again.\n",
        rfc3339(floor_ms)
    ))
}

/// The first millisecond that snowflake ids may show.
fn floor(state: &State, after: SnowflakesAfter) -> Result<u64, Failure> {
    match after {
        SnowflakesAfter::StoppedAt(Moment(stopped_ms)) => {
            if stopped_ms < state.clock_ms() {
                return Err(Failure::new(format!(
                    "--stopped-at is before the copy was taken: the old cluster was still running at {}. Give a \
                     later time, or --snowflake-above",
                    rfc3339(state.clock_ms())
                )));
            }
            // A window may reach this far past the moment when it was given.
            Ok(stopped_ms.saturating_add(state.snowflake_window_ms_max()))
        }
        SnowflakesAfter::Id(id) => {
            let parts = state.format().and_then(|format| format.decode(id));
            parts.map(|parts| parts.time_ms + 1).ok_or_else(|| {
                Failure::new(format!(
                    "--snowflake-above {id} is not a snowflake id of this cluster, or the copy was taken before \
                     the first one: give --stopped-at"
                ))
            })
        }
    }
}

/// A time before which every lease of a pool in the old cluster began.
fn leased_before(state: &State, after: SnowflakesAfter, now_ms: u64) -> u64 {
    match after {
        SnowflakesAfter::StoppedAt(Moment(stopped_ms)) => stopped_ms,
        // Programs may have leased worker ids until now, however old the last snowflake id is. The copy's last stamp counts
        // where this machine's clock is behind.
        SnowflakesAfter::Id(_) => now_ms.max(state.clock_ms()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mintleaf_core::snowflake::{Format, IdParts, Layout};
    use mintleaf_core::state::Command;

    #[test]
    fn snowflake_ids_begin_above_the_one_that_is_named_whatever_this_machine_s_clock_shows() {
        let mut state = State::default();
        state.apply(1, &Command::FixFormat { format: Format::new(Layout::LEAF, 0).unwrap() });
        let parts = IdParts { time_ms: 5_000, worker_id: 1, sequence: 7 };
        let after = SnowflakesAfter::Id(state.format().unwrap().encode(parts));
        assert_eq!(floor(&state, after).ok(), Some(5_001));
    }

    #[test]
    fn programs_may_have_leased_until_now_whatever_snowflake_id_is_named() {
        let mut state = State::default();
        state.apply(70_000, &Command::FixFormat { format: Format::new(Layout::LEAF, 0).unwrap() });
        let id = SnowflakesAfter::Id(7);
        assert_eq!(leased_before(&state, id, 90_000), 90_000);
        assert_eq!(leased_before(&state, id, 10), 70_000, "a clock that is behind");
        let stopped = SnowflakesAfter::StoppedAt(Moment(80_000));
        assert_eq!(leased_before(&state, stopped, 90_000), 80_000);
    }
}
