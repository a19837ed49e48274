//! The table of what can happen, in `docs/operating.md`: each row is tried by tests.

use super::names::rows;
use super::none;
use super::sources::sources;

/// What happens, as the first cell of a row says, and the tests that make it happen.
const TRIED_BY: [(&str, &[&str]); 16] = [
    (
        "one node of three ends or is cut off",
        &[
            "every_node_knows_within_two_seconds_who_can_be_reached",
            "follower_death_fails_no_request_of_the_others",
        ],
    ),
    ("the leader ends without a drain", &["leader_death_is_not_noticed_by_clients_of_the_others"]),
    (
        "the leader is asked to stop",
        &[
            "a_leader_hands_over_at_once_and_no_election_follows",
            "nodes_that_are_rolled_behind_a_load_balancer_fail_nobody",
        ],
    ),
    (
        "two nodes of three end",
        &[
            "a_leader_that_is_the_last_of_three_says_who_is_missing_and_what_to_do",
            "a_follower_that_is_the_last_of_three_says_who_is_missing_and_what_to_do",
            "without_a_quorum_a_node_gives_what_it_holds_then_says_no_and_returns_by_itself",
            "one_directory_of_three_is_enough_to_go_on_within_half_a_minute",
        ],
    ),
    ("all nodes end", &["death_of_all_loses_no_tag_and_repeats_no_id"]),
    (
        "a disk is full, or fails",
        &["a_node_whose_disk_is_full_ends_with_1_and_comes_back_once_there_is_room"],
    ),
    (
        "a data directory is damaged, lost or an old copy",
        &[
            "a_damaged_directory_needs_an_operator",
            "wiped_node_is_refused_and_comes_back_by_remove_and_join",
            "node_restored_from_an_older_copy_is_refused",
        ],
    ),
    (
        "a clock is wrong",
        &[
            "a_node_an_hour_off_is_out_of_rotation_until_its_clock_is_right",
            "a_clock_set_before_1970_stops_a_nodes_snowflakes_and_neither_its_tags_nor_the_node",
        ],
    ),
    (
        "a clock went back",
        &["nodes_that_gave_ids_from_the_future_say_so_and_start_anew_with_right_times"],
    ),
    ("the secret leaked", &["a_secret_is_replaced_under_load_without_a_failed_request"]),
    (
        "a certificate expires",
        &[
            "an_expired_certificate_is_taken_by_the_node_and_refused_by_the_command_line",
            "certificates_are_replaced_on_three_nodes_under_load_and_no_request_fails",
            "a_ca_is_replaced_under_load_without_a_failed_request",
        ],
    ),
    (
        "a node is started with another's directory or id",
        &["another_nodes_directory_is_refused_with_its_owners_name_and_left_as_it_is"],
    ),
    (
        "a node is started on a copy of a directory",
        &["a_copied_directory_is_refused_until_it_is_said_to_be_the_only_one"],
    ),
    (
        "a release is too old for the log",
        &["two_releases_are_one_cluster_and_roll_both_ways_until_the_level_is_raised"],
    ),
    (
        "clients take all connections",
        &[
            "idle_connections_make_room_and_active_ones_never_do",
            "an_address_that_holds_half_of_the_places_leaves_the_others_alone",
        ],
    ),
    ("a tag has no ids left", &["the_last_ids_are_handed_out_and_then_the_tag_is_exhausted"]),
];

#[test]
fn each_row_of_what_can_happen_is_tried_and_its_signs_are_looked_at() {
    let sources = sources(&["tests/it"]);
    let rows = failure_rows();
    let happens: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(happens, TRIED_BY.map(|(happens, _)| happens));
    let mut complaints = Vec::new();
    for (row, (happens, tests)) in rows.iter().zip(TRIED_BY) {
        let mut texts = String::new();
        for test in tests {
            match sources.iter().find(|source| source.tests.iter().any(|it| it == test)) {
                Some(source) => texts += &source.with_parent(&sources),
                None => complaints.push(format!("{happens}: there is no test {test}")),
            }
        }
        let unseen = signs(&row[1]).into_iter().filter(|sign| !texts.contains(*sign));
        complaints.extend(unseen.map(|sign| format!("{happens}: no test looks at {sign}")));
    }
    none(&complaints);
}

/// The rows below the heading of the table, cell by cell.
fn failure_rows() -> Vec<Vec<String>> {
    let rows = rows("docs/operating.md").into_iter();
    let rows = rows.skip_while(|row| row[0] != "what happens").skip(2);
    rows.take_while(|row| row.len() == 3).collect()
}

/// The words of what a cell shows as code, but for short ones.
fn signs(cell: &str) -> Vec<&str> {
    let shown = cell.split('`').skip(1).step_by(2);
    let words = shown.flat_map(|code| code.split(|c: char| !(c.is_ascii_lowercase() || c == '_')));
    words.filter(|word| word.len() > 5).collect()
}
