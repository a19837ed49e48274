//! `mintleaf cluster`: who is a member, and changing that.

use clap::Subcommand;
use hyper::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::failure::Failure;
use super::output::{cell, confirm, print_json, print_styled, warn};
use super::status;
use super::table::TextTable;

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the members and the state that each of them reports
    #[command(after_help = "\
Example:
  mintleaf cluster status

LAG is how many entries of the log a node lacks, CLOCK how far its clock is from the voters' median. A node that does \
not answer this machine is shown as its peers see it: reachable or not.

With --check, the exit code is 0 if all is well, 1 if the cluster is degraded, 2 if it has no quorum, and 3 if no node \
answers; one line says why.")]
    Status {
        /// Say in one line, and by the exit code, whether all is well
        #[arg(long)]
        check: bool,
    },
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
        /// Make it a learner, without a vote; a voter loses its vote
        #[arg(long)]
        learner: bool,
        /// Go on even if too few of the remaining voters answer
        #[arg(long)]
        force: bool,
    },
    /// Remove a node; it stops and says why
    #[command(after_help = "\
Example:
  mintleaf cluster remove 4

On a terminal, it asks for confirmation; elsewhere it wants --yes. A voter is removed only while a majority of the remaining voters answers: \
without one, the removal could never be committed and the cluster would stop. --force starts it all the same; a cluster \
that has stopped this way continues once the missing voters are back.")]
    Remove {
        /// The node's id
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        id: u64,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
        /// Go on even if too few of the remaining voters answer
        #[arg(long)]
        force: bool,
    },
    /// Hand leadership to another voter
    #[command(after_help = "Example:\n  mintleaf cluster transfer 2")]
    Transfer {
        /// The voter's id
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        id: u64,
    },
    /// Show the level of the cluster and the levels that its nodes support
    #[command(
        after_help = "Examples:\n  mintleaf cluster level\n  mintleaf cluster level raise\n\nFormats that the previous release cannot read are used once the level is \
                            raised. Until then, going back to the previous release works."
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
    /// Raise it to the highest that all members support; it never falls again
    #[command(
        after_help = "Example:\n  mintleaf cluster level raise\n\nOn a terminal, it asks for confirmation; elsewhere it \
                      wants --yes."
    )]
    Raise {
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

pub(super) async fn run(command: ClusterCommand, client: &Client) -> Result<(), Failure> {
    match command {
        ClusterCommand::Status { check: true } => status::check(client).await,
        ClusterCommand::Status { check: false } => status::run(client).await,
        ClusterCommand::Add { id, raft, http, learner, force } => {
            let mut body = json!({ "id": id, "raft": raft, "voter": !learner });
            if force {
                body["force"] = json!(true);
            }
            if let Some(http) = http {
                body["http"] = json!(http);
            }
            let before = client.get("/v1/cluster").await.unwrap_or_default();
            let cluster = client.change(Method::POST, "/v1/cluster/nodes", Some(&body)).await?;
            if members(&before) == members(&cluster) {
                warn(&format!(
                    "node {id} was a member already, and nothing has changed. If its data directory is lost, remove it \
                     first: mintleaf cluster remove {id}"
                ));
            }
            match client.json {
                true => print_json(&cluster),
                false => status::run(client).await,
            }
        }
        ClusterCommand::Remove { id, yes, force } => {
            let question = "It stops, and can come back only with an empty data directory.";
            confirm(&format!("Remove node {id} from the cluster? {question}"), yes)?;
            let query = if force { "?force=true" } else { "" };
            let node = format!("/v1/cluster/nodes/{id}{query}");
            client.change(Method::DELETE, &node, None).await?;
            let removed = json!({ "id": id, "removed": true });
            client.show(&removed, || format!("removed node {id}\n"))
        }
        ClusterCommand::Transfer { id } => {
            let body = json!({ "id": id });
            client.change(Method::POST, "/v1/cluster/leader", Some(&body)).await?;
            client.show(&json!({ "leader_id": id }), || format!("node {id} leads\n"))
        }
        ClusterCommand::Level { command } => {
            let cluster = match command {
                None => client.get("/v1/cluster").await?,
                Some(LevelCommand::Raise { yes }) => {
                    let question = "Raise the level of the cluster? From then on, nodes of an earlier release that does \
                                    not support it cannot run here any more. There is no way back.";
                    confirm(question, yes)?;
                    client.change(Method::POST, "/v1/cluster/level", None).await?
                }
            };
            show_level(&cluster, client)
        }
    }
}

/// Who the members are.
fn members(cluster: &Value) -> Vec<[&Value; 4]> {
    let nodes = cluster["nodes"].as_array().into_iter().flatten();
    nodes.map(|node| ["id", "role", "raft", "http"].map(|field| &node[field])).collect()
}

fn show_level(cluster: &Value, client: &Client) -> Result<(), Failure> {
    if client.json {
        let fields = ["id", "version", "level_max"];
        let node = |node: &Value| -> Value {
            fields.map(|field| (field.to_owned(), node[field].clone())).into_iter().collect()
        };
        let nodes: Vec<_> = cluster["nodes"].as_array().into_iter().flatten().map(node).collect();
        return print_json(&json!({ "level": cluster["level"], "nodes": nodes }));
    }
    let mut table = TextTable::new(["NODE", "VERSION", "SUPPORTS"]).numbers(&["NODE", "SUPPORTS"]);
    for node in cluster["nodes"].as_array().into_iter().flatten() {
        table.row(["id", "version", "level_max"].map(|field| cell(node, field)));
    }
    print_styled(&format!("level {}\n\n{}", cell(cluster, "level"), table.styled()))
}
