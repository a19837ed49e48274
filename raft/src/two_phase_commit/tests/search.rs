//! The searches of the model, of the right design and of the wrong ones.

use stateright::{Checker, HasDiscoveries, Model};

use super::model::{Bootstrap, Design};

const SAFE: [&str; 2] = ["one cluster", "every named founder is prepared"];

/// Searches all behaviours of up to `steps` steps, shortest first. Returns the length of the first one that breaks a
/// property, if any, and the number of states.
fn search(bootstrap: Bootstrap, steps: usize) -> (Option<usize>, usize) {
    let checker = bootstrap
        .clone()
        .checker()
        // The state before the first step has depth one, and the checker omits the states at the limit.
        .target_max_depth(steps + 2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let committed = checker.discovery("a cluster is committed").is_some();
    let broken = SAFE.into_iter().filter_map(|name| Some((name, checker.discovery(name)?)));
    let broken = broken.map(|(name, path)| (name, path.into_actions()));
    let broken = broken.min_by_key(|(_, steps)| steps.len());
    println!("{bootstrap:?}, {} states: {broken:?}", checker.unique_state_count());
    assert!(committed || broken.is_some(), "nothing was ever committed");
    (broken.map(|(_, steps)| steps.len()), checker.unique_state_count())
}

/// The length of the shortest behaviour that shows a wrong design breaking a property.
fn breaks(design: Design, draws_max: u128, crashes_max: u8) -> Option<usize> {
    search(Bootstrap { design, draws_max, crashes_max, doubled: false }, 10).0
}

/// Searches with everything that may happen to a process and to a message. An optimised build searches as deep as the
/// longest behaviour that is known to create two clusters with a wrong design.
#[test]
fn two_nodes_that_were_started_as_one_never_create_two_clusters() {
    let design = Design::PreparedBeforeMembership;
    let (steps, states_min) = if cfg!(debug_assertions) { (8, 20_000) } else { (12, 1_000_000) };
    let bootstrap = Bootstrap { design, draws_max: 2, crashes_max: 1, doubled: true };
    let (broken, states) = search(bootstrap, steps);
    assert_eq!(broken, None);
    assert!(states > states_min, "only {states} states were seen");
}

/// Searches without crashes and with one id for each coordinator, which reaches deeper in the same time.
#[test]
fn two_coordinators_in_each_others_way_never_create_two_clusters() {
    let design = Design::PreparedBeforeMembership;
    let steps = if cfg!(debug_assertions) { 10 } else { 16 };
    let bootstrap = Bootstrap { design, draws_max: 1, crashes_max: 0, doubled: true };
    assert_eq!(search(bootstrap, steps).0, None);
}

#[test]
fn committing_after_the_handshakes_is_found_to_create_two_clusters() {
    assert!(breaks(Design::OneStep, 1, 0).is_some());
}

#[test]
fn committing_with_a_majority_is_found_to_name_a_founder_that_is_not_prepared() {
    assert!(breaks(Design::MajorityIsEnough, 1, 0).is_some());
}

#[test]
fn preparing_a_prepared_founder_anew_is_found_to_share_it_between_two_clusters() {
    assert!(breaks(Design::PreparedAgain, 1, 0).is_some());
}

#[test]
fn accepting_before_the_record_is_on_disk_is_found_to_prepare_it_for_two() {
    assert!(breaks(Design::PreparedInMemory, 1, 1).is_some());
}

#[test]
fn aborting_in_memory_only_is_found_to_free_a_founder_that_is_prepared_again() {
    assert!(breaks(Design::AbortedInMemory, 1, 1).is_some());
}

#[test]
fn being_freed_by_an_answer_from_before_the_record_is_found_to_end_it_too_early() {
    assert!(breaks(Design::FreedByAnOldAnswer, 1, 0).is_some());
}
