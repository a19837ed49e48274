//! One node assembled (Raft on a runtime of its own, the id service, its listeners in front), and the two
//! ways to run it: [`serve`] and [`dev`].

mod dev;
mod node;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub use dev::dev;
pub use node::{NodeConfig, NodeFailure, RunningNode};

use crate::config::{ConfigError, ServeConfig, read_secret};

/// Runs one node of a cluster until a signal or its end. Exit code 0 after a signal, 1 when the
/// node could not start or had to stop, 2 when a setting is wrong.
pub fn serve(config: ServeConfig) -> ExitCode {
    let config = match node_config(config) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "cannot start");
            return ExitCode::from(2);
        }
    };
    let mut stopping = match stop_on_signal() {
        Ok(stopping) => stopping,
        Err(error) => return failed(&NodeFailure::System(error)),
    };
    let mut node = match RunningNode::start(&config) {
        Ok(node) => node,
        Err(error) => return failed(&error),
    };
    announce(&node, &config);
    let ended = node.run(&mut stopping);
    node.stop();
    match ended {
        Some(why) => failed(&NodeFailure::Stopped(why)),
        None => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
    }
}

fn node_config(config: ServeConfig) -> Result<NodeConfig, ConfigError> {
    let secret = config.cluster_secret_file.as_deref().map(read_secret).transpose()?;
    if secret.is_none() && !config.raft.ip().is_loopback() {
        tracing::warn!(
            raft = %config.raft,
            "other machines can reach the internal address and no --cluster-secret-file is given: \
             whoever can connect to it can change the cluster"
        );
    }
    Ok(NodeConfig {
        node_id: config.node_id,
        http: config.http,
        resp: config.resp,
        raft: Some(config.raft),
        data: config.data,
        peers: config.peers.into_iter().collect(),
        join: config.join,
        advertise_http: config.advertise_http,
        advertise_raft: config.advertise_raft,
        secret,
        auto_create_tags: config.auto_create_tags,
        snowflake: config.snowflake,
    })
}

/// Turns true on SIGTERM or SIGINT; a second signal ends the process at once.
fn stop_on_signal() -> io::Result<watch::Receiver<bool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _within = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let (stop, stopping) = watch::channel(false);
    let wait_for_signals = move || {
        runtime.block_on(async {
            let mut next = async || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            next().await;
            tracing::info!("stopping; a second signal stops at once");
            stop.send_replace(true);
            next().await;
            std::process::exit(1);
        });
    };
    // Lives as long as the process: there is always one more signal to wait for.
    thread::Builder::new().name("mintleaf-signals".to_owned()).spawn(wait_for_signals)?;
    Ok(stopping)
}

fn announce(node: &RunningNode, config: &NodeConfig) {
    let http = node.http_addr();
    tracing::info!(
        node_id = config.node_id,
        %http,
        resp = %node.resp_addr().map(|resp| resp.to_string()).unwrap_or_default(),
        raft = %node.raft_addr().map(|raft| raft.to_string()).unwrap_or_default(),
        data = %absolute(&config.data),
        "node {} is up; try: curl http://{http}/readyz",
        config.node_id
    );
}

fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn failed(error: &NodeFailure) -> ExitCode {
    tracing::error!(%error, "node stopped");
    ExitCode::FAILURE
}
