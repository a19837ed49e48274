//! `mintleaf doctor`: whether a node would work well on this machine with these settings.
//!
//! ```text
//! doctor     the list of checks, and the report
//!   machine    the disk, the clock, the limits
//!   files      the data directory; secrets, tokens, keys and certificates
//!   network    ports, peers, the nodes of a running cluster
//!     finding    what a check has found
//! ```

mod files;
mod finding;
mod machine;
mod network;

use serde_json::{Value, json};

use super::connect::Connect;
use super::failure::Failure;
use super::output::{print_json, print_styled};
use crate::config::{ConfigError, NodeConfig, ServeArgs, with_file};
use finding::{Finding, Findings, Health};

/// Carries out every check, and reports.
///
/// # Errors
/// When a check has failed.
pub(super) async fn run(args: ServeArgs, connect: Connect) -> Result<(), Failure> {
    let mut findings = Vec::new();
    let config = settings(args, &mut findings);
    findings.push(("open files", machine::open_files()));
    findings.push(("clock", machine::clock_is_kept()));
    if let Some(config) = &config {
        findings.push(("data", files::data(&config.data, config.node_id, config.moved)));
        findings.push(("disk", machine::disk(&config.data)));
        files::keys(config, &mut findings);
    }
    let connect = match connect.shown_token() {
        Ok(_) => connect,
        Err(failure) => {
            let hint = "the nodes are asked without a token";
            findings.push(("token", Finding::bad(failure.detail, hint)));
            connect.without_token()
        }
    };
    let mut client = connect.clone().open()?;
    if let Some(config) = &config {
        network::ports(config, &client, &mut findings).await;
        network::peers(config, &mut findings).await;
        if let Some(own) = network::own_url(config) {
            client = connect.or_at(own).open()?;
        }
    }
    network::cluster(&client, config.as_ref(), &mut findings).await;
    report(&findings, client.json)
}

/// The settings that a node would start with here; `None` if it would not start.
fn settings(args: ServeArgs, findings: &mut Findings) -> Option<NodeConfig> {
    match resolved(args) {
        Ok((config, None)) => {
            let said = format!("they are valid: node {}", config.node_id);
            findings.push(("settings", Finding::good(said)));
            Some(config)
        }
        Ok((config, Some(missing))) => {
            let hint =
                "doctor takes the settings of serve: --config FILE, flags, and the environment";
            findings.push(("settings", Finding::doubtful(missing, hint)));
            Some(config)
        }
        Err(error) => {
            let hint = "the data directory, the keys, the ports and the peers were not checked";
            findings.push(("settings", Finding::bad(error.to_string(), hint)));
            None
        }
    }
}

/// The settings, and what is missing from them that only a node needs.
fn resolved(args: ServeArgs) -> Result<(NodeConfig, Option<&'static str>), ConfigError> {
    let mut args = with_file(args)?;
    // They already contain what the file said.
    args.config = None;
    let lacks_id = args.node_id.is_none();
    if lacks_id {
        let first = args.peers.as_deref().and_then(|peers| peers.split(['=', ',']).next());
        args.node_id = first.and_then(|id| id.trim().parse().ok()).or(Some(1));
    }
    let missing = lacks_id.then_some("--node-id is missing: a node does not start without it");
    Ok((NodeConfig::resolve(args)?, missing))
}

fn report(findings: &[(&'static str, Finding)], json: bool) -> Result<(), Failure> {
    let count = |health| findings.iter().filter(|(_, found)| found.health == health).count();
    let (bad, doubtful) = (count(Health::Bad), count(Health::Doubtful));
    if json {
        let checks = findings.iter().map(|(check, found)| found.to_json(check));
        let checks: Vec<Value> = checks.collect();
        print_json(
            &json!({ "ok": bad == 0, "failed": bad, "warnings": doubtful, "checks": checks }),
        )?;
    } else {
        let lines = findings.iter().map(|(check, found)| found.to_text(check));
        print_styled(&lines.collect::<String>())?;
    }
    match bad {
        0 => Ok(()),
        1 => Err(Failure::new("1 check has failed")),
        bad => Err(Failure::new(format!("{bad} checks have failed"))),
    }
}
