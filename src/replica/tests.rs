use mintleaf_core::limits::{PERIOD_MS_MAX, STEP_MAX};
use mintleaf_core::shape::{Leadership, Line, PeriodNumber};
use mintleaf_core::tag::BizTag;

use super::*;

/// A copy in a build that supports levels up to `level_max`.
fn replica(level_max: u32) -> StateReplica {
    StateReplica::supporting(level_max, || Ok([7; 32]), Arc::new(NoListener))
}

fn raise(to: u32) -> Vec<u8> {
    encode_command(&Command::RaiseLevel { to, version: "0.2.0".to_owned() })
}

fn grab(size: u32) -> Vec<u8> {
    encode_command(&Command::Grab { tag: BizTag::parse("a").unwrap(), size })
}

#[test]
fn as_many_of_the_longest_commands_as_are_proposed_together_fit_a_proposal() {
    let tag = BizTag::parse(&"\u{10ffff}".repeat(TAG_CHARS_MAX)).unwrap();
    let leadership = Leadership { node_id: u64::MAX, nonce: u128::MAX, term: u64::MAX };
    let period = Line::Period {
        number: PeriodNumber(u32::MAX),
        start_ms: u64::MAX - PERIOD_MS_MAX,
        end_ms: u64::MAX,
    };
    let mut longest = vec![Command::Grab { tag: tag.clone(), size: STEP_MAX }];
    for line in [Line::Whole, period, Line::Section(u16::MAX)] {
        for by in [None, Some(leadership)] {
            longest.push(Command::GrabLine { tag: tag.clone(), size: STEP_MAX, line, by });
        }
    }
    for grab in longest {
        let bytes = encode_command(&grab).len();
        assert!(bytes <= GRAB_BYTES_MAX, "{bytes} bytes: {grab:?}");
        assert!(bytes * COMMANDS_MAX <= PROPOSAL_BYTES_MAX, "{bytes} bytes: {grab:?}");
    }
    let key = "\u{10ffff}".repeat(KEY_BYTES_MAX / 4).into();
    let register = Command::Register { tag, key, line: period, keys_max: u64::MAX };
    let bytes = encode_command(&register).len();
    assert!(bytes * KEYS_MAX <= PROPOSAL_BYTES_MAX, "{bytes} bytes: {register:?}");
}

#[test]
fn what_changes_no_tag_is_not_counted_as_a_change_of_tags() {
    let replica = replica(1);
    let count = |command: &Command| {
        let before = replica.tag_changes.load(Relaxed);
        replica
            .apply(Stamp { now_ms: 1, term: 1, leader_id: 1 }, &encode_command(command))
            .unwrap();
        replica.tag_changes.load(Relaxed) - before
    };
    let tag = BizTag::parse("a").unwrap();
    let create =
        Command::CreateTag { tag: tag.clone(), step: 1, start: 1, description: String::new() };
    assert_eq!(count(&create), 1);
    assert_eq!(count(&Command::ReportClock { node_id: 1, clock_ms: 1 }), 0);
    assert_eq!(count(&Command::Grab { tag, size: 1 }), 1);
    let mut snapshot = Vec::new();
    replica.freeze()(&mut snapshot).unwrap();
    replica.restore(&mut snapshot.as_slice()).unwrap();
    assert_eq!(replica.tag_changes.load(Relaxed), 3);
}

#[test]
fn only_commands_within_their_bounds_are_let_in() {
    let replica = replica(1);
    assert_eq!(replica.check(&grab(7)), Ok(()));
    let mut altered = grab(7);
    altered[6] ^= 1;
    for unfit in [b"garbage!".to_vec(), Vec::new(), altered, grab(u32::MAX)] {
        assert!(matches!(replica.check(&unfit), Err(Rejected::Unfit(_))), "{unfit:?}");
    }
}

/// Keeps the marks that were named for tags: no id below them may be given any more.
#[derive(Default)]
struct Raised(parking_lot::Mutex<Vec<u64>>);

impl TagListener for Raised {
    fn tag_deleted(&self, _: &str) {}
    fn tag_raised(&self, tag: &str, mark: u64) {
        assert_eq!(tag, "a");
        self.0.lock().push(mark);
    }
    fn tag_protected(&self, _: &str, _: Protection) {}
    fn state_replaced(&self) {}
}

#[test]
fn every_mark_that_an_import_or_an_administrator_names_binds_what_is_held() {
    let raised = Arc::<Raised>::default();
    let replica = StateReplica::new(|| Ok([7; 32]), Arc::<Raised>::clone(&raised));
    let tag = || BizTag::parse("a").unwrap();
    let carry_out = |change: Change| {
        let command = Command::Administer { actor: state::Actor::default(), change };
        replica.apply(Stamp::default(), &encode_command(&command)).unwrap();
    };
    let import = |max_id| {
        let (import, description) = ("leaf.sql".into(), String::new());
        Change::ImportTag { import, tag: tag(), step: 1, max_id, description }
    };
    let update = |max_id| {
        let fields = state::TagFields { max_id, ..state::TagFields::default() };
        Change::UpdateTag { tag: tag(), fields }
    };
    for max_id in [50, 50, 40, 60] {
        carry_out(import(max_id));
    }
    // The last is refused, as marks do not fall.
    for max_id in [Some(60), None, Some(70), Some(5)] {
        carry_out(update(max_id));
    }
    assert_eq!(*raised.0.lock(), [50, 50, 40, 60, 60, 70], "those that change nothing too");
}

#[test]
fn nobody_may_propose_a_level() {
    let refused = replica(2).check(&raise(2)).unwrap_err();
    assert!(refused.to_string().contains("only a leader"), "{refused}");
}

#[test]
fn an_entry_above_what_a_build_supports_ends_it_and_changes_nothing() {
    let (older, newer) = (replica(1), replica(2));
    let ended = older.apply(Stamp::default(), &raise(2)).unwrap_err();
    assert_eq!(ended.needs, Release { level: 2, version: "0.2.0".to_owned() });
    let told = ended.to_string();
    assert!(told.contains("0.2.0") && told.contains(VERSION), "{told}");
    assert_eq!(older.needs().level, 1);
    assert_eq!(newer.apply(Stamp::default(), &raise(2)).map(|_| newer.needs().level), Ok(2));

    let mut snapshot = Vec::new();
    newer.freeze()(&mut snapshot).unwrap();
    let refused = older.restore(&mut snapshot.as_slice()).unwrap_err();
    assert!(matches!(refused, RestoreError::Newer(refused) if refused == ended));
    let other = replica(2);
    other.restore(&mut snapshot.as_slice()).unwrap();
    assert_eq!(other.needs(), ended.needs);
}

#[test]
fn a_reply_that_cannot_be_read_leaves_its_proposal_in_doubt_and_ends_nothing() {
    let whole = encode_response(&Response::Deleted, 1);
    assert_eq!(decode(&whole), Ok(Response::Deleted));
    let mut altered = whole;
    *altered.last_mut().unwrap() ^= 1;
    for unreadable in [&altered[..], b"", b"garbage!"] {
        let doubt = decode(unreadable);
        assert!(matches!(doubt, Err(ProposeError::Unknown(_))), "{doubt:?}");
    }
}
