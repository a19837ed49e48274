//! How far the ids of a buffer reach.

use super::*;

/// A buffer that has installed these segments at 5,000 ms.
fn holding_since_5_s(segments: &[(u64, u64)]) -> SegmentBuffer {
    let mut buffer = SegmentBuffer::new(Steps::from(100));
    for &(start, end) in segments {
        buffer.begin_grab(5_000, Steps::from(100), 0);
        buffer.install(Segment { start, end }, Steps::from(100), 5_000);
    }
    buffer
}

#[test]
fn a_new_buffer_holds_nothing_and_its_grab_is_due() {
    let outlook = holding_since_5_s(&[]).outlook(9);
    assert_eq!((&outlook.current, &outlook.next), (&None, &None));
    assert_eq!((outlook.remaining, outlook.ids_to_grab, outlook.lasts_s()), (0, 0, None));
}

#[test]
fn the_next_grab_comes_when_it_is_asked_for() {
    for segments in [&[(1, 101)][..], &[(1, 101), (201, 401)], &[(1, 4), (9, 10), (11, 98)]] {
        let mut buffer = holding_since_5_s(segments);
        let mut expected = buffer.outlook(5_000).ids_to_grab;
        while !buffer.wants_grab() {
            assert_eq!(buffer.outlook(5_000).ids_to_grab, expected, "{segments:?}");
            buffer.take_one(|| 5_000).unwrap();
            expected -= 1;
        }
        assert_eq!(expected, 0, "{segments:?}");
        buffer.begin_grab(5_000, Steps::from(100), 0);
        assert_eq!(buffer.outlook(5_000).ids_to_grab, 0);
    }
}

#[test]
fn ids_last_as_long_as_the_rate_of_the_current_segment_says() {
    let mut buffer = holding_since_5_s(&[(1, 101), (201, 401)]);
    buffer.take(50, || 5_000).unwrap();
    let outlook = buffer.outlook(15_000);
    assert_eq!((&outlook.current, &outlook.next), (&Some(1..101), &Some(201..401)));
    assert_eq!((outlook.cursor, outlook.remaining, outlook.used), (51, 250, 50));
    assert_eq!((outlook.rate(), outlook.lasts_s()), (5.0, Some(50.0)));
    assert_eq!(buffer.outlook(5_001).rate(), 50.0, "over a second at least");
}
