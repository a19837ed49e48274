//! The replicated state: nothing is given twice, for any commands with any stamps.
//!
//! It is one long file on purpose: one function makes every command from bytes, and one world judges every response.
#![no_main]

use std::collections::BTreeMap;
use std::ops::Range;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use mintleaf_core::encoding::{
    decode_command, decode_response, digest, encode_command, encode_response, read_snapshot,
    write_snapshot,
};
use mintleaf_core::limits::{
    AHEAD_MS_MAX, ID_END, ID_MAX, PERIOD_MS_MAX, PERIOD_SKEW_MS, STEP_MAX,
};
use mintleaf_core::shape::{
    Hidden, HiddenKey, Kind, Leadership, Line, Order, Period, PeriodLength, PeriodNumber, RootKey,
    Shape, TextFormat,
};
use mintleaf_core::snowflake::{Format, Layout, Rules, WorkerPool};
use mintleaf_core::state::{
    Actor, Change, Command, LEVEL_MAX, MemberFacts, Protection, Response, Stamp, State, TagFields,
};
use mintleaf_core::tag::BizTag;
use mintleaf_fuzz::near;

const TAGS: [&str; 4] = ["a", "b", "订单", "a/b%"];
const COMMANDS_MAX: usize = 200;
/// The first level that has tags with a shape.
const LEVEL_OF_SHAPES: u32 = 2;
/// The leader and its term.
const LEADERSHIP: Leadership = Leadership { node_id: 1, nonce: 1, term: 5 };

/// A state, and everything that it has given.
#[derive(Default)]
struct World {
    state: State,
    now_ms: u64,
    /// By tag: the first id that was never given.
    given: BTreeMap<String, u64>,
    /// By tag and line, where a period counts by its number: the first number that was never given.
    of_lines: BTreeMap<(String, Line), u64>,
    /// By register and key: its number, and the period.
    of_keys: BTreeMap<(String, Box<str>), (u64, Option<PeriodNumber>)>,
    /// By worker id: the latest grant.
    windows: BTreeMap<u16, Window>,
}

#[derive(Clone, Copy)]
struct Window {
    nonce: u128,
    floor_ms: u64,
    fence_ms: u64,
    /// The first millisecond that no holder has ever stamped.
    unused_from_ms: u64,
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let _ = play(&mut input);
});

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let mut world = World { now_ms: 1_800_000_000_000, ..World::default() };
    if input.arbitrary()? {
        let to = *input.choose(&[LEVEL_OF_SHAPES, LEVEL_MAX])?;
        world.state.apply(0, &Command::RaiseLevel { to, version: "0.3.0".to_owned() });
        // At the higher level, a tag with digits cannot be made without a root key.
        let draw = Command::DrawRoot { root: RootKey(input.arbitrary()?) };
        if draw.level() <= to && input.arbitrary()? {
            world.state.apply(0, &draw);
        }
    }
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() {
            break;
        }
        let now_ms = near(input, &[world.now_ms, world.now_ms + AHEAD_MS_MAX, 0, u64::MAX])?;
        if now_ms < world.now_ms * 2 {
            world.now_ms = now_ms;
        }
        let command = command(input, &world)?;
        if command.level() <= world.state.level() {
            world.apply(now_ms, &command);
        }
    }
    world.survives_a_snapshot();
    Ok(())
}

