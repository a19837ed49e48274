use super::*;

const LIST: &str = "1=a:1,2=b:2";

fn bond(cluster: u128, store: u128) -> Bond {
    Bond { cluster, coordinator: 1, store, founders: LIST.to_owned() }
}

fn offer(bond: Bond) -> Offer {
    Offer { bond, ticket: 5 }
}

fn standing(bond: Option<Bond>) -> Standing {
    Standing { cluster: None, bond, ticket: 5 }
}

/// Node 2 judges.
fn judge(standing: &Standing, offer: &Offer) -> Result<Accepted, Refusal> {
    standing.judge(2, LIST, offer)
}

#[test]
fn a_new_founder_is_bound_and_says_so_again_when_it_is_asked_again() {
    let offered = offer(bond(7, 10));
    assert_eq!(judge(&standing(None), &offered), Ok(Accepted::Now));
    let bound = Standing { ticket: 6, ..standing(Some(bond(7, 10))) };
    assert_eq!(judge(&bound, &offered), Ok(Accepted::Already));
}

#[test]
fn a_bound_founder_refuses_every_other_offer_and_names_whom_it_waits_for() {
    let bound = standing(Some(bond(7, 10)));
    for other in [bond(8, 10), bond(8, 11), bond(7, 11)] {
        let refused = judge(&bound, &offer(other)).unwrap_err();
        assert_eq!(refused, Refusal::Bound { cluster: 7, coordinator: 1, store: 10 });
        assert!(!refused.is_fatal());
        let text = refused.to_string();
        assert!(text.contains("which node 1 (store") && text.contains("may be deleted"), "{text}");
    }
}

#[test]
fn a_founder_of_another_list_is_refused_and_told_both() {
    let theirs = Bond { founders: "1=a:9,2=b:2".to_owned(), ..bond(7, 10) };
    let refused = judge(&standing(None), &offer(theirs)).unwrap_err().to_string();
    assert!(refused.contains("1=a:1,2=b:2") && refused.contains("1=a:9,2=b:2"), "{refused}");
}

#[test]
fn an_offer_that_comes_late_or_from_a_namesake_or_to_a_member_is_refused() {
    let late = Offer { ticket: 4, ..offer(bond(7, 10)) };
    assert!(judge(&standing(None), &late).is_err());
    assert!(standing(None).judge(1, LIST, &offer(bond(7, 10))).is_err(), "two nodes 1");
    let member = Standing { cluster: Some(3), ..standing(None) };
    assert_eq!(judge(&member, &offer(bond(7, 10))), Err(Refusal::WrongCluster { ours: 3 }));
}

#[test]
fn only_the_store_that_drew_an_id_gives_it_up() {
    let bound = bond(7, 10);
    assert!(bound.ends_with(7, 10));
    assert!(!bound.ends_with(8, 10) && !bound.ends_with(7, 11));
    assert!(bound.is_given_up(10, &standing(None)));
    assert!(bound.is_given_up(10, &standing(Some(bond(8, 10)))));
    assert!(!bound.is_given_up(11, &standing(None)), "somebody else does not know");
    assert!(!bound.is_given_up(10, &standing(Some(bond(7, 10)))));
    let formed = Standing { cluster: Some(7), ..standing(None) };
    assert!(!bound.is_given_up(10, &formed));
}

fn planned(own: Option<&Bond>, answers: &[Answer]) -> Plan {
    plan(10, own, LIST, (2..).zip(answers))
}

#[test]
fn an_id_is_drawn_only_when_all_others_are_new_and_free() {
    let (free, bound) =
        (Answer::Stands(standing(None)), Answer::Stands(standing(Some(bond(8, 11)))));
    assert_eq!(planned(None, &[]), Plan::Draw, "alone");
    assert_eq!(planned(None, &[free.clone(), free.clone()]), Plan::Draw);
    let formed = Answer::Stands(Standing { cluster: Some(3), ..standing(None) });
    for other in [bound, formed, Answer::Silent("down".into()), Answer::Refused("no".into())] {
        assert!(
            matches!(planned(None, &[free.clone(), other]), Plan::Wait(why) if why.starts_with("node 3"))
        );
    }
}

#[test]
fn an_id_is_given_up_when_somebody_will_not_be_bound_to_it() {
    let own = bond(7, 10);
    let (free, ours) =
        (Answer::Stands(standing(None)), Answer::Stands(standing(Some(own.clone()))));
    assert_eq!(planned(Some(&own), &[free.clone(), ours.clone()]), Plan::Offer);
    let others = Answer::Stands(standing(Some(bond(8, 11))));
    let formed = Answer::Stands(Standing { cluster: Some(3), ..standing(None) });
    for other in [others, formed, Answer::Refused("no".into())] {
        assert!(matches!(planned(Some(&own), &[ours.clone(), other]), Plan::GiveUp(_)));
    }
    let silent = Answer::Silent("down".into());
    assert!(matches!(planned(Some(&own), &[ours.clone(), silent]), Plan::Wait(_)));
    let earlier = Answer::Stands(standing(Some(bond(6, 10))));
    assert!(matches!(planned(Some(&own), &[earlier]), Plan::Wait(_)), "it is to be told first");
    let listed = Bond { founders: "1=a:1,2=b:2,3=c:3".to_owned(), ..own };
    assert!(matches!(planned(Some(&listed), &[ours]), Plan::GiveUp(_)));
    assert!(matches!(planned(Some(&bond(8, 11)), &[free]), Plan::Wait(_)), "not its to give up");
}

// A change here is a change of the format on disk.
#[test]
fn the_bytes_on_disk_are_as_they_were() {
    let bytes = Bond::encode(Some(&bond(300, 10)));
    assert_eq!(Bond::decode(&bytes).unwrap(), Some(bond(300, 10)));
    let list = LIST.as_bytes();
    assert_eq!(bytes[5..], [&[1, 251, 44, 1, 1, 10, 11][..], list].concat());
    assert_eq!(Bond::encode(None)[5..], [0]);
    assert_eq!(Bond::decode(&Bond::encode(None)).unwrap(), None);
}
