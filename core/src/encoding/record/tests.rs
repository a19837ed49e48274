use serde::Serialize;

use super::*;
use crate::limits::{AHEAD_MS_MAX, ID_END, STEP_MAX};
use crate::shape::{
    Hidden, HiddenKey, Kind, Leadership, Line, Order, Period, PeriodLength, PeriodNumber, RootKey,
    Shape, TextFormat,
};
use crate::snowflake::Rules;
use crate::state::tests::workers::format;
use crate::state::tests::{hex, tag};
use crate::state::{Actor, Change, MemberFacts, Protection, TagFields, TagRow};
use crate::steps::Steps;
use crate::tag::OutOfBounds;

fn administer(change: Change) -> Command {
    Command::Administer { actor: Actor::parse("ops").unwrap(), change }
}

fn rules() -> Rules {
    Rules::new(format("41+5+5+12"), "0-9,512-1023".parse().unwrap(), 60_000).unwrap()
}

fn member(voter: bool) -> MemberFacts {
    MemberFacts { raft: "h:1".to_owned(), http: "h:2".to_owned(), voter }
}

#[test]
fn every_command_keeps_its_bytes() {
    let create = Command::CreateTag {
        tag: tag("orders"),
        step: 1000,
        start: 1,
        description: "é".to_owned(),
    };
    let update = Command::UpdateTag {
        tag: tag("a"),
        step: Some(1),
        max_id: Some(ID_END),
        description: Some(String::new()),
    };
    let nothing = Command::UpdateTag { tag: tag("a"), step: None, max_id: None, description: None };
    let golden = [
        (create, "010a77815f00066f7264657273fbe8030102c3a9"),
        (update, "0143c9073b010161010101fd00000000000000800100"),
        (nothing, "01b9bebd4e010161000000"),
        (Command::DeleteTag { tag: tag("a") }, "01980cd2b9020161"),
        (Command::Grab { tag: tag("订"), size: STEP_MAX }, "0177d101d50303e8aea2fcffffff7f"),
        (
            Command::FixFormat { format: format("41+5+5+12") },
            "01d918928c042905050cfdc1038d142c010000",
        ),
        (
            Command::ReportClock { node_id: 3, clock_ms: 1_800_000_000_000 },
            "012898bc4b0503fd00505c18a3010000",
        ),
        (
            Command::AcquireWorker {
                node_id: 3,
                nonce: u128::MAX,
                worker_id: Some(1023),
                window_ms: 60_000,
            },
            "01baeb917f0603feffffffffffffffffffffffffffffffff01fbff03fb60ea",
        ),
        (
            Command::AcquireWorker { node_id: 3, nonce: 0, worker_id: None, window_ms: 1 },
            "01de186c900603000001",
        ),
        (
            Command::RenewWorker { worker_id: 7, nonce: 1, window_ms: AHEAD_MS_MAX },
            "016783b1bf070701fc80ee3600",
        ),
        (
            Command::ReleaseWorker { worker_id: 7, nonce: 1, unused_from_ms: 1 << 40 },
            "01bed96c74080701fd0000000000010000",
        ),
        (Command::RaiseLevel { to: 2, version: "0.2.0".to_owned() }, "01a9f392c2090205302e322e30"),
        (
            Command::FixRules { rules: rules() },
            "01fa9505ce0b2905050cfdc1038d142c010000020009fb0002fbff03fb60ea",
        ),
        (
            Command::LiftWindow { worker_id: 7, nonce: 1, floor_ms: 1 << 40 },
            "01c1e26a770c0701fd0000000000010000",
        ),
    ];
    check(golden);
}

fn check<const N: usize>(golden: [(Command, &str); N]) {
    for (command, bytes) in golden {
        assert_eq!(hex(&encode_command(&command)), bytes, "{command:?}");
        assert_eq!(decode_command(&encode_command(&command)).unwrap(), command);
    }
}

