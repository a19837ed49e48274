//! The whole cluster is lost except one directory, and the product makes a new cluster from it.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, REJOIN_MAX, replace_flag, wipe};
use crate::links::NodeId;

/// By how many ids every tag rises. The directory holds all that was acknowledged, so the old cluster gave no
/// ids since.
const ADVANCE: &str = "1000";
/// Pause between two polls of a node.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the restored node may take until it gives ids of both kinds. Its first snowflake windows begin
/// after all windows that were given before.
const SERVES_MAX: Duration = Duration::from_secs(30);

impl Cluster {
    /// Kills every node and makes a new cluster from the directory that holds the most. `survivor` is the path
    /// for a copy of that directory until the cluster is restored. The node of that directory starts first. All
    /// other data directories are emptied, and their nodes join it.
    ///
    /// Returns false and leaves the cluster as it was if the clocks of most nodes were so far ahead that the
    /// present time lies before what they did.
    ///
    /// # Errors
    /// The step that failed.
    pub(crate) async fn restore(&self, binary: &Path, survivor: &Path) -> Result<bool, String> {
        self.kill_all().await;
        let first = self.fullest(binary).await?;
        let data = self.nodes.get(first).data();
        run(Command::new("cp").arg("-a").args([&data, survivor])).await?;
        let probe = survivor.with_extension("restored");
        let tried = run(&mut restore(binary, survivor, &probe, first)).await;
        let restored = match tried {
            Err(why) if why.contains("lies before the copy was taken") => false,
            tried => tried.map(|_| true)?,
        };
        if restored {
            for node in self.nodes.iter() {
                let wiped = wipe(&node.data());
                wiped.map_err(|error| format!("node {} cannot be wiped: {error}", node.id))?;
                node.renew();
            }
            // The node must keep its directory, which may be a separate disk. So the copy is restored once
            // more, into it.
            run(&mut restore(binary, survivor, &data, first)).await?;
            remove(&probe)?;
            self.begin_with(first).await?;
        } else {
            self.nodes.iter().for_each(|node| node.want(true));
        }
        remove(survivor)?;
        Ok(restored)
    }

    /// Kills all nodes at once; they stay down.
    async fn kill_all(&self) {
        let mut killing = JoinSet::new();
        for id in self.nodes.ids() {
            let nodes = self.nodes.clone();
            nodes.get(id).want(false);
            killing.spawn(async move { nodes.get(id).kill().await });
        }
        killing.join_all().await;
    }

    /// The node whose log reaches furthest: in the latest term, and there to the highest index. There were no other faults, so it has every entry that a quorum has.
    async fn fullest(&self, binary: &Path) -> Result<NodeId, String> {
        let mut fullest = None;
        for node in self.nodes.iter() {
            let mut inspect = Command::new(binary);
            let shown = run(inspect.arg("inspect").arg(node.data()).arg("--json")).await?;
            let shown: Value =
                serde_json::from_slice(&shown.stdout).map_err(|error| error.to_string())?;
            let reaches =
                ["log_term", "log_leader", "log_index"].map(|field| shown[field].as_u64());
            fullest = fullest.max(Some((reaches, node.id)));
        }
        fullest.map(|(_, id)| id).ok_or_else(|| "there are no nodes".to_owned())
    }

    /// Starts the restored node, and then the others, which join it.
    async fn begin_with(&self, first: NodeId) -> Result<(), String> {
        self.nodes.get(first).want(true);
        let deadline = Instant::now() + SERVES_MAX;
        for path in ["/readyz", "/v1/snowflake"] {
            while self.client.get(first, path).await.is_none() {
                if Instant::now() > deadline {
                    return Err(format!(
                        "{path} of restored node {first} fails for {SERVES_MAX:?}"
                    ));
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        let seed = self.links.addresses(first).advertised.to_string();
        for node in self.nodes.iter().filter(|node| node.id != first) {
            node.relaunch(|launch| replace_flag(&mut launch.flags, seed.clone()));
            node.want(true);
            let raft = self.links.addresses(node.id).advertised.to_string();
            let body = json!({ "id": node.id, "raft": raft, "voter": true });
            let deadline = Instant::now() + REJOIN_MAX;
            let path = "/v1/cluster/nodes";
            self.change(node.id, Method::POST, path, Some(&body), deadline).await?;
        }
        Ok(())
    }
}

fn restore(binary: &Path, from: &Path, to: &PathBuf, node: NodeId) -> Command {
    let mut command = Command::new(binary);
    command.arg("restore").arg(from).arg("--data").arg(to).args(["--stopped-at", "now"]);
    command.args(["--advance-all-by", ADVANCE, "--node-id", &node.to_string()]);
    command
}

fn remove(dir: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

async fn run(command: &mut Command) -> Result<Output, String> {
    command.env_remove("RUST_LOG").stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
