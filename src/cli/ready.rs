//! `mintleaf ready`: whether a node can hand out ids, as an exit code, for checks of containers and scripts.

use serde_json::Value;

use super::connect::Connect;
use super::failure::Failure;
use super::output::{print, print_json};
use super::table::shown;

/// Asks the node. It wants no token.
///
/// # Errors
/// When no node answers, and when the one that answers is not ready: then with its reasons.
pub(super) async fn run(connect: Connect) -> Result<(), Failure> {
    let client = connect.open()?;
    let (url, readiness) = client.readiness().await?;
    if client.json {
        print_json(&readiness)?;
    }
    let reasons = reasons(&readiness);
    let who = if client.has_several_nodes() { format!("{url} is ") } else { String::new() };
    match readiness["ready"].as_bool() {
        Some(true) if client.json => Ok(()),
        Some(true) if reasons.is_empty() => print(&format!("{who}ready\n")),
        Some(true) => print(&format!("{who}ready; but {reasons}\n")),
        _ => Err(Failure::new(format!("{who}not ready: {reasons}"))),
    }
}

fn reasons(readiness: &Value) -> String {
    let reasons = readiness["reasons"].as_array().into_iter().flatten();
    reasons.filter_map(Value::as_str).map(shown).collect::<Vec<_>>().join("; ")
}
