//! `mintleaf cluster status`: what every member says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};

use super::client::Client;
use super::failure::Failure;
use super::output::{cell, print, print_json, print_styled};
use super::style::{BAD, DOUBTFUL, GOOD};
use super::table::{TextTable, shown};
use crate::text::fingerprints::brief;

/// The state of a member that neither answers nor is reached by its peer.
const UNREACHABLE: &str = "unreachable";
/// The longest wait for one member: a node answers these questions from memory.
const MEMBER_MAX: Duration = Duration::from_secs(2);

/// What a member's view says of that member alone.
const OF_VIEW: [&str; 5] = ["term", "leader_id", "keys", "auth_file", "failed_reloads"];

/// Asks the first node that answers for the members, and then each of these, and shows what they say.
///
/// # Errors
/// When no node answers.
pub(super) async fn run(client: &Client) -> Result<(), Failure> {
    let cluster = asked(client).await?;
    if client.json { print_json(&cluster) } else { print_styled(&text(&cluster)) }
}

/// Whether all is well, as an exit code: 1 if the cluster is degraded, 2 if it has no quorum, 3 if no node says.
///
/// # Errors
/// When it is not, with the reasons in one line.
pub(super) async fn check(client: &Client) -> Result<(), Failure> {
    let cluster = asked(client).await.map_err(|failure| {
        Failure::new(format!("no node says how the cluster is: {}", failure.detail)).exiting(3)
    })?;
    if client.json {
        print_json(&cluster)?;
    }
    match verdict(&cluster) {
        Ok(_) if client.json => Ok(()),
        Ok(well) => print(&format!("{well}\n")),
        Err(failure) => Err(failure),
    }
}

/// What all members say of themselves.
async fn asked(client: &Client) -> Result<Value, Failure> {
    let mut cluster = client.get("/v1/cluster").await?;
    if cluster["cluster_id"].is_null() {
        let (_, own) = client.readiness().await?;
        cluster["reasons"] = own["reasons"].clone();
    } else {
        LocalSet::new().run_until(ask_members(client, &mut cluster)).await;
    }
    Ok(cluster)
}

/// That all is well, or what is not. A node may not have heard of a leader that others have, so that one suffices; but a
/// node that answers and does not itself lead is no leader, whoever takes it for one.
fn verdict(cluster: &Value) -> Result<String, Failure> {
    if cluster["cluster_id"].is_null() {
        let why: Vec<String> = reasons(cluster).map(shown).collect();
        return Err(Failure::new(format!("no cluster yet: {}", why.join("; "))).exiting(2));
    }
    let denies = |leader: &Value| {
        let mut answered = nodes(cluster).filter(|node| node["answered"] == true);
        answered.any(|node| node["id"] == *leader && node["leader_id"] != *leader)
    };
    let has_leader = |of: &Value| !of["leader_id"].is_null() && !denies(&of["leader_id"]);
    if !has_leader(cluster) && !nodes(cluster).any(has_leader) {
        let why = lost_quorum(cluster).unwrap_or_else(|| "no node leads".to_owned());
        return Err(Failure::new(format!("no quorum: {why}")).exiting(2));
    }
    let unwell = nodes(cluster).filter(|node| node["ready"] != true && node["error"].is_null());
    let unwell = unwell.filter(|node| reasons(node).next().is_none());
    let unwell = unwell.map(|node| format!("node {} is {}", cell(node, "id"), state(node)));
    let remarks = remarks(cluster).into_iter().map(|(_, who, rest)| who + &rest);
    let why: Vec<String> = remarks.chain(unwell).collect();
    match why.is_empty() {
        true => Ok(match nodes(cluster).count() {
            1 => "all is well: the only node is ready".to_owned(),
            count => format!("all is well: all {count} nodes are ready"),
        }),
        false => Err(Failure::new(format!("degraded: {}", why.join("; ")))),
    }
}

