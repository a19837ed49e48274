use super::*;
use crate::limits::{
    ACTOR_CHARS_MAX, AUDIT_MAX, DESCRIPTION_CHARS_MAX, ID_END, RATE_LIMIT_MAX, STEP_MAX,
    TAG_CHARS_MAX,
};
use crate::shape::RootKey;
use crate::state::tests::shaped::with_shapes;
use crate::state::tests::snowflake_floor::with_rules;
use crate::state::tests::{hex, tag, two_tags_and_a_tombstone, with_worker_ids, written};
use crate::state::{Actor, Change, Command, Raise, TagFields};

fn refusal(bytes: &[u8]) -> String {
    read_snapshot_up_to(9, bytes).unwrap_err().to_string()
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
    assert_eq!(digest(&state.freeze()), 0x1b4e_3d2f_c88e_1777);
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

#[test]
fn rules_and_floor_keep_their_bytes() {
    let mut state = with_rules();
    state.apply(1_000, &Command::LiftWindow { worker_id: 2, nonce: 1, floor_ms: 1 });
    let change = Change::RaiseSnowflakeFloor { floor_ms: 1 << 40 };
    state.apply(2_000, &Command::Administer { actor: Actor::default(), change });
    let sections = [
        "1000000001f9ff2fd400fd00505c18a301000000",
        "16000000011d0ccac903012900030cfdc1038d142c0100000000",
        "1800000001bd55c5e206010202020506fbe803fd0000000000010000",
        "310000000173425af2050101fd00505c18a301000009616e6f6e796d6f7573",
        "0807636c757374657200010a02fd0000000000010000",
        "06000000019242ccb602",
    ];
    assert_eq!(hex(&written(&state)), sections.concat());
    let restored = read_snapshot(&written(&state)[..]).unwrap();
    assert_eq!(written(&restored), written(&state));
}

#[test]
fn protection_and_audit_keep_their_bytes() {
    let mut state = two_tags_and_a_tombstone();
    let by_ops = |change| Command::Administer { actor: Actor::parse("ops").unwrap(), change };
    let fields = TagFields {
        rate_limit: Some(Some(50_000)),
        frozen: Some(true),
        description: Some("d".to_owned()),
        ..TagFields::default()
    };
    state.apply(5_000, &by_ops(Change::UpdateTag { tag: tag("a"), fields }));
    state.apply(6_000, &by_ops(Change::TransferLeader { from: None, to: 2 }));
    let sections = [
        "0a00000001dc5e82e300fb701703",
        "3000000001894bae2a0103",
        "01610b0afc430d0300fbe803fb88130164",
        "01620b0a00fbd007fba00f00",
        "01630b0a01fbb80bfbb80b00",
        "3e00000001b775ecbf0502",
        "01fb8813036f70730101610302040003000401000302040164",
        "0302fb50c3040101",
        "02fb7017036f70730607636c75737465720001080202",
        "06000000019242ccb602",
    ];
    assert_eq!(hex(&written(&state)), sections.concat());
    let restored = read_snapshot(&written(&state)[..]).unwrap();
    assert_eq!(written(&restored), written(&state));
    assert_eq!(restored.audit_page(0, 9, |_| true), state.audit_page(0, 9, |_| true));
}

#[test]
fn how_far_a_state_was_raised_keeps_its_bytes() {
    let by = Raise { all: 1_000, ..Raise::default() };
    let raised = two_tags_and_a_tombstone().raised(&by).unwrap();
    let whole = hex(&written(&raised));
    assert!(whole.contains("09000000017b52aad007fbe803"), "{whole}");
    let restored = read_snapshot(&written(&raised)[..]).unwrap();
    assert_eq!((restored.advance(), written(&restored)), (1_000, written(&raised)));
}

#[test]
fn a_section_of_the_longest_audit_entries_takes_less_than_half_of_its_bound() {
    let actor = Actor::parse(&"🙂".repeat(ACTOR_CHARS_MAX)).unwrap();
    let tag = tag(&"🙂".repeat(TAG_CHARS_MAX));
    let description = "🙂".repeat(DESCRIPTION_CHARS_MAX);
    let mut state = State::default();
    state.apply(
        0,
        &Command::CreateTag {
            tag: tag.clone(),
            step: 1,
            start: 1,
            description: description.clone(),
        },
    );
    // Each update changes something: what is the same as before has no entry.
    let updates = [description, "🙃".repeat(DESCRIPTION_CHARS_MAX)].map(|description| {
        let fields = TagFields {
            step: Some(STEP_MAX),
            max_id: Some(ID_END),
            description: Some(description),
            rate_limit: Some(Some(RATE_LIMIT_MAX)),
            frozen: Some(true),
        };
        let change = Change::UpdateTag { tag: tag.clone(), fields };
        Command::Administer { actor: actor.clone(), change }
    });
    for update in updates.iter().cycle().take(AUDIT_MAX + 100) {
        state.apply(u64::MAX, update);
    }
    let whole = written(&state);
    let longest = lengths(&whole).into_iter().max().unwrap();
    assert!(longest < SECTION_BYTES_MAX as usize / 2, "{longest}");
    let restored = read_snapshot(&whole[..]).unwrap();
    let entries = restored.audit_page(0, usize::MAX, |_| true).entries;
    assert_eq!((entries.len(), entries[0].index), (AUDIT_MAX, 101));
    // The bound that `state/audit.rs` names.
    assert!(whole.len() < 36 << 20, "{}", whole.len());
}

/// Where the kind of a section stands: behind its length, its format and its checksum.
const KIND_AT: usize = 4 + 1 + 4;

/// The sections of a stream, with their lengths.
fn sections(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut sections = Vec::new();
    for length in lengths(stream) {
        let (section, rest) = stream.split_at(4 + length);
        sections.push(section);
        stream = rest;
    }
    sections
}

/// The lengths of the sections of a stream.
fn lengths(mut stream: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        lengths.push(length);
        stream = &rest[length..];
    }
    lengths
}

