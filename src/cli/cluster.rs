//! `mintleaf cluster`: who is a member, and changing that.

use clap::Subcommand;
use hyper::Method;
use serde_json::{Value, json};

use super::client::{Client, Failure};
use super::output::{TextTable, cell, print, print_json};

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the members as the asked node knows them, quorum or not
    Status,
    /// Add a node that was started with --join; make a learner a voter, or a voter a learner
    #[command(after_help = "Example:\n  mintleaf cluster add 4 --raft d.example:9080")]
    Add {
        /// The node's id
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        id: u64,
        /// Its raft address
        #[arg(long, value_name = "HOST:PORT")]
        raft: String,
        /// Its client address
        #[arg(long, value_name = "HOST:PORT")]
        http: Option<String>,
        /// Let it follow without a vote; a voter loses its vote
        #[arg(long)]
        learner: bool,
    },
    /// Remove a node; it stops and says why
    Remove {
        /// The node's id
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        id: u64,
    },
    /// Hand leadership to another voter
    Transfer {
        /// The voter's id
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        id: u64,
    },
    /// Show the level of the cluster, and what every node supports
    #[command(
        after_help = "What a release brings that the one before cannot read is used once the level \
                            says so. Until it is raised, going back to the release before works."
    )]
    Level {
        /// What to do with it; by default it is shown.
        #[command(subcommand)]
        command: Option<LevelCommand>,
    },
}

/// What can be done with the level.
#[derive(Debug, Subcommand)]
pub enum LevelCommand {
    /// Raise it to what all members support; it never falls again
    Raise,
}

pub(super) async fn run(
    command: ClusterCommand,
    client: &Client,
    json: bool,
) -> Result<(), Failure> {
    match command {
        ClusterCommand::Status => show(&client.get("/v1/cluster").await?, json),
        ClusterCommand::Add { id, raft, http, learner } => {
            let mut body = json!({ "id": id, "raft": raft, "voter": !learner });
            if let Some(http) = http {
                body["http"] = json!(http);
            }
            let cluster = client.change(Method::POST, "/v1/cluster/nodes", Some(&body)).await?;
            show(&cluster, json)
        }
        ClusterCommand::Remove { id } => {
            client.change(Method::DELETE, &format!("/v1/cluster/nodes/{id}"), None).await?;
            if json { Ok(()) } else { print(&format!("removed node {id}\n")) }
        }
        ClusterCommand::Transfer { id } => {
            let body = json!({ "id": id });
            client.change(Method::POST, "/v1/cluster/leader", Some(&body)).await?;
            if json { Ok(()) } else { print(&format!("node {id} leads\n")) }
        }
        ClusterCommand::Level { command } => {
            let cluster = match command {
                None => client.get("/v1/cluster").await?,
                Some(LevelCommand::Raise) => {
                    client.change(Method::POST, "/v1/cluster/level", None).await?
                }
            };
            show_level(&cluster, json)
        }
    }
}

fn show(cluster: &Value, json: bool) -> Result<(), Failure> {
    if json {
        print_json(cluster)
    } else {
        print(&format!("{}{}", table(cluster), quorum_loss(cluster)))
    }
}

fn show_level(cluster: &Value, json: bool) -> Result<(), Failure> {
    if json {
        let fields = ["id", "version", "level_max"];
        let node = |node: &Value| -> Value {
            fields.map(|field| (field.to_owned(), node[field].clone())).into_iter().collect()
        };
        let nodes: Vec<_> = cluster["nodes"].as_array().into_iter().flatten().map(node).collect();
        return print_json(&json!({ "level": cluster["level"], "nodes": nodes }));
    }
    let mut table = TextTable::new(["NODE", "VERSION", "SUPPORTS"]);
    for node in cluster["nodes"].as_array().into_iter().flatten() {
        table.row(["id", "version", "level_max"].map(|field| cell(node, field)));
    }
    print(&format!("level {}\n\n{table}", cell(cluster, "level")))
}

fn table(cluster: &Value) -> String {
    let [id, leader, term] = ["cluster_id", "leader_id", "term"].map(|f| cell(cluster, f));
    let mut table = TextTable::new([
        "NODE",
        "ROLE",
        "ZONE",
        "VERSION",
        "RAFT",
        "HTTP",
        "LOG",
        "APPLIED",
        "REACHABLE",
    ]);
    for node in cluster["nodes"].as_array().into_iter().flatten() {
        let fields = [
            "id",
            "role",
            "zone",
            "version",
            "raft",
            "http",
            "last_log_index",
            "last_applied_index",
            "reachable",
        ];
        table.row(fields.map(|field| cell(node, field)));
    }
    format!("cluster {id}, term {term}, leader {leader}\n\n{table}")
}

/// What to say about a cluster whose asked node has no quorum; nothing while it has one.
fn quorum_loss(cluster: &Value) -> String {
    let nodes = || cluster["nodes"].as_array().into_iter().flatten();
    let voters: Vec<&Value> = nodes().filter(|node| node["role"] != "learner").collect();
    let missing: Vec<_> = voters.iter().filter(|node| node["reachable"] == false).collect();
    let (reached, needed) = (voters.len() - missing.len(), voters.len() / 2 + 1);
    if !cluster["leader_id"].is_null() || reached >= needed || voters.is_empty() {
        return String::new();
    }
    let own = nodes().find(|node| node["id"] == cluster["node_id"]);
    let now_ms = own.and_then(|own| own["last_heard_ms"].as_u64());
    let since = |node: &&&Value| {
        let id = cell(node, "id");
        match (now_ms, node["last_heard_ms"].as_u64()) {
            (Some(now_ms), Some(heard_ms)) => {
                format!("node {id} for {} s", now_ms.saturating_sub(heard_ms) / 1_000)
            }
            _ => format!("node {id} since node {} started", cell(cluster, "node_id")),
        }
    };
    let missing: Vec<String> = missing.iter().map(since).collect();
    format!(
        "\nno quorum: {reached} of {} voters can be reached and {needed} are needed; missing: {}\n\
         what to do: docs/operating.md#quorum-loss\n",
        voters.len(),
        missing.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_shows_a_cluster_without_a_leader() {
        let node =
            json!({"id": 1, "role": "voter", "zone": "z1", "version": "0.2.0", "raft": "a:1"});
        let cluster = json!({"cluster_id": "c", "leader_id": null, "term": 4, "nodes": [node]});
        let text = table(&cluster);
        assert!(text.starts_with("cluster c, term 4, leader -\n\nNODE  ROLE"), "{text}");
        assert!(text.contains("1     voter  z1    0.2.0    a:1"), "{text}");
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
             node 3 since node 1 started\nwhat to do: docs/operating.md#quorum-loss\n"
        );
        cluster["leader_id"] = json!(1);
        assert_eq!(quorum_loss(&cluster), "");
    }
}
