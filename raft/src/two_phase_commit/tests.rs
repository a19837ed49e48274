mod model;
mod search;

use super::*;

const LIST: &str = "1=a:1,2=b:2";

fn prepared(cluster: u128, store: u128) -> Prepared {
    Prepared { cluster, coordinator: 1, store, founders: LIST.to_owned() }
}

fn prepare(prepared: Prepared) -> Prepare {
    Prepare { prepared, ticket: 5 }
}

fn participant(prepared: Option<Prepared>) -> Participant {
    Participant { cluster: None, prepared, ticket: 5 }
}

/// Node 2 judges.
fn judge(participant: &Participant, request: &Prepare) -> Result<Accepted, Refusal> {
    participant.judge(2, LIST, request)
}

#[test]
fn a_new_founder_accepts_and_accepts_again_when_it_is_asked_again() {
    let offered = prepare(prepared(7, 10));
    assert_eq!(judge(&participant(None), &offered), Ok(Accepted::Now));
    let own = Participant { ticket: 6, ..participant(Some(prepared(7, 10))) };
    assert_eq!(judge(&own, &offered), Ok(Accepted::Already));
}

#[test]
fn a_prepared_founder_refuses_every_other_request_and_names_its_coordinator() {
    let own = participant(Some(prepared(7, 10)));
    for other in [prepared(8, 10), prepared(8, 11), prepared(7, 11)] {
        let refused = judge(&own, &prepare(other)).unwrap_err();
        assert_eq!(refused, Refusal::Prepared { cluster: 7, coordinator: 1, store: 10 });
        assert!(!refused.is_fatal());
        let text = refused.to_string();
        assert!(text.contains("which node 1 (store") && text.contains("may be deleted"), "{text}");
    }
}

#[test]
fn a_founder_of_another_list_is_refused_and_told_both() {
    let theirs = Prepared { founders: "1=a:9,2=b:2".to_owned(), ..prepared(7, 10) };
    let refused = judge(&participant(None), &prepare(theirs)).unwrap_err().to_string();
    assert!(refused.contains("1=a:1,2=b:2") && refused.contains("1=a:9,2=b:2"), "{refused}");
}

#[test]
fn a_late_request_and_one_from_a_namesake_or_to_a_member_are_refused() {
    let late = Prepare { ticket: 4, ..prepare(prepared(7, 10)) };
    assert!(judge(&participant(None), &late).is_err());
    assert!(participant(None).judge(1, LIST, &prepare(prepared(7, 10))).is_err(), "two nodes 1");
    let member = Participant { cluster: Some(3), ..participant(None) };
    assert_eq!(judge(&member, &prepare(prepared(7, 10))), Err(Refusal::WrongCluster { ours: 3 }));
}

#[test]
fn only_the_store_that_drew_an_id_aborts_it() {
    let own = prepared(7, 10);
    assert!(own.may_be_aborted(7, 10));
    assert!(!own.may_be_aborted(8, 10) && !own.may_be_aborted(7, 11));
    assert!(own.is_aborted(10, &participant(None)));
    assert!(own.is_aborted(10, &participant(Some(prepared(8, 10)))));
    assert!(!own.is_aborted(11, &participant(None)), "somebody else does not know");
    assert!(!own.is_aborted(10, &participant(Some(prepared(7, 10)))));
    let formed = Participant { cluster: Some(7), ..participant(None) };
    assert!(!own.is_aborted(10, &formed));
}

fn planned(own: Option<&Prepared>, answers: &[FounderAnswer]) -> Decision {
    decide(10, own, LIST, (2..).zip(answers))
}

#[test]
fn an_id_is_drawn_only_when_all_others_are_new_and_free() {
    let (free, taken) = (
        FounderAnswer::Participant(participant(None)),
        FounderAnswer::Participant(participant(Some(prepared(8, 11)))),
    );
    assert_eq!(planned(None, &[]), Decision::Draw, "alone");
    assert_eq!(planned(None, &[free.clone(), free.clone()]), Decision::Draw);
    let formed = FounderAnswer::Participant(Participant { cluster: Some(3), ..participant(None) });
    for other in
        [taken, formed, FounderAnswer::Silent("down".into()), FounderAnswer::Refused("no".into())]
    {
        assert!(
            matches!(planned(None, &[free.clone(), other]), Decision::Wait(why) if why.starts_with("node 3"))
        );
    }
}

#[test]
fn an_id_is_aborted_when_a_founder_will_not_prepare() {
    let own = prepared(7, 10);
    let (free, ours) = (
        FounderAnswer::Participant(participant(None)),
        FounderAnswer::Participant(participant(Some(own.clone()))),
    );
    assert_eq!(planned(Some(&own), &[free.clone(), ours.clone()]), Decision::Prepare);
    let others = FounderAnswer::Participant(participant(Some(prepared(8, 11))));
    let formed = FounderAnswer::Participant(Participant { cluster: Some(3), ..participant(None) });
    for other in [others, formed, FounderAnswer::Refused("no".into())] {
        assert!(matches!(planned(Some(&own), &[ours.clone(), other]), Decision::Abort(_)));
    }
    let silent = FounderAnswer::Silent("down".into());
    assert!(matches!(planned(Some(&own), &[ours.clone(), silent]), Decision::Wait(_)));
    let earlier = FounderAnswer::Participant(participant(Some(prepared(6, 10))));
    assert!(matches!(planned(Some(&own), &[earlier]), Decision::Wait(_)), "it is to be told first");
    let listed = Prepared { founders: "1=a:1,2=b:2,3=c:3".to_owned(), ..own };
    assert!(matches!(planned(Some(&listed), &[ours]), Decision::Abort(_)));
    assert!(
        matches!(planned(Some(&prepared(8, 11)), &[free]), Decision::Wait(_)),
        "not its to give up"
    );
}
