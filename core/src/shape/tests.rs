//! Which shapes there are.

use super::*;
use crate::limits::ID_END;

fn period(time_zone: &str) -> Option<Period> {
    Some(Period { length: PeriodLength::Day, time_zone: time_zone.into() })
}

fn format(text: &str) -> Option<TextFormat> {
    Some(TextFormat::parse(text).unwrap())
}

fn hidden(digits: u8) -> Option<Hidden> {
    Some(Hidden { digits, key: HiddenKey([7; 32]) })
}

/// Every combination of the fields.
fn all() -> Vec<Shape> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        for order in [Order::Trend, Order::Strict] {
            for period in [None, period("UTC")] {
                for format in [None, format("INV-{id}")] {
                    for hidden in [None, hidden(12)] {
                        let (period, format) = (period.clone(), format.clone());
                        all.push(Shape { kind, order, period, format, hidden });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn what_makes_sense_together_is_a_shape_and_all_else_names_both_fields() {
    for mut shape in all() {
        if shape.period.is_some() && shape.format.is_some() {
            shape.format = format("{period}-{id}");
        }
        let shape = shape.completed();
        let is_sequence = shape.kind == Kind::Sequence;
        let (has_period, is_hidden) = (shape.period.is_some(), shape.hidden.is_some());
        let is_more =
            shape.order == Order::Strict || shape.format.is_some() || has_period || is_hidden;
        let is_register = shape.kind == Kind::Register;
        let is_refused = is_sequence && is_more
            || has_period && is_hidden
            || is_register && (is_hidden || shape.order == Order::Strict);
        assert_eq!(shape.check().is_err(), is_refused, "{shape:?}");
        if let Err(error) = shape.check() {
            let told = error.to_string();
            let named = ["kind", "order", "period", "format", "digits"];
            let named = named.iter().filter(|field| told.contains(&format!("{field} "))).count();
            assert!(named >= 2, "{told}");
        }
    }
}

#[test]
fn bounds_are_held() {
    for digits in [0, 5, 19, 255] {
        let shape = Shape { hidden: hidden(digits), ..Shape::default() };
        assert_eq!(shape.check(), Err(ShapeError::Digits));
    }
    for zone in ["", "Asia/Shang hai", &"x".repeat(65), "é"] {
        let shape = Shape { period: period(zone), ..Shape::default() }.completed();
        assert_eq!(shape.check(), Err(ShapeError::TimeZone), "{zone}");
    }
    let unshown = Shape { period: period("UTC"), format: format("{id}"), ..Shape::default() };
    assert_eq!(unshown.check(), Err(ShapeError::PeriodNotShown));
    let without = Shape { format: format("{period}{id}"), ..Shape::default() };
    assert_eq!(without.check(), Err(ShapeError::NoPeriod));
}

#[test]
fn a_hidden_line_has_as_many_numbers_as_there_are_ids() {
    let end = |digits| Shape { hidden: hidden(digits), ..Shape::default() }.line_end();
    assert_eq!((end(6), end(12), end(18)), (900_001, 900_000_000_001, 900_000_000_000_000_001));
    assert_eq!(Shape::default().line_end(), ID_END);
}

#[test]
fn shapes_are_alike_whatever_their_keys_are() {
    let other_key = Some(Hidden { digits: 12, key: HiddenKey([8; 32]) });
    let one = Shape { hidden: hidden(12), ..Shape::default() };
    assert!(one.is_like(&Shape { hidden: other_key, ..Shape::default() }));
    let all = all();
    for (at, one) in all.iter().enumerate() {
        for (other_at, other) in all.iter().enumerate() {
            assert_eq!(one.is_like(other), at == other_at, "{one:?} {other:?}");
        }
    }
    let zone = |zone| Shape { period: period(zone), ..Shape::default() };
    assert_eq!(zone("UTC").differs_from(&zone("Asia/Kolkata")), Some("time_zone"));
}

#[test]
fn a_key_is_not_shown() {
    let shown = format!("{:?}", Shape { hidden: hidden(12), ..Shape::default() });
    assert!(shown.contains("key: HiddenKey }"), "{shown}");
    assert!(!shown.contains('7'), "{shown}");
    let words = Shape { order: Order::Strict, hidden: hidden(12), ..Shape::default() };
    assert_eq!(words.to_string(), "strict, 12 digits");
    assert_eq!(Shape::default().to_string(), "");
}

#[test]
fn formats_are_read_piece_by_piece() {
    let pieces =
        |text: &str| format(text).unwrap().pieces().map(|p| format!("{p:?}")).collect::<Vec<_>>();
    assert_eq!(
        pieces("INV-{period}-{id:06}订"),
        [
            "Text(\"INV-\")",
            "Period",
            "Text(\"-\")",
            "Id(Decimal { digits_min: 6 })",
            "Text(\"订\")"
        ]
    );
    assert_eq!(pieces("{id}"), ["Id(Decimal { digits_min: 0 })"]);
    assert_eq!(pieces("{id:020}"), ["Id(Decimal { digits_min: 20 })"]);
    assert_eq!(pieces("{id:base36}"), ["Id(Base36)"]);
    assert_eq!(pieces("{id:base62}"), ["Id(Base62)"]);
}

#[test]
fn texts_that_are_no_formats_are_refused() {
    let refused = [
        ("", FormatError::Id),
        ("INV", FormatError::Id),
        ("{id}{id:06}", FormatError::Id),
        ("{period}{period}{id}", FormatError::Period),
        ("{id", FormatError::Brace),
        ("id}{id}", FormatError::Brace),
        ("{{id}}", FormatError::Brace),
        ("{ID}", FormatError::Brace),
        ("{id:6}", FormatError::Brace),
        ("{id:0}", FormatError::Brace),
        ("{id:00}", FormatError::Brace),
        ("{id:0+6}", FormatError::Brace),
        ("{id:021}", FormatError::Brace),
        ("{id:base64}", FormatError::Brace),
        ("{day}{id}", FormatError::Brace),
        ("a\n{id}", FormatError::ControlCharacter),
    ];
    for (text, error) in refused {
        assert_eq!(TextFormat::parse(text), Err(error), "{text:?}");
    }
    assert_eq!(TextFormat::parse(&format!("{}{{id}}", "x".repeat(125))), Err(FormatError::TooLong));
    assert!(TextFormat::parse(&format!("{}{{id}}", "x".repeat(124))).is_ok());
}

#[test]
fn numbers_of_periods_are_dates() {
    use PeriodLength::{Day, Month, Year};
    let has = |length: PeriodLength, number| length.has_number(PeriodNumber(number));
    assert!(has(Day, 20_261_121) && has(Month, 202_611) && has(Year, 2026));
    for (length, number) in
        [(Day, 202_611), (Month, 20_261_121), (Year, 202_611), (Day, 20_261_321)]
    {
        assert!(!has(length, number), "{length:?} {number}");
    }
    assert!(!has(Day, 20_261_100) && !has(Month, 202_600) && !has(Year, 0) && !has(Year, 10_000));
}

/// The places of kinds in `Kind::ALL`, which no compiler checks: a kind that is added does not compile here before it has
/// one.
#[test]
fn all_kinds_are_listed_once_and_by_their_names() {
    let place = |kind| match kind {
        Kind::Segment => 0,
        Kind::Sequence => 1,
        Kind::Register => 2,
    };
    assert!(Kind::ALL.into_iter().map(place).eq(0..=place(Kind::Register)));
    let names: std::collections::BTreeSet<_> = Kind::ALL.map(Kind::name).into();
    assert_eq!(names.len(), Kind::ALL.len());
}

/// A mark of an administrator reaches the ids that a node holds of a plain tag, and what the leader holds or the log
/// gives; not what nodes hold of a shaped one (`Source::raised_slot`).
#[test]
fn a_shaped_tag_whose_ids_nodes_hold_takes_no_mark() {
    for shape in all().into_iter().filter(|shape| shape.check().is_ok() && !shape.is_plain()) {
        assert!(shape.giver() != Giver::AnyNode || !shape.takes_max_id(), "{shape:?}");
    }
}