fn command(input: &mut Unstructured<'_>, world: &World) -> Result<Command> {
    let tag = tag(input)?;
    let marks = [0, 1, 1000, u64::from(STEP_MAX), ID_MAX];
    Ok(match input.int_in_range(0..=16)? {
        0 => {
            let (step, start) = (small(input, &marks)?, near(input, &marks)?);
            Command::CreateTag { tag, step, start, description: text(input)? }
        }
        1 => {
            let step = if input.arbitrary()? { Some(small(input, &marks)?) } else { None };
            let max_id = world.given.get(tag.as_str()).copied().unwrap_or(1);
            let max_id =
                if input.arbitrary()? { Some(near(input, &[max_id, ID_END])?) } else { None };
            let description = if input.arbitrary()? { Some(text(input)?) } else { None };
            Command::UpdateTag { tag, step, max_id, description }
        }
        2 => Command::DeleteTag { tag },
        3 | 4 => Command::Grab { tag, size: small(input, &marks)? },
        5 => Command::FixFormat { format: format(input)? },
        6 => Command::ReportClock { node_id: input.arbitrary()?, clock_ms: input.arbitrary()? },
        7 => {
            let worker_id = if input.arbitrary()? { Some(worker_id(input)?) } else { None };
            // No two grants have the same nonce.
            let nonce = 1 + world.windows.values().map(|window| window.nonce).max().unwrap_or(0);
            let window_ms = near(input, &[1, 60_000, AHEAD_MS_MAX])?;
            Command::AcquireWorker { node_id: input.arbitrary()?, nonce, worker_id, window_ms }
        }
        8 => {
            let (worker_id, window_ms) = (worker_id(input)?, near(input, &[1, AHEAD_MS_MAX])?);
            Command::RenewWorker { worker_id, nonce: nonce(input, world, worker_id)?, window_ms }
        }
        9 => {
            let change = change(input, tag, world)?;
            Command::Administer { actor: Actor::parse("ops").expect("it is a name"), change }
        }
        10 => {
            let worker_id = worker_id(input)?;
            let nonce = nonce(input, world, worker_id)?;
            let floors = [world.state.snowflake_floor_ms(), world.now_ms];
            Command::LiftWindow { worker_id, nonce, floor_ms: near(input, &floors)? }
        }
        11 => {
            let pool: WorkerPool =
                input.choose(&["0-1", "0,63", "1,512-1023"])?.parse().expect("it is");
            let window_ms_max = near(input, &[1, 60_000, AHEAD_MS_MAX])?;
            match Rules::new(format(input)?, pool, window_ms_max) {
                Ok(rules) => Command::FixRules { rules },
                Err(_) => Command::FixFormat { format: format(input)? },
            }
        }
        13 => {
            let protection = Protection::default();
            let (step, start) = (small(input, &[1, 1000])?, near(input, &[1, 1, 2])?);
            let (shape, description) = (Box::new(shape(input)?), text(input)?);
            let change =
                Change::CreateShapedTag { tag, step, start, description, protection, shape };
            Command::Administer { actor: Actor::parse("ops").expect("it is a name"), change }
        }
        14 | 15 => {
            let by = if input.arbitrary()? { Some(leadership(input)?) } else { None };
            let (size, line) = (small(input, &[0, 1, 1000])?, line(input, world.now_ms)?);
            Command::GrabLine { tag, size, line, by }
        }
        16 => register(input, tag, world.now_ms)?,
        _ => {
            let worker_id = worker_id(input)?;
            let nonce = nonce(input, world, worker_id)?;
            // Only the holder can state truthfully what it has not stamped. Here it has stamped nothing.
            let window = world.windows.get(&worker_id);
            let ends = window.map_or([0, 1], |window| [window.floor_ms, window.fence_ms]);
            Command::ReleaseWorker { worker_id, nonce, unused_from_ms: near(input, &ends)? }
        }
    })
}

fn register(input: &mut Unstructured<'_>, tag: BizTag, now_ms: u64) -> Result<Command> {
    let key = (*input.choose(&["", "a", "b", "订单"])?).into();
    let (line, keys_max) = (line(input, now_ms)?, near(input, &[0, 2, u64::MAX])?);
    Ok(Command::Register { tag, key, line, keys_max })
}