/// What a member has said.
struct Said {
    id: Value,
    /// Its own `/v1/cluster` and `/readyz`, or why it did not answer.
    outcome: Result<(Value, Value), Failure>,
}

async fn ask_members(client: &Client, cluster: &mut Value) {
    let mut asking = JoinSet::new();
    for node in nodes(cluster) {
        let (client, id) = (client.clone(), node["id"].clone());
        let (cluster_id, asked_id) = (cluster["cluster_id"].clone(), id.clone());
        let address = node["http"].as_str().unwrap_or_default().to_owned();
        asking.spawn_local(async move {
            let asked = async {
                let client = client.of_member(&address, MEMBER_MAX)?;
                let view = client.get("/v1/cluster").await?;
                if view["cluster_id"].is_null() {
                    return Err(Failure::new(format!(
                        "the node at {address} belongs to no cluster yet"
                    )));
                }
                if view["cluster_id"] != cluster_id {
                    return Err(Failure::new(format!("a node of another cluster is at {address}")));
                }
                if view["node_id"] != asked_id {
                    let other = cell(&view, "node_id");
                    return Err(Failure::new(format!(
                        "{address} is node {other}: give each node an --advertise-http of its own"
                    )));
                }
                Ok((view, client.readiness().await?.1))
            };
            Said { id, outcome: asked.await }
        });
    }
    let said = asking.join_all().await;
    add(cluster, &said);
}

/// Adds to each member what it has said of itself.
fn add(cluster: &mut Value, said: &[Said]) {
    let clocks: Vec<i64> =
        voters(cluster).filter_map(|it| it["clock_offset_ms"].as_i64()).collect();
    let median = median(clocks);
    for node in cluster["nodes"].as_array_mut().into_iter().flatten() {
        node["clock_from_median_ms"] = match (node["clock_offset_ms"].as_i64(), median) {
            (Some(offset), Some(median)) => json!(offset - median),
            _ => Value::Null,
        };
        let own = said.iter().find(|said| said.id == node["id"]).map(|said| &said.outcome);
        node["answered"] = json!(matches!(own, Some(Ok(_))));
        let of_answer = ["error", "ready", "draining", "reasons"];
        for field in of_answer.into_iter().chain(OF_VIEW) {
            node[field] = Value::Null;
        }
        match own {
            Some(Ok((view, readiness))) => add_answer(node, view, readiness),
            Some(Err(failure)) => node["error"] = json!(failure.detail),
            None => {}
        }
    }
    add_lags(cluster, said);
}

fn add_answer(node: &mut Value, view: &Value, readiness: &Value) {
    if let Some(own) = nodes(view).find(|own| own["id"] == node["id"]) {
        for field in [
            "role",
            "zone",
            "version",
            "level_max",
            "last_log_index",
            "last_applied_index",
            "sync_ms",
        ] {
            node[field] = own[field].clone();
        }
    }
    for field in OF_VIEW {
        node[field] = view[field].clone();
    }
    node["ready"] = readiness["ready"].clone();
    node["reasons"] = readiness["reasons"].clone();
    node["draining"] = json!(reasons(readiness).any(|reason| reason.starts_with("draining:")));
}

/// Adds how many entries each member's log lacks: as it says itself, or else as the leader says.
fn add_lags(cluster: &mut Value, said: &[Said]) {
    let last = nodes(cluster).filter_map(|node| node["last_log_index"].as_u64()).max();
    let matched = |id: &Value| {
        let views = said.iter().filter_map(|said| said.outcome.as_ref().ok());
        let mut entries = views.flat_map(|(view, _)| nodes(view)).filter(|node| node["id"] == *id);
        entries.find_map(|node| node["matched_index"].as_u64())
    };
    for node in cluster["nodes"].as_array_mut().into_iter().flatten() {
        let reached = node["last_log_index"].as_u64().or_else(|| matched(&node["id"]));
        node["log_lag"] =
            json!(last.zip(reached).map(|(last, reached)| last.saturating_sub(reached)));
    }
}

