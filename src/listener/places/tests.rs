//! Places, and which connection makes room.

use super::*;

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

/// A connection that has sent something since the last look.
fn active(places: &mut ConnectionLimits, address: IpAddr, now: Instant) -> ConnectionPermit {
    let Claim::Granted(place) = places.claim(address, now) else { panic!("there is a place") };
    place.progress.received(1);
    place
}

fn is_granted(places: &mut ConnectionLimits, address: IpAddr, now: Instant) -> bool {
    matches!(places.claim(address, now), Claim::Granted(..))
}

#[test]
fn one_address_gets_half_and_leaves_the_rest_to_others() {
    let (mut places, now) = (ConnectionLimits::new(8, false), Instant::now());
    let mut held: Vec<ConnectionPermit> = (0..4).map(|_| active(&mut places, A, now)).collect();
    assert!(!is_granted(&mut places, A, now), "nobody is idle");
    held.push(active(&mut places, B, now));
    held.remove(0);
    held.push(active(&mut places, A, now));
    assert_eq!(held.len(), 5);
}

#[test]
fn the_connection_that_was_idle_for_longest_makes_room() {
    let (mut places, now) = (ConnectionLimits::new(6, false), Instant::now());
    let held: Vec<ConnectionPermit> = (0..3).map(|_| active(&mut places, A, now)).collect();
    for (place, looks) in held.iter().zip([2, 7, 1]) {
        place.progress.note_look(looks);
    }
    let Claim::Granted(newcomer) = places.claim(A, now) else { panic!("one makes room") };
    assert_eq!(places.leaving[0].id, held[1].id);
    newcomer.progress.received(1);
    // The next one is asked. The one after that keeps its place: it has not been idle for long enough.
    let Claim::Granted(_another) = places.claim(A, now) else { panic!("one makes room") };
    assert_eq!(places.leaving[1].id, held[0].id);
    assert!(!is_granted(&mut places, A, now));
}

#[test]
fn who_never_sent_anything_makes_room_after_a_second() {
    let (mut places, now) = (ConnectionLimits::new(2, false), Instant::now());
    let Claim::Granted(silent) = places.claim(A, now) else { panic!("all is free") };
    assert!(!is_granted(&mut places, A, now + Duration::from_millis(800)));
    assert!(is_granted(&mut places, A, now + Duration::from_millis(1_001)));
    drop(silent);
}

#[test]
fn who_has_shown_no_token_makes_room_at_once_whatever_it_sends() {
    let (mut places, now) = (ConnectionLimits::new(4, true), Instant::now());
    let held: Vec<ConnectionPermit> = (0..2).map(|_| active(&mut places, A, now)).collect();
    let asks = |place: &ConnectionPermit| {
        place.progress.received(9);
        place.progress.request_begun();
    };
    held.iter().for_each(asks);
    held[0].progress.prove();
    let Claim::Granted(newcomer) = places.claim(A, now) else { panic!("one makes room") };
    assert_eq!(places.leaving[0].id, held[1].id);
    newcomer.progress.prove();
    asks(&held[1]);
    let Claim::Refused = places.claim(A, now) else { panic!("all others have shown a token") };
    assert_eq!(places.leaving.len(), 1, "it leaves, although it has asked again");
}

#[test]
fn a_newcomer_waits_for_those_who_leave_where_it_may_have_a_token() {
    for asks_for_tokens in [false, true] {
        let (mut places, now) = (ConnectionLimits::new(200, asks_for_tokens), Instant::now());
        let mut held: Vec<ConnectionPermit> =
            (0..100).map(|_| active(&mut places, A, now)).collect();
        held.iter().for_each(|place| place.progress.note_look(2));
        held.extend((0..LEAVING_MAX).map(|_| active(&mut places, A, now)));
        match places.claim(A, now) {
            Claim::Awaited if asks_for_tokens => {}
            Claim::Refused if !asks_for_tokens => {}
            other => panic!("{other:?}"),
        }
        drop(held.swap_remove(0));
        assert!(is_granted(&mut places, A, now), "one has left");
    }
}

#[test]
fn those_who_show_a_token_before_they_hear_keep_their_places_and_are_bounded() {
    let (mut places, now) = (ConnectionLimits::new(4, true), Instant::now());
    let mut held = Vec::new();
    for number in 0.. {
        match places.claim(IpAddr::from([10, 0, 1, number]), now) {
            Claim::Granted(place) => held.push(place),
            Claim::Refused => break,
            Claim::Awaited => panic!("none leaves"),
        }
        held.iter().for_each(|place| place.progress.prove());
    }
    assert_eq!(held.len(), 4, "a caller with a token is not asked to leave");
    let (mut places, mut held) = (ConnectionLimits::new(4, true), Vec::new());
    loop {
        let asked = places.claim(IpAddr::from([10, 0, held.len() as u8, 1]), now);
        let Claim::Granted(place) = asked else { break };
        held.push(place);
        places.leaving.iter().for_each(|leaver| leaver.progress.prove());
    }
    assert_eq!(held.len(), 4 + LEAVING_MAX, "as many files were set aside");
}

#[test]
fn when_all_is_taken_the_largest_holder_makes_room() {
    let (mut places, now) = (ConnectionLimits::new(5, false), Instant::now());
    let mut held: Vec<ConnectionPermit> = (0..3).map(|_| active(&mut places, A, now)).collect();
    held.extend((0..2).map(|_| active(&mut places, B, now)));
    held.iter().for_each(|place| place.progress.note_look(3));
    assert!(is_granted(&mut places, C, now));
    assert!(places.leaving[0].id.0 == ClientSubnet::from(A));
}

#[test]
fn who_asks_again_before_it_hears_keeps_its_place_and_is_counted_again() {
    let (mut places, now) = (ConnectionLimits::new(2, false), Instant::now());
    let place = active(&mut places, A, now);
    place.progress.note_look(2);
    let Claim::Granted(newcomer) = places.claim(A, now) else { panic!("one makes room") };
    newcomer.progress.received(1);
    place.progress.received(1);
    assert!(!is_granted(&mut places, A, now));
    assert!(places.leaving.is_empty());
}

#[test]
fn an_address_without_a_connection_is_forgotten() {
    let (mut places, now) = (ConnectionLimits::new(100, false), Instant::now());
    for last in 0..200 {
        drop(active(&mut places, IpAddr::from([10, 0, 1, last]), now));
    }
    assert_eq!((places.taken, places.by_origin.len()), (1, 1), "all but the last were heard");
}