fn change(input: &mut Unstructured<'_>, tag: BizTag, world: &World) -> Result<Change> {
    let rates = [None, Some(0), Some(1), Some(50_000), Some(1_000_000_000), Some(1_000_000_001)];
    let rate_limit = *input.choose(&rates)?;
    let frozen = input.arbitrary()?;
    let member =
        |length| MemberFacts { raft: "r".repeat(length), http: String::new(), voter: frozen };
    let length = *input.choose(&[3, 259, 260])?;
    Ok(match input.int_in_range(0..=7)? {
        0 => {
            let (step, start, description) = (1, near(input, &[1, ID_MAX])?, text(input)?);
            let protection = Protection { rate_limit, frozen };
            Change::CreateTag { tag, step, start, description, protection }
        }
        1 | 2 => {
            let max_id = world.given.get(tag.as_str()).copied().unwrap_or(1);
            let max_id =
                if input.arbitrary()? { Some(near(input, &[max_id, ID_END])?) } else { None };
            let frozen = input.arbitrary::<bool>()?.then_some(frozen);
            let rate_limit = input.arbitrary::<bool>()?.then_some(rate_limit);
            let fields = TagFields { max_id, rate_limit, frozen, ..TagFields::default() };
            Change::UpdateTag { tag, fields }
        }
        3 => Change::DeleteTag { tag },
        4 => Change::SetNode { id: input.arbitrary()?, before: None, after: member(length) },
        5 => {
            let floor_ms = near(input, &[world.now_ms, world.now_ms + AHEAD_MS_MAX, 0, 1 << 44])?;
            Change::RaiseSnowflakeFloor { floor_ms }
        }
        6 => {
            let max_id = world.given.get(tag.as_str()).copied().unwrap_or(1);
            let (step, max_id) = (1000, near(input, &[max_id, ID_END])?);
            Change::ImportTag {
                import: "leaf.sql".into(),
                tag,
                step,
                max_id,
                description: text(input)?,
            }
        }
        _ => Change::TransferLeader { from: None, to: input.arbitrary()? },
    })
}

fn shape(input: &mut Unstructured<'_>) -> Result<Shape> {
    let length = *input.choose(&PeriodLength::ALL)?;
    let period =
        Period { length, time_zone: (*input.choose(&["UTC", "", "Asia/Kolkata"])?).into() };
    let format = input.choose(&["{id}", "{period}{id:06}", "T-{id:base62}"])?;
    let format = TextFormat::parse(format).expect("it is one");
    let digits = *input.choose(&[5, 6, 18, 19])?;
    let hidden = Hidden { digits, key: HiddenKey(input.arbitrary()?) };
    let shape = Shape {
        kind: *input.choose(&Kind::ALL)?,
        order: *input.choose(&Order::ALL)?,
        period: input.arbitrary::<bool>()?.then_some(period),
        format: input.arbitrary::<bool>()?.then_some(format),
        hidden: input.arbitrary::<bool>()?.then_some(hidden),
    };
    Ok(if input.arbitrary()? { shape.completed() } else { shape })
}

fn line(input: &mut Unstructured<'_>, now_ms: u64) -> Result<Line> {
    Ok(match input.int_in_range(0..=3)? {
        0 => Line::Whole,
        1 => Line::Section(*input.choose(&[0, 1, 4_095, 4_096])?),
        _ => {
            let first = *input.choose(&[20_261_101, 202_601, 2026, 0])?;
            let number = PeriodNumber(first + u32::from(input.int_in_range(0..=20_u8)?));
            let start_ms = near(input, &[now_ms, 0])?;
            let length_ms = near(input, &[86_400_000, PERIOD_MS_MAX])?;
            Line::Period { number, start_ms, end_ms: start_ms.saturating_add(length_ms) }
        }
    })
}

fn leadership(input: &mut Unstructured<'_>) -> Result<Leadership> {
    let node_id = LEADERSHIP.node_id + u64::from(input.ratio(1, 8)?);
    let term = LEADERSHIP.term + u64::from(input.ratio(1, 8)?);
    Ok(Leadership { node_id, term, ..LEADERSHIP })
}

fn tag(input: &mut Unstructured<'_>) -> Result<BizTag> {
    Ok(BizTag::parse(input.choose(&TAGS)?).expect("it is a name"))
}

fn small(input: &mut Unstructured<'_>, marks: &[u64]) -> Result<u32> {
    Ok(near(input, marks)? as u32)
}

fn text(input: &mut Unstructured<'_>) -> Result<String> {
    let length = *input.choose(&[0, 1, 256, 257])?;
    Ok("é".repeat(length))
}

fn worker_id(input: &mut Unstructured<'_>) -> Result<u16> {
    Ok(*input.choose(&[0, 1, 2, 63, 1023, 1024, u16::MAX])?)
}