/// The middle of some readings, the lower one of two.
fn median(mut readings: Vec<i64>) -> Option<i64> {
    readings.sort_unstable();
    readings.get(readings.len().saturating_sub(1) / 2).copied()
}

fn nodes(cluster: &Value) -> impl Iterator<Item = &Value> {
    cluster["nodes"].as_array().into_iter().flatten()
}

fn voters(cluster: &Value) -> impl Iterator<Item = &Value> {
    nodes(cluster).filter(|node| node["role"] != "learner")
}

fn reasons(readiness: &Value) -> impl Iterator<Item = &str> {
    readiness["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn text(cluster: &Value) -> String {
    if cluster["cluster_id"].is_null() {
        return unformed(cluster);
    }
    let [id, level, term] = ["cluster_id", "level", "term"].map(|field| cell(cluster, field));
    let leader = match &cluster["leader_id"] {
        Value::Null => format!("{BAD}no leader{BAD:#}"),
        _ => format!("leader {}", cell(cluster, "leader_id")),
    };
    let heading = format!("cluster {id}, level {level}, term {term}, {leader}");
    format!(
        "{heading}\n\n{}{}{}",
        table(cluster).styled(),
        remark_lines(cluster),
        quorum_loss(cluster)
    )
}

/// The text about a node that belongs to no cluster.
fn unformed(cluster: &Value) -> String {
    let node = cell(cluster, "node_id");
    let mut text =
        format!("{DOUBTFUL}no cluster yet{DOUBTFUL:#}: node {node} waits for it to form\n");
    for reason in reasons(cluster) {
        text += &format!("  {}\n", shown(reason));
    }
    text + "what to do: mintleaf help a-cluster-that-does-not-form\n"
}

fn table(cluster: &Value) -> TextTable<13> {
    let head = [
        "NODE", "ROLE", "STATE", "LAG", "CLOCK", "RTT", "SYNC", "VERSION", "HTTP", "RAFT", "KEYS",
        "AUTH", "ZONE",
    ];
    let mut table = TextTable::new(head)
        .numbers(&["NODE", "LAG", "CLOCK", "RTT", "SYNC"])
        .dispensable(&["ZONE", "RAFT", "AUTH", "KEYS"]);
    for node in nodes(cluster) {
        // What is known of an unreachable node is old.
        let [lag, clock, rtt, sync] = match state(node) {
            UNREACHABLE => ["-"; 4].map(str::to_owned),
            _ => [
                cell(node, "log_lag"),
                node["clock_from_median_ms"]
                    .as_i64()
                    .map_or("-".to_owned(), |ms| format!("{ms:+} ms")),
                lately(&node["rtt_ms"]),
                lately(&node["sync_ms"]),
            ],
        };
        table.row([
            cell(node, "id"),
            cell(node, "role"),
            state(node).to_owned(),
            lag,
            clock,
            rtt,
            sync,
            cell(node, "version"),
            cell(node, "http"),
            cell(node, "raft"),
            keys(node),
            cell(node, "auth_file"),
            cell(node, "zone"),
        ]);
    }
    table
}

/// The fingerprints of a member's keys.
fn keys(node: &Value) -> String {
    let shown = brief(node["keys"].as_array().into_iter().flatten().filter_map(Value::as_str));
    if shown.is_empty() { "-".to_owned() } else { shown }
}

/// A time in milliseconds, with a digit behind the point if it is short.
fn lately(ms: &Value) -> String {
    match ms.as_f64() {
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) => format!("{ms:.0} ms"),
        None => "-".to_owned(),
    }
}

/// A member in a word: from what it reports, or else from whether its peer reaches it.
fn state(node: &Value) -> &'static str {
    match (&node["ready"], node["reachable"] == true) {
        (Value::Bool(true), _) => "ready",
        (Value::Bool(false), _) if node["draining"] == true => "draining",
        (Value::Bool(false), _) => "not ready",
        (_, true) => "reachable",
        (_, false) => UNREACHABLE,
    }
}

