//! Many tags: read page by page, and changed at once.

use std::collections::VecDeque;

use hyper::Method;
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};

use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::output::complain;
use crate::cli::table::shown;
use crate::text::path_segment;

/// Tags fetched with one request.
const PAGE: u64 = 1_000;

/// Requests under way: enough that the changes share commits, and few beside what a node can have under way.
const REQUESTS_AT_ONCE: usize = 16;

/// What has become of the tags.
#[derive(Default)]
struct Report {
    changed: Vec<String>,
    failed: Vec<(String, Failure)>,
    /// Tags that were not tried, because no node can change tags at the moment.
    untried: usize,
}

/// Changes all tags whose names begin with `prefix`, and reports each that could not be changed.
///
/// # Errors
/// When a tag was not changed, or none begins with that prefix.
pub(super) async fn update(prefix: &str, change: &Value, client: &Client) -> Result<(), Failure> {
    let tags = listed(client, prefix).await?;
    let is_as_wanted = |tag: &&Value| {
        change.as_object().into_iter().flatten().all(|(field, wanted)| tag[field] == *wanted)
    };
    let (same, others): (Vec<&Value>, Vec<&Value>) = tags.iter().partition(is_as_wanted);
    let names = others.iter().filter_map(|tag| tag["tag"].as_str().map(str::to_owned));
    let report = LocalSet::new().run_until(update_all(names.collect(), change, client)).await?;
    let (changed, failed, untried) = (report.changed.len(), report.failed.len(), report.untried);
    let failures = report.failed.iter();
    let failures = failures.map(|(tag, why)| json!({ "tag": tag, "error": why.detail }));
    let told = json!({
        "changed": report.changed,
        "unchanged": same.len(),
        "failed": failures.collect::<Vec<_>>(),
        "untried": untried,
    });
    client.show(&told, || format!("changed: {changed}, unchanged: {}\n", same.len()))?;
    for (tag, why) in report.failed {
        complain(&Failure::new(format!("{}: {}", shown(&tag), why.detail)));
    }
    match (failed, untried) {
        (0, _) => Ok(()),
        (failed, 0) => Err(Failure::new(format!("tags that were not changed: {failed}"))),
        (failed, untried) => Err(Failure::new(format!(
            "tags that were not changed: {failed}, and {untried} more were not tried"
        ))),
    }
}

async fn update_all(
    mut names: VecDeque<String>,
    change: &Value,
    client: &Client,
) -> Result<Report, Failure> {
    let (mut report, mut is_hopeless) = (Report::default(), false);
    let mut under_way = JoinSet::new();
    loop {
        while under_way.len() < REQUESTS_AT_ONCE
            && !is_hopeless
            && let Some(name) = names.pop_front()
        {
            let (client, change) = (client.clone(), change.clone());
            under_way.spawn_local(async move {
                let outcome = client.change(Method::PATCH, &path(&name), Some(&change)).await;
                (name, outcome)
            });
        }
        let Some(ended) = under_way.join_next().await else { break };
        match ended.map_err(|error| Failure::new(format!("a task ended: {error}")))? {
            (name, Ok(_)) => report.changed.push(name),
            // It was deleted since it was listed.
            (_, Err(refused)) if refused.is("unknown_tag") => {}
            (name, Err(why)) => {
                is_hopeless |= why.is_unanswered() || why.is("unavailable");
                report.failed.push((name, why));
            }
        }
    }
    report.changed.sort();
    report.untried = names.len();
    Ok(report)
}

/// All tags whose names begin with `prefix`, in the order of their names.
///
/// # Errors
/// When there is a prefix, and no tag begins with it.
pub(in crate::cli) async fn listed(client: &Client, prefix: &str) -> Result<Vec<Value>, Failure> {
    let tags = beginning(client, prefix, None).await?;
    match tags.is_empty() && !prefix.is_empty() {
        true => Err(Failure::new(format!("no tag begins with {}", shown(prefix)))),
        false => Ok(tags),
    }
}

/// The tags whose names begin with `prefix`, in the order of their names, up to `limit` of them.
pub(super) async fn beginning(
    client: &Client,
    prefix: &str,
    limit: Option<u64>,
) -> Result<Vec<Value>, Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut tags = Vec::new();
    let mut after = String::new();
    if !prefix.is_empty() {
        // Pages begin behind a name, and the first name with this prefix may be the prefix itself.
        match client.get(&path(prefix)).await {
            Ok(tag) => {
                tags.push(tag);
                left -= 1;
            }
            // A token may be for names with this prefix, but not for this one.
            Err(refused) if refused.is("unknown_tag") || refused.is("forbidden") => {}
            Err(failure) => return Err(failure),
        }
        after = format!("&after={}", path_segment::escape(prefix));
    }
    while left > 0 {
        let page = client.get(&format!("/v1/tags?limit={}{after}", left.min(PAGE))).await?;
        let mut found = page["tags"].as_array().cloned().unwrap_or_default();
        let has_ended = found.last().is_some_and(|last| !begins(last, prefix));
        found.retain(|tag| begins(tag, prefix));
        left -= left.min(found.len() as u64);
        tags.extend(found);
        match page["next"].as_str().filter(|next| !has_ended && next.starts_with(prefix)) {
            Some(next) => after = format!("&after={}", path_segment::escape(next)),
            None => break,
        }
    }
    Ok(tags)
}

/// Whether a tag's name begins with `prefix`. Names are listed in the order of their bytes, so such names stand
/// together.
fn begins(tag: &Value, prefix: &str) -> bool {
    tag["tag"].as_str().is_some_and(|name| name.starts_with(prefix))
}

/// Where a tag is.
pub(super) fn path(name: &str) -> String {
    format!("/v1/tags/{}", path_segment::escape(name))
}