fn nonce(input: &mut Unstructured<'_>, world: &World, worker_id: u16) -> Result<u128> {
    let held = world.windows.get(&worker_id).map_or(0, |window| window.nonce);
    Ok(held + u128::from(input.ratio(1, 8)?))
}

fn format(input: &mut Unstructured<'_>) -> Result<Format> {
    let layout: Layout = input.choose(&["41+10+12", "41+6+6", "39+0+1"])?.parse().expect("it is");
    let epoch_ms = *input.choose(&[0, 1_288_834_974_657, 1_800_000_000_000])?;
    Ok(Format::new(layout, epoch_ms).expect("it is below the bound"))
}

impl World {
    fn apply(&mut self, now_ms: u64, command: &Command) {
        let encoded = encode_command(command);
        assert_eq!(&decode_command(&encoded).expect("it was just encoded"), command);
        // A stamp of 0 does not move the state's clock.
        let before = (now_ms == 0).then(|| digest(&self.state.freeze()));
        let fences = self.fences();
        let rejected = command.check().is_err();
        let Leadership { node_id: leader_id, term, .. } = LEADERSHIP;
        let response = self.state.apply(Stamp { now_ms, term, leader_id }, command);
        assert_eq!(
            decode_response(&encode_response(&response, self.state.level()))
                .expect("it was just encoded"),
            response
        );
        if rejected {
            assert!(matches!(response, Response::Invalid { .. }));
        }
        if let Some(before) = before.filter(|_| is_rejection(&response)) {
            assert_eq!(digest(&self.state.freeze()), before, "a rejection changed the state");
        }
        self.marks_stand();
        self.note(now_ms, command, &response);
        self.fences_stand(&fences, command);
    }

    fn fences(&self) -> BTreeMap<u16, u64> {
        self.state.workers().iter().map(|row| (row.worker_id, row.fence_ms)).collect()
    }

    /// No tag's mark lies below the ids that were given of it.
    fn marks_stand(&self) {
        for (tag, given) in &self.given {
            // For periods and sections, the row shows the mark of one line only.
            let is_whole = self.state.shape(tag).is_none_or(|shape| shape.has_whole_line());
            if let Some(row) = self.state.tag(tag).filter(|_| is_whole) {
                assert!(row.max_id >= *given, "{tag} fell from {given} to {}", row.max_id);
            }
        }
    }

    /// A fence falls only when its holder gives back what it has not stamped.
    fn fences_stand(&self, before: &BTreeMap<u16, u64>, command: &Command) {
        let after = self.fences();
        for (worker_id, fence_ms) in before {
            let released =
                matches!(command, Command::ReleaseWorker { worker_id: id, .. } if id == worker_id);
            assert!(released || after[worker_id] >= *fence_ms);
        }
    }

