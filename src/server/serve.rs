//! `mintleaf serve`: one node of a cluster.

use std::num::NonZeroUsize;
use std::panic;
use std::thread;
use std::time::Duration;

use super::failure::NodeFailure;
use super::node::{Leadership, Process, RunningNode, absolute};
use super::open_files::{Nodes, client_capacity};
use super::signals::{Signals, follow_log_level, listen_for_signals};
use super::supervisor;
use super::warnings::{warn_if_exposed, warn_of_tokens_in_clear};
use crate::config::NodeConfig;
use crate::listener::CLIENT_THREADS;
use crate::server::logging::{self, Log};

/// The longest that stopping may take. The steps of a stop have their own bounds, 10 s together.
const STOP_MAX: Duration = Duration::from_secs(15);

/// Runs one node of a cluster until a signal, or until it stops by itself.
///
/// # Errors
/// Why it did not start or had to stop, with the exit code for that: [`NodeFailure::exit_code`].
pub fn serve(config: &NodeConfig, log: Log) -> Result<(), NodeFailure> {
    let nodes = Nodes { count: NonZeroUsize::MIN, raft: true, resp: config.resp.is_some() };
    let clients = client_capacity(nodes)?;
    let Signals { mut stopping, reload } = listen_for_signals()?;
    follow_log_level(log, reload.clone())?;
    warn_if_exposed(&config.exposed);
    warn_of_tokens_in_clear(&config.tokens_in_clear);
    let peer_connections_max = nodes.peer_connections_max();
    let process = Process { reload, shared: None, clients, peer_connections_max };
    let mut node = RunningNode::start(config, &process)?;
    announce(&node, config);
    end_on_panic();
    node.keep_supervisor_informed();
    let ended = node.run(&mut stopping);
    supervisor::stopping();
    let ended = ended.or_else(|| node.drain(config.drain, Leadership::HandedOver));
    // A teardown may panic where a healthy node does not.
    logging::report_panics();
    end_after(STOP_MAX);
    node.stop();
    match ended {
        Some(why) => Err(NodeFailure::Stopped(why)),
        None => {
            tracing::info!("stopped");
            Ok(())
        }
    }
}

/// Ends the process when any thread panics, except the threads that serve clients, where a panic costs one connection.
/// No thread can take over the work of another, and work that is left half done may hold up the rest: after a panic
/// within sled, its next flush waits for ever.
fn end_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        if name.starts_with(CLIENT_THREADS) {
            return report(what);
        }
        // Plain text, without a backtrace: printing one may wait for ever where memory ran out.
        logging::last_words(&format_args!(
            "thread '{name}' {what}\nthe node ends here; start it again"
        ));
        std::process::abort();
    }));
}

/// Ends the process if it still runs after `stop_max`: a supervisor waits for that before it starts the process again.
fn end_after(stop_max: Duration) {
    // A process without memory for a thread lacks it for much else too, and ends because of that.
    let _ = thread::Builder::new().name("mintleaf-end".to_owned()).spawn(move || {
        #[expect(clippy::disallowed_methods)] // A thread that does nothing but wait.
        thread::sleep(stop_max);
        logging::last_words(&format_args!(
            "the node did not stop within {stop_max:?}; the process ends"
        ));
        std::process::exit(1);
    });
}

fn announce(node: &RunningNode, config: &NodeConfig) {
    let http = node.http_addr();
    // The CA is often the operator's own.
    let curl = if config.client_tls.is_some() { "curl --cacert CA https" } else { "curl http" };
    tracing::info!(
        node_id = config.node_id,
        %http,
        resp = %node.resp_addr().map(|resp| resp.to_string()).unwrap_or_default(),
        raft = %node.raft_addr().map(|raft| raft.to_string()).unwrap_or_default(),
        data = %absolute(&config.data),
        "node {} is up; try: {curl}://{http}/readyz",
        config.node_id
    );
}