fn at_level(number: u32) -> State {
    let mut state = two_tags_and_a_tombstone();
    let raised = Command::RaiseLevel { to: number, version: "0.2.0".to_owned() };
    state.apply(0, &raised);
    state
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
    assert_eq!(read_snapshot_up_to(3, &snapshot[..]).unwrap().level(), 3);
    // The sections behind the level may be of kinds that this build does not know.
    let cut = &snapshot[..40];
    for stream in [&snapshot, cut] {
        let refused = read_snapshot_up_to(2, stream).unwrap_err();
        assert!(
            matches!(&refused, SnapshotError::Newer { level: 3, version } if version == "0.2.0"),
            "{refused}"
        );
    }
}

#[test]
fn shapes_and_their_lines_keep_their_bytes() {
    let state = with_shapes();
    let whole = hex(&written(&state));
    let shaped = [
        "78000000014169de420804",
        "01610000010003555443010f7b706572696f647d7b69643a30367d00010002fc154c35010afc164c3501fb2d0100",
        "016200010000000000",
        "016301000000000202000a01fb2d0100",
        "016400000000010cabababababababababababababababababababababababababababababababab0000",
    ];
    assert!(whole.contains(&shaped.concat()), "{whole}");
    let restored = read_snapshot(&written(&state)[..]).unwrap();
    assert_eq!(written(&restored), written(&state));
}

/// The kinds of sections, by the byte of their kind; and the error for a snapshot that has its shapes in another place.
#[test]
fn shapes_without_their_level_or_their_tags_are_refused() {
    let whole = written(&with_shapes());
    let sections = sections(&whole);
    let kind = |section: &[u8]| section[KIND_AT];
    let kinds: Vec<u8> = sections.iter().map(|section| kind(section)).collect();
    assert_eq!(kinds, [0, 4, 1, 8, 5, 2]);
    for order in [[0, 8, 4, 1, 5, 2], [0, 4, 8, 1, 5, 2], [0, 1, 8, 5, 5, 2]] {
        let stream = order.map(|wanted| sections[kinds.iter().position(|k| *k == wanted).unwrap()]);
        assert!(refusal(&stream.concat()).contains("its shapes stand in the wrong place"));
    }
    let twice = [0, 1, 2, 3, 3, 4, 5].map(|at: usize| sections[at]).concat();
    assert!(refusal(&twice).contains("the names of its shapes do not ascend"));
}

/// A root key, the stamp that decides which periods begin higher, and the end of a window whose worker id was reassigned.
#[test]
fn what_level_three_brings_keeps_its_bytes() {
    let by = Raise { all: 9, root: Some(RootKey([0xab; 32])), ..Raise::default() };
    let mut state = with_rules().raised(&by).unwrap();
    let acquire =
        |nonce| Command::AcquireWorker { node_id: 1, nonce, worker_id: Some(2), window_ms: 10 };
    for (now_ms, nonce) in [(1_800_000_000_000, 1), (1_800_000_000_010, 2)] {
        state.apply(now_ms, &acquire(nonce));
    }
    let whole = hex(&written(&state));
    let sections = [
        "260000000193b264ff09abababababababababababababababababababababababababababababababab",
        "10000000017da780360afd00505c18a301000000",
        "0f000000017a8c85f20bfd0a505c18a3010000",
    ];
    assert!(whole.contains(&sections.concat()), "{whole}");
    let restored = read_snapshot(&written(&state)[..]).unwrap();
    assert_eq!(written(&restored), written(&state));
}

#[test]
fn any_changed_bit_and_any_cut_is_noticed() {
    let mut state = with_worker_ids();
    let change = Change::DeleteTag { tag: tag("a") };
    state.apply(0, &Command::Administer { actor: Actor::default(), change });
    state.apply(0, &Command::RaiseLevel { to: 2, version: "0.2.0".to_owned() });
    let whole = written(&state);
    for length in 0..whole.len() {
        assert!(read_snapshot_up_to(2, &whole[..length]).is_err(), "cut to {length} bytes");
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read_snapshot_up_to(2, &damaged[..]).is_err(), "bit {bit} changed");
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let mut stream = written(&two_tags_and_a_tombstone());
    write_section(&mut stream, &SectionWritten::End).unwrap();
    assert!(refusal(&stream).contains("it goes on past its end"));
}

#[test]
fn a_section_of_absurd_length_is_refused_before_it_is_read() {
    assert!(refusal(&u32::MAX.to_le_bytes()).contains("a section is too long"));
}

#[test]
fn a_section_of_the_longest_entries_fits() {
    const SECTION_ENTRIES: usize = 256;
    let mut state = State::default();
    for number in 0..2 * SECTION_ENTRIES {
        let name = format!("{number:08}{}", "🙂".repeat(120));
        let description = "🙂".repeat(256);
        let (tag, step, start) = (tag(&name), 1 << 30, 1 << 62);
        state.apply(u64::MAX, &Command::CreateTag { tag, step, start, description });
    }
    let restored = read_snapshot(written(&state).as_slice()).unwrap();
    assert_eq!(restored.len(), 2 * SECTION_ENTRIES);
}