#[test]
fn every_admin_change_keeps_its_bytes() {
    check([
        (
            administer(Change::CreateTag {
                tag: tag("a"),
                step: 3,
                start: 4,
                description: "b".to_owned(),
                protection: Protection { rate_limit: Some(5), frozen: true },
            }),
            "01556c0a350a036f707300016103040162010501",
        ),
        (
            administer(Change::UpdateTag { tag: tag("a"), fields: TagFields::default() }),
            "01c4e34b540a036f70730101610000000000",
        ),
        (
            administer(Change::UpdateTag {
                tag: tag("a"),
                fields: TagFields {
                    step: Some(1),
                    max_id: Some(2),
                    description: Some("b".to_owned()),
                    rate_limit: Some(None),
                    frozen: Some(false),
                },
            }),
            "01861403270a036f70730101610101010201016201000100",
        ),
        (administer(Change::DeleteTag { tag: tag("a") }), "016be08a080a036f7073020161"),
        (
            administer(Change::SetNode { id: 4, before: Some(member(false)), after: member(true) }),
            "0161f277560a036f707303040103683a3103683a320003683a3103683a3201",
        ),
        (administer(Change::RemoveNode { id: 4, before: None }), "015239c54b0a036f7073040400"),
        (
            administer(Change::TransferLeader { from: Some(1), to: 2 }),
            "018fef4e1e0a036f707305010102",
        ),
        (administer(Change::RaiseLevel { from: 1, to: 2 }), "01557838db0a036f7073060102"),
        (
            administer(Change::RaiseSnowflakeFloor { floor_ms: 1 << 40 }),
            "01e76d13b70a036f707307fd0000000000010000",
        ),
        (
            administer(Change::ImportTag {
                import: "leaf.sql".into(),
                tag: tag("a"),
                step: 3,
                max_id: ID_END,
                description: "b".to_owned(),
            }),
            "019707dfdd0a036f707308086c6561662e73716c016103fd00000000000000800162",
        ),
    ]);
}

#[test]
fn every_response_keeps_its_bytes() {
    let row = TagRow {
        tag: tag("a"),
        max_id: 2,
        step: 3,
        description: "b".to_owned(),
        created_at_ms: 4,
        updated_at_ms: 5,
        protection: Protection { rate_limit: Some(6), frozen: true },
        shape: None,
        step_max: None,
    };
    let golden = [
        (Response::Tag(row.clone()), "01dc0eba8c000161020301620405010601"),
        (Response::Deleted, "012813c52f01"),
        (
            Response::Segment { start: 1, end: ID_END, step: 1000 },
            "01892894d30201fd0000000000000080fbe803",
        ),
        (Response::UnknownTag, "010472cbc103"),
        (Response::TagExists, "01a7e7af5f04"),
        (Response::MaxIdBehind { max_id: 7 }, "01c3d2901d0507"),
        (Response::Exhausted, "018b86a1b106"),
        (Response::Invalid { what: OutOfBounds::Step }, "01e225c2b10700"),
        (Response::Invalid { what: OutOfBounds::Start }, "017415c5c60701"),
        (Response::Invalid { what: OutOfBounds::MaxId }, "01ce44cc5f0702"),
        (Response::Invalid { what: OutOfBounds::Size }, "015874cb280703"),
        (Response::Invalid { what: OutOfBounds::Description }, "01fbe1afb60704"),
        (Response::Invalid { what: OutOfBounds::Window }, "016dd1a8c10705"),
        (Response::Format { format: format("41+10+12") }, "01220a3cad0829000a0cfdc1038d142c010000"),
        (
            Response::Window { worker_id: 1023, floor_ms: 1 << 40, fence_ms: (1 << 40) + 60_000 },
            "016aeb9d6609fbff03fd0000000000010000fd60ea000000010000",
        ),
        (Response::Noted, "01a0ca17b80a"),
        (Response::NoFormat, "0136fa10cf0b"),
        (Response::NoWorkerFree { free_from_ms: 1 << 40 }, "0158c04ed60cfd0000000000010000"),
        (Response::NoSuchWorker, "01035f73260d"),
        (Response::NotHolder, "01b90e7abf0e"),
        (Response::OutOfTime, "012f3e7dc80f"),
        (Response::Frozen, "01da33754510"),
        (Response::Invalid { what: OutOfBounds::RateLimit }, "01d780a1580706"),
        (Response::Invalid { what: OutOfBounds::Address }, "0141b0a62f0707"),
        (Response::Invalid { what: OutOfBounds::Floor }, "01d0ad19bf0708"),
        (Response::Invalid { what: OutOfBounds::Import }, "01469d1ec80709"),
        (Response::Imported { before: Some(1), row }, "01496f5d091401010161020301620405010601"),
        (
            Response::Rules { rules: rules() },
            "0151a83424112905050cfdc1038d142c010000020009fb0002fbff03fb60ea",
        ),
        (Response::Floor { before_ms: 7, floor_ms: 1 << 40 }, "0189a24d921207fd0000000000010000"),
        (Response::BelowFloor { floor_ms: 1 << 40 }, "013d1aeb0013fd0000000000010000"),
    ];
    for (response, bytes) in golden {
        assert_eq!(hex(&encode_response(&response, 1)), bytes, "{response:?}");
        assert_eq!(decode_response(&encode_response(&response, 1)).unwrap(), response);
    }
}