/// What the table does not say about the members: how bad it is, about which member, and the rest of the sentence.
fn remarks(cluster: &Value) -> Vec<(Style, String, String)> {
    let mut remarks = Vec::new();
    for node in nodes(cluster) {
        let who = format!("node {}", cell(node, "id"));
        let style = if node["ready"] == true { DOUBTFUL } else { BAD };
        let mut remark = |what: String| remarks.push((style, who.clone(), what));
        for reason in reasons(node) {
            remark(format!(": {}", shown(reason)));
        }
        if let Some(why) = node["error"].as_str() {
            remark(format!(": {}", shown(why)));
        }
        if node["answered"] == true && node["leader_id"] != cluster["leader_id"] {
            let (leader, term) = (cell(node, "leader_id"), cell(node, "term"));
            remark(format!(" believes that the leader is {leader}, in term {term}"));
        }
        for what in node["failed_reloads"].as_array().into_iter().flatten() {
            let what = shown(what.as_str().unwrap_or_default());
            remark(format!(": files that changed cannot be used ({what}); its log says why"));
        }
    }
    remarks.extend(auth_files(cluster));
    remarks
}

/// That members judge callers by different auth files, if they do. A node of an earlier release does not say.
fn auth_files(cluster: &Value) -> Option<(Style, String, String)> {
    let mut nodes_by_file: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes(cluster).filter(|node| node["failed_reloads"].is_array()) {
        let file = node["auth_file"].as_str().unwrap_or("none");
        nodes_by_file.entry(file).or_default().push(cell(node, "id"));
    }
    let of = |(file, ids): (&&str, &Vec<String>)| format!("{} at {}", shown(file), ids.join(", "));
    let files: Vec<String> = nodes_by_file.iter().map(of).collect();
    let differ = "nodes have different auth files".to_owned();
    (files.len() > 1).then(|| (DOUBTFUL, differ, format!(": {}", files.join("; "))))
}

/// A line for each remark, and one that all is well if nothing else is to be said.
fn remark_lines(cluster: &Value) -> String {
    let remarks = remarks(cluster);
    if remarks.is_empty() {
        let all_well = nodes(cluster).all(|node| node["ready"] == true);
        return match all_well {
            true => format!("\n{GOOD}all nodes are ready{GOOD:#}\n"),
            false => String::new(),
        };
    }
    let line = |(style, who, rest)| format!("{style}{who}{style:#}{rest}\n");
    format!("\n{}", remarks.into_iter().map(line).collect::<String>())
}

/// What to say about the cluster if the node that was asked has no quorum; empty while it has one.
fn quorum_loss(cluster: &Value) -> String {
    match lost_quorum(cluster).filter(|_| cluster["leader_id"].is_null()) {
        Some(lost) => {
            format!("\nno quorum: {lost}\nwhat to do: mintleaf help quorum-loss\n")
        }
        None => String::new(),
    }
}

/// Which majorities of voters are missing, by the node that was asked; `None` while none is.
pub(super) fn lost_quorum(cluster: &Value) -> Option<String> {
    // A node of an earlier release does not report the voters before and after a change.
    let all = || vec![voters(cluster).map(|node| node["id"].clone()).collect()];
    let halves = cluster["voters"].as_array();
    let halves: Vec<Vec<Value>> = halves.map_or_else(all, |halves| {
        halves.iter().map(|ids| ids.as_array().cloned().unwrap_or_default()).collect()
    });
    let lost = halves.iter().zip(["before it, ", "after it, "]).filter_map(|(half, when)| {
        let when = if halves.len() > 1 { when } else { "" };
        lost_majority(cluster, half).map(|lost| format!("{when}{lost}"))
    });
    let lost: Vec<String> = lost.collect();
    if lost.is_empty() {
        return None;
    }
    let joint = match halves.len() {
        0 | 1 => "",
        _ => {
            "a change of the voters is under way, which needs a majority of those before and after it: "
        }
    };
    Some(format!("{joint}{}", lost.join("; ")))
}

