//! `mintleaf cluster`: who is a member, and changing that.

use clap::Subcommand;
use hyper::Method;
use serde_json::{Value, json};

use super::client::{Client, Failure};
use super::output::{Table, cell, print, print_json};

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
    }
}

fn show(cluster: &Value, json: bool) -> Result<(), Failure> {
    if json { print_json(cluster) } else { print(&table(cluster)) }
}

fn table(cluster: &Value) -> String {
    let [id, leader, term] = ["cluster_id", "leader_id", "term"].map(|f| cell(cluster, f));
    let mut table = Table::new(["NODE", "ROLE", "RAFT", "HTTP", "LOG", "APPLIED", "REACHABLE"]);
    for node in cluster["nodes"].as_array().into_iter().flatten() {
        let fields =
            ["id", "role", "raft", "http", "last_log_index", "last_applied_index", "reachable"];
        table.row(fields.map(|field| cell(node, field)));
    }
    format!("cluster {id}, term {term}, leader {leader}\n\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_shows_a_cluster_without_a_leader() {
        let node = json!({"id": 1, "role": "voter", "raft": "a:1", "http": "a:2"});
        let cluster = json!({"cluster_id": "c", "leader_id": null, "term": 4, "nodes": [node]});
        let text = table(&cluster);
        assert!(text.starts_with("cluster c, term 4, leader -\n\nNODE  ROLE"), "{text}");
        assert!(text.contains("1     voter  a:1"), "{text}");
    }
}