    fn note(&mut self, now_ms: u64, command: &Command, response: &Response) {
        match (command, response) {
            (Command::Grab { tag, size }, &Response::Segment { start, end, step }) => {
                let given = self.given.entry(tag.to_string()).or_default();
                assert!(*given <= start && start < end && end <= ID_END);
                assert!(end - start == u64::from(step.max(*size)) || end == ID_END);
                *given = end;
            }
            (
                &Command::GrabLine { ref tag, line, by, .. },
                &Response::Segment { start, end, .. },
            ) => {
                let giver = self.state.shape(tag.as_str()).expect("it is there").giver();
                assert!(giver.is_leader() == by.is_some() && !giver.records_keys());
                assert!(by.is_none_or(|by| by == LEADERSHIP));
                self.give(now_ms, tag, line, start..end);
            }
            (
                &Command::Register { ref tag, ref key, line, .. },
                &Response::Registered { number, period, is_new },
            ) => {
                let of_key = (tag.to_string(), key.clone());
                let before = self.of_keys.insert(of_key, (number, period));
                assert_eq!(before, (!is_new).then_some((number, period)));
                if is_new {
                    assert!(line.period() == period);
                    self.give(now_ms, tag, line, number..number + 1);
                }
            }
            (
                Command::AcquireWorker { nonce, .. },
                &Response::Window { worker_id, floor_ms, fence_ms },
            ) => {
                let unused_from_ms =
                    self.windows.get(&worker_id).map_or(0, |window| window.unused_from_ms);
                assert!(unused_from_ms <= floor_ms && floor_ms < fence_ms);
                assert_eq!(floor_ms, now_ms.max(self.state.snowflake_floor_ms()));
                let rules = self.state.snowflake_rules().expect("they were settled");
                assert!(rules.pool().contains(worker_id));
                assert!(fence_ms - now_ms <= rules.window_ms_max());
                let window = Window { nonce: *nonce, floor_ms, fence_ms, unused_from_ms: fence_ms };
                self.windows.insert(worker_id, window);
            }
            (
                Command::RenewWorker { worker_id, nonce, .. },
                &Response::Window { floor_ms, fence_ms, .. },
            ) => {
                let window = self.windows.get_mut(worker_id).expect("it was granted");
                assert!(window.nonce == *nonce && window.floor_ms == floor_ms);
                assert!(window.fence_ms <= fence_ms);
                (window.fence_ms, window.unused_from_ms) = (fence_ms, fence_ms);
            }
            (
                Command::LiftWindow { worker_id, nonce, floor_ms: lifted_ms },
                &Response::Window { floor_ms, fence_ms, .. },
            ) => {
                let window = self.windows.get_mut(worker_id).expect("it was granted");
                assert!(window.nonce == *nonce && window.fence_ms == fence_ms);
                assert_eq!(floor_ms, (*lifted_ms).clamp(window.floor_ms, fence_ms));
                window.floor_ms = floor_ms;
            }
            (Command::ReleaseWorker { worker_id, nonce, unused_from_ms }, Response::Noted) => {
                let window = self.windows.get_mut(worker_id).expect("it was granted");
                assert_eq!(window.nonce, *nonce);
                window.fence_ms = (*unused_from_ms).clamp(window.floor_ms, window.fence_ms);
                window.unused_from_ms = window.fence_ms;
                // A nonce of 0 stands for a released window.
                window.nonce = 0;
            }
            _ => {}
        }
    }

    /// Notes numbers of a line, which lie above all that it gave before.
    fn give(&mut self, now_ms: u64, tag: &BizTag, line: Line, numbers: Range<u64>) {
        let shape = self.state.shape(tag.as_str()).expect("it is there");
        assert!(shape.has_line(&line));
        assert!(numbers.start < numbers.end && numbers.end <= shape.line_end());
        let line = match line {
            Line::Period { number, start_ms, end_ms } => {
                assert!(start_ms <= now_ms.saturating_add(PERIOD_SKEW_MS));
                assert!(now_ms < end_ms.saturating_add(PERIOD_SKEW_MS));
                Line::Period { number, start_ms: 0, end_ms: 0 }
            }
            Line::Whole | Line::Section(_) => line,
        };
        let given = self.of_lines.entry((tag.to_string(), line)).or_default();
        assert!(*given <= numbers.start);
        *given = numbers.end;
    }

    fn survives_a_snapshot(&self) {
        let mut written = Vec::new();
        write_snapshot(&self.state.freeze(), &mut written).expect("a vector takes every byte");
        let restored = read_snapshot(&written[..]).expect("what was written is a state");
        assert_eq!(digest(&restored.freeze()), digest(&self.state.freeze()));
        let mut ways = [self.state.clone(), restored];
        let grab = Command::Grab { tag: BizTag::parse(TAGS[0]).expect("it is a name"), size: 7 };
        let [one, other] = ways.each_mut().map(|state| state.apply(self.now_ms, &grab));
        assert_eq!(one, other);
    }
}

fn is_rejection(response: &Response) -> bool {
    !matches!(
        response,
        Response::Tag(_)
            | Response::ShapedTag { .. }
            | Response::BoundedTag { .. }
            | Response::BoundedSegment { .. }
            | Response::Deleted
            | Response::Segment { .. }
            | Response::Format { .. }
            | Response::Rules { .. }
            | Response::Floor { .. }
            | Response::Imported { .. }
            | Response::Window { .. }
            | Response::Registered { is_new: true, .. }
            | Response::Noted
    )
}