/// Which of these voters are missing, if no majority of them can be reached.
fn lost_majority(cluster: &Value, voters: &[Value]) -> Option<String> {
    let is_missing = |node: &&Value| voters.contains(&node["id"]) && node["reachable"] == false;
    let missing: Vec<&Value> = nodes(cluster).filter(is_missing).collect();
    let (reached, needed) = (voters.len() - missing.len(), voters.len() / 2 + 1);
    if reached >= needed || voters.is_empty() {
        return None;
    }
    let own = nodes(cluster).find(|node| node["id"] == cluster["node_id"]);
    let now_ms = own.and_then(|own| own["last_heard_ms"].as_u64());
    let since = |node: &&Value| {
        let id = cell(node, "id");
        match (now_ms, node["last_heard_ms"].as_u64()) {
            (Some(now_ms), Some(heard_ms)) => {
                format!("node {id} for {} s", now_ms.saturating_sub(heard_ms) / 1_000)
            }
            _ => format!("node {id} since node {} started", cell(cluster, "node_id")),
        }
    };
    let missing: Vec<String> = missing.iter().map(since).collect();
    Some(format!(
        "{reached} of {} voters can be reached and {needed} are needed; missing: {}",
        voters.len(),
        missing.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, clock: i64) -> Value {
        json!({
            "id": id, "role": "voter", "zone": null, "version": null, "raft": format!("r:{id}"),
            "http": format!("h:{id}"), "reachable": true, "clock_offset_ms": clock, "rtt_ms": 0.25, "sync_ms": 31.0,
            "last_log_index": null, "last_applied_index": null, "matched_index": null,
        })
    }

    fn answer(id: u64, index: u64, ready: bool, reasons: &[&str]) -> Said {
        let mut own = member(id, 0);
        (own["last_log_index"], own["version"]) = (json!(index), json!("0.3.0"));
        let view = json!({"term": 4, "leader_id": 1, "nodes": [own]});
        Said { id: json!(id), outcome: Ok((view, json!({"ready": ready, "reasons": reasons}))) }
    }

    fn cluster(nodes: Vec<Value>) -> Value {
        json!({"cluster_id": "c", "node_id": 1, "leader_id": 1, "term": 4, "level": 1, "nodes": nodes})
    }

    /// The text without its styles.
    fn plain(cluster: &Value) -> String {
        anstream::adapter::strip_str(&text(cluster)).to_string()
    }

    #[test]
    fn status_says_what_every_member_says_of_itself() {
        let mut cluster = cluster(vec![member(1, 0), member(2, 30), member(3, -5)]);
        let leader = json!({"id": 3, "matched_index": 70});
        let mut first = answer(1, 100, true, &[]);
        if let Ok((view, _)) = &mut first.outcome {
            view["nodes"].as_array_mut().unwrap().push(leader);
        }
        let silent = Said { id: json!(3), outcome: Err(Failure::new("cannot reach http://h:3")) };
        add(
            &mut cluster,
            &[first, answer(2, 98, false, &["draining: it was asked to stop"]), silent],
        );
        let text = plain(&cluster);
        assert!(text.starts_with("cluster c, level 1, term 4, leader 1\n\nNODE  ROLE"), "{text}");
        for (row, remark) in [
            ("   1  voter  ready        0   +0 ms  0.2 ms  31 ms  0.3.0    h:1", ""),
            (
                "   2  voter  draining     2  +30 ms  0.2 ms  31 ms  0.3.0    h:2",
                "node 2: draining: it was asked to stop",
            ),
            (
                "   3  voter  reachable   30   -5 ms  0.2 ms  31 ms  -        h:3",
                "node 3: cannot reach http://h:3",
            ),
        ] {
            assert!(text.contains(row) && text.contains(remark), "{text}");
        }
        assert_eq!(
            (&cluster["nodes"][1]["draining"], &cluster["nodes"][2]["ready"]),
            (&json!(true), &Value::Null)
        );
    }

    #[test]
    fn a_cluster_that_is_well_says_so_and_one_without_a_leader_too() {
        let mut cluster = cluster(vec![member(1, 0)]);
        add(&mut cluster, &[answer(1, 5, true, &[])]);
        assert!(plain(&cluster).ends_with("\nall nodes are ready\n"), "{}", plain(&cluster));
        cluster["leader_id"] = Value::Null;
        let text = plain(&cluster);
        assert!(text.contains("term 4, no leader\n"), "{text}");
        assert!(text.contains("node 1 believes that the leader is 1, in term 4\n"), "{text}");
    }

    #[test]
    fn a_cluster_that_has_not_formed_says_so() {
        let reasons = ["not_formed: node 2 is missing"];
        let cluster = json!({"cluster_id": null, "node_id": 1, "nodes": [], "reasons": reasons});
        let text = plain(&cluster);
        assert!(text.starts_with("no cluster yet: node 1 waits"), "{text}");
        assert!(text.contains("not_formed: node 2 is missing"), "{text}");
    }

    #[test]
    fn status_of_the_last_node_names_who_is_missing_since_when_and_what_to_do() {
        let node = |id: u64, reachable: bool, heard: Option<u64>| json!({"id": id, "role": "voter", "reachable": reachable, "last_heard_ms": heard});
        let nodes =
            [node(1, true, Some(90_000)), node(2, false, Some(56_000)), node(3, false, None)];
        let mut cluster = json!({"node_id": 1, "leader_id": null, "nodes": nodes});
        assert_eq!(
            quorum_loss(&cluster),
            "\nno quorum: 1 of 3 voters can be reached and 2 are needed; missing: node 2 for 34 s, \
             node 3 since node 1 started\nwhat to do: mintleaf help quorum-loss\n"
        );
        cluster["leader_id"] = json!(1);
        assert_eq!(quorum_loss(&cluster), "");
    }

    #[test]
    fn a_check_tells_well_degraded_and_without_quorum_apart() {
        let said = |cluster: &Value| verdict(cluster).map_err(|why| (why.exit_code, why.detail));
        let mut well = cluster(vec![member(1, 0), member(2, 0)]);
        add(&mut well, &[answer(1, 5, true, &[]), answer(2, 5, true, &[])]);
        assert_eq!(said(&well), Ok("all is well: all 2 nodes are ready".to_owned()));

        let mut silent = well.clone();
        silent["nodes"][1]["reachable"] = json!(false);
        let failure = Failure::new("cannot reach http://h:2");
        let gone = Said { id: json!(2), outcome: Err(failure) };
        add(&mut silent, &[answer(1, 5, true, &[]), gone]);
        assert_eq!(said(&silent), Err((1, "degraded: node 2: cannot reach http://h:2".to_owned())));

        // A node that others take for the leader says itself that it is none.
        let mut deposed = well.clone();
        deposed["nodes"][0]["leader_id"] = Value::Null;
        assert_eq!(said(&deposed), Err((2, "no quorum: no node leads".to_owned())));

        // It is enough that one member knows the leader.
        let mut cut_off = well.clone();
        cut_off["leader_id"] = Value::Null;
        assert_eq!(said(&cut_off).unwrap_err().0, 1);

        for node in 0..2 {
            cut_off["nodes"][node]["leader_id"] = Value::Null;
        }
        assert_eq!(said(&cut_off), Err((2, "no quorum: no node leads".to_owned())));
        cut_off["nodes"][1]["reachable"] = json!(false);
        let lost = said(&cut_off).unwrap_err();
        assert!(lost.0 == 2 && lost.1.contains("1 of 2 voters can be reached"), "{lost:?}");
        let unformed = json!({"cluster_id": null, "nodes": [], "reasons": ["not_formed: so"]});
        assert_eq!(said(&unformed), Err((2, "no cluster yet: not_formed: so".to_owned())));
    }
}
