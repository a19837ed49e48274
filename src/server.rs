//! One node assembled (Raft on a runtime of its own, the id service, its listeners in front), and the two
//! ways to run it: [`serve`] and [`dev`].

mod dev;
mod node;

use std::io;
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub use dev::dev;
pub use node::{NodeConfig, NodeFailure, RunningNode};

use crate::config::{ConfigError, ServeConfig, read_secret};
use crate::listener::CLIENT_THREADS;

/// The longest that stopping may take. Its parts have bounds of their own, 10 s together.
const STOP_MAX: Duration = Duration::from_secs(15);

/// Runs one node of a cluster until a signal or its end. Exit code 0 after a signal, 2 when a setting is
/// wrong, otherwise that of [`NodeFailure::exit_code`].
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
    end_on_panic();
    let ended = node.run(&mut stopping);
    // A teardown may find what it did not find in health.
    drop(panic::take_hook());
    end_after(STOP_MAX);
    node.stop();
    match ended {
        Some(why) => failed(&NodeFailure::Stopped(why)),
        None => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
    }
}

/// Ends the process at a panic of any thread but those that serve clients, where it costs a connection.
/// What the others do nobody does for them, and what they leave half done may hold up the rest: after a
/// panic within sled, its next flush waits for ever.
fn end_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        if name.starts_with(CLIENT_THREADS) {
            return report(what);
        }
        // Plain text, without a backtrace: printing one may wait for ever where memory ran out.
        eprintln!("thread '{name}' {what}\nthe node ends here; start it again");
        std::process::abort();
    }));
}

/// Ends the process if it is still there after so long: a supervisor waits for its end to start it anew.
fn end_after(stop_max: Duration) {
    // Without memory for a thread there is none for much else, and the process ends of that.
    let _ = thread::Builder::new().name("mintleaf-end".to_owned()).spawn(move || {
        #[expect(clippy::disallowed_methods)] // A thread that does nothing but wait.
        thread::sleep(stop_max);
        eprintln!("the node did not stop within {stop_max:?}; the process ends");
        std::process::exit(1);
    });
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
        snapshot_entries: config.snapshot_entries,
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
    let exit_code = error.exit_code();
    tracing::error!(%error, exit_code, "node stopped");
    ExitCode::from(exit_code)
}