fn shaped() -> Shape {
    Shape {
        order: Order::Strict,
        period: Some(Period { length: PeriodLength::Month, time_zone: "UTC".into() }),
        format: Some(TextFormat::parse("{period}-{id}").unwrap()),
        ..Shape::default()
    }
}

fn hidden() -> Shape {
    let hidden = Some(Hidden { digits: 12, key: HiddenKey([0xab; 32]) });
    Shape { hidden, ..Shape::default() }
}

#[test]
fn commands_and_changes_of_level_two_keep_their_bytes() {
    let create = |shape| {
        administer(Change::CreateShapedTag {
            tag: tag("a"),
            step: 3,
            start: 1,
            description: "b".to_owned(),
            protection: Protection::default(),
            shape: Box::new(shape),
        })
    };
    let grab = |line, by| Command::GrabLine { tag: tag("a"), size: 7, line, by };
    let number = PeriodNumber(202_611);
    let (start_ms, end_ms) = (1 << 40, (1 << 40) + 1);
    let by = Leadership { node_id: 3, nonce: u128::MAX, term: 9 };
    let sequence = Shape { kind: Kind::Sequence, ..Shape::default() };
    check([
        (
            create(shaped()),
            "010b395dcb0a036f70730901610301016200000001010103555443010d7b706572696f647d2d7b69647d00",
        ),
        (
            create(hidden()),
            "01573930050a036f707309016103010162000000000000010cabababababababababababababababababababababababababababababababab",
        ),
        (create(sequence), "016290c38e0a036f70730901610301016200000100000000"),
        (
            grab(Line::Whole, Some(by)),
            "017bc41f650d016107000103feffffffffffffffffffffffffffffffff09",
        ),
        (
            grab(Line::Period { number, start_ms, end_ms }, None),
            "01b067a67e0d01610701fc73170300fd0000000000010000fd010000000001000000",
        ),
        (
            grab(Line::Section(4_095), Some(by)),
            "019c60c9df0d01610702fbff0f0103feffffffffffffffffffffffffffffffff09",
        ),
    ]);
}

#[test]
fn responses_of_level_two_keep_their_bytes() {
    let row = TagRow {
        tag: tag("a"),
        max_id: 2,
        step: 3,
        description: "b".to_owned(),
        created_at_ms: 4,
        updated_at_ms: 5,
        protection: Protection::default(),
        shape: None,
        step_max: None,
    };
    let golden = [
        (
            Response::ShapedTag { row, shape: Box::new(shaped()) },
            "01d13a07e315016102030162040500000001010103555443010d7b706572696f647d2d7b69647d00",
        ),
        (Response::OtherShape, "01ef9616ac16"),
        (Response::OtherTerm, "0179a611db17"),
        (Response::PeriodOver { number: PeriodNumber(20_261_121) }, "014a014c0318fc01293501"),
        (Response::PeriodClosed, "017e8ba93c19"),
        (Response::Invalid { what: OutOfBounds::Shape }, "01fccc1751070a"),
        (Response::Invalid { what: OutOfBounds::Line }, "016afc1026070b"),
    ];
    for (response, bytes) in golden {
        assert_eq!(hex(&encode_response(&response, 2)), bytes, "{response:?}");
        assert_eq!(decode_response(&encode_response(&response, 2)).unwrap(), response);
    }
}

#[test]
#[should_panic(expected = "is answered in a cluster of level 1")]
fn nothing_of_level_two_is_answered_below_it() {
    encode_response(&Response::OtherShape, 1);
}

#[test]
fn what_level_three_brings_keeps_its_bytes() {
    let draw = Command::DrawRoot { root: RootKey([0xab; 32]) };
    let bytes = format!("014a40b97f0e{}", "ab".repeat(32));
    assert_eq!((hex(&encode_command(&draw)), draw.level()), (bytes, 3));
    assert_eq!(decode_command(&encode_command(&draw)).unwrap(), draw);
    assert_eq!(format!("{draw:?}"), "DrawRoot { root: RootKey }", "no key is shown");
    let refused = Response::NoRootKey;
    assert_eq!((&*hex(&encode_response(&refused, 3)), refused.level()), ("01c4daa0a51a", 3));
    assert_eq!(decode_response(&encode_response(&refused, 3)).unwrap(), refused);
}

#[test]
fn bounds_of_grabs_keep_their_bytes() {
    let fields = TagFields { step: Some(2), ..TagFields::default() };
    let create = Change::CreateBoundedTag {
        tag: tag("a"),
        step: 3,
        step_max: 4,
        start: 1,
        description: "b".to_owned(),
        protection: Protection::default(),
        shape: Box::default(),
    };
    check([
        (administer(create), "015023662d0a036f70730a0161030401016200000000000000"),
        (
            administer(Change::UpdateBoundedTag { tag: tag("a"), fields, step_max: Some(4) }),
            "018663565a0a036f70730b01610102000000000104",
        ),
    ]);
    let row = TagRow {
        tag: tag("a"),
        max_id: 2,
        step: 3,
        description: "b".to_owned(),
        created_at_ms: 4,
        updated_at_ms: 5,
        protection: Protection::default(),
        shape: None,
        step_max: None,
    };
    let steps = Steps { step: 3, step_max: Some(4) };
    let golden = [
        (
            Response::BoundedTag { row, shape: None, step_max: 4 },
            "018a3c62ac1b016102030162040500000004",
        ),
        (Response::BoundedSegment { start: 1, end: 5, steps }, "01a98481591c0105030104"),
        (Response::Invalid { what: OutOfBounds::StepMax }, "01c96974b8070c"),
    ];
    for (response, bytes) in golden {
        assert_eq!((&*hex(&encode_response(&response, 3)), response.level()), (bytes, 3));
        assert_eq!(decode_response(&encode_response(&response, 3)).unwrap(), response);
    }
}

#[test]
fn registers_keep_their_bytes() {
    let register =
        |line| Command::Register { tag: tag("a"), key: "k".into(), line, keys_max: 1_000_000 };
    let number = PeriodNumber(202_611);
    let period = Line::Period { number, start_ms: 1, end_ms: 2 };
    let register_shape = Shape { kind: Kind::Register, ..Shape::default() };
    let create = administer(Change::CreateShapedTag {
        tag: tag("a"),
        step: 1,
        start: 1,
        description: String::new(),
        protection: Protection::default(),
        shape: Box::new(register_shape),
    });
    check([
        (register(Line::Whole), "0152b17d15120161016b00fc40420f00"),
        (register(period), "01dc24cb42120161016b01fc731703000102fc40420f00"),
        (create.clone(), "01d1521f640a036f707309016101010000000200000000"),
    ]);
    assert_eq!((register(Line::Whole).level(), create.level()), (3, 3));
    let golden = [
        (Response::Registered { number: 7, period: None, is_new: true }, "010b9f318322070001"),
        (
            Response::Registered { number: 7, period: Some(number), is_new: false },
            "01c239571f220701fc7317030000",
        ),
        (Response::TooManyKeys, "01cc52a5fa23"),
        (Response::Invalid { what: OutOfBounds::Key }, "01863575ac0710"),
    ];
    for (response, bytes) in golden {
        assert_eq!((&*hex(&encode_response(&response, 3)), response.level()), (bytes, 3));
        assert_eq!(decode_response(&encode_response(&response, 3)).unwrap(), response);
    }
}

#[test]
fn a_record_of_a_later_format_is_named_as_such() {
    let later = codec::encode(FORMAT + 1, &Response::Deleted);
    assert!(matches!(decode_response(&later), Err(DecodeError::Format(2))));
    assert!(matches!(decode_response(&[]), Err(DecodeError::Codec(_))));
}

#[test]
fn a_tag_that_breaks_its_bounds_does_not_decode() {
    #[derive(Serialize)]
    enum Forged {
        CreateTag { tag: &'static str, step: u32, start: u64, description: &'static str },
    }
    let forge = |tag| Forged::CreateTag { tag, step: 1, start: 1, description: "" };
    assert!(decode_command(&codec::encode(FORMAT, &forge("a"))).is_ok());
    assert!(decode_command(&codec::encode(FORMAT, &forge("a\n"))).is_err());
}
