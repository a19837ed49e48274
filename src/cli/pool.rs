//! `mintleaf pool create|list|get|delete`: worker ids that programs lease.

use clap::Subcommand;
use hyper::Method;
use mintleaf_core::snowflake::{InvalidPool, WorkerPool};
use serde_json::{Value, json};

use super::client::Client;
use super::failure::Failure;
use super::output::{cell, confirm, print_json, print_styled, print_table, warn};
use super::table::TextTable;
use crate::text::path_segment::escape;
use crate::text::timestamp::rfc3339;

/// What can be done with pools of worker ids.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Make a pool, or give it more worker ids
    #[command(after_help = "Example:\n  mintleaf pool create shops --workers 16-1023")]
    Create {
        /// The pool's name
        name: String,
        /// Its worker ids up to 65535, such as 16-1023 or 0-9,20: all that it has, and more
        #[arg(long)]
        workers: WorkerPool,
        /// Worker ids in use elsewhere, such as 3,7: never leased until a list without them, or none, replaces this one
        #[arg(long, value_parser = taken)]
        taken: Option<Taken>,
    },
    /// List all pools
    #[command(after_help = "Example:\n  mintleaf pool list")]
    List,
    /// Show a pool, and the program that holds each worker id of it
    #[command(after_help = "Example:\n  mintleaf pool get shops")]
    Get {
        /// The pool's name
        name: String,
    },
    /// Delete a pool whose worker ids are all free
    #[command(after_help = "Example:\n  mintleaf pool delete shops --yes")]
    Delete {
        /// The pool's name
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

pub(super) async fn run(command: PoolCommand, client: &Client) -> Result<(), Failure> {
    match command {
        PoolCommand::Create { name, workers, taken } => {
            let mut body = json!({ "workers": workers.to_string() });
            if let Some(Taken(taken)) = taken {
                body["taken"] = taken.iter().flat_map(WorkerPool::worker_ids).collect();
            }
            let pool = client.change(Method::PUT, &path(&name), Some(&body)).await?;
            warn_of_shared(&pool);
            client.show(&pool, || heading(&pool))
        }
        PoolCommand::List => {
            let pools = client.get("/v1/pools").await?;
            if client.json {
                return print_json(&pools);
            }
            let rows = pools["pools"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut table =
                TextTable::new(["POOL", "WORKERS", "SIZE", "LEASED", "TAKEN", "FIRST END"])
                    .numbers(&["SIZE", "LEASED", "TAKEN"]);
            for row in rows {
                let [pool, workers, size, leased, taken] =
                    ["pool", "workers", "size", "leased", "taken"].map(|field| cell(row, field));
                table.row([pool, workers, size, leased, taken, time(row, "first_end_ms")]);
            }
            print_table(&table)
        }
        PoolCommand::Get { name } => {
            let pool = whole(client, &path(&name)).await?;
            if client.json { print_json(&pool) } else { print_styled(&text(&pool)) }
        }
        PoolCommand::Delete { name, yes } => {
            confirm(&format!("Delete the pool {name}?"), yes)?;
            client.change(Method::DELETE, &path(&name), None).await?;
            let deleted = json!({ "pool": name, "deleted": true });
            client.show(&deleted, || format!("deleted {name}\n"))
        }
    }
}

/// A pool with all of its holders; a page has at most 1,000 of them.
async fn whole(client: &Client, path: &str) -> Result<Value, Failure> {
    let mut pool = client.get(path).await?;
    while let Some(after) = pool["next"].as_u64() {
        let mut page = client.get(&format!("{path}?after={after}")).await?;
        if let (Some(all), Some(more)) =
            (pool["holders"].as_array_mut(), page["holders"].as_array_mut())
        {
            all.append(more);
        }
        pool["next"] = page["next"].take();
    }
    Ok(pool)
}

/// Warns of worker ids that the nodes or other pools have too.
fn warn_of_shared(pool: &Value) {
    for shared in pool["shared"].as_array().into_iter().flatten() {
        let (owner, workers) = match shared["pool"].as_str() {
            Some(_) => (format!("the pool {} has", cell(shared, "pool")), cell(shared, "workers")),
            None => ("the nodes have".to_owned(), cell(shared, "workers")),
        };
        warn(&format!(
            "{owner} the worker ids {workers} too: snowflakes made with them may be the same, so keep both out of one table"
        ));
    }
}

fn path(name: &str) -> String {
    format!("/v1/pools/{}", escape(name))
}

fn heading(pool: &Value) -> String {
    let [name, workers, size] = ["pool", "workers", "size"].map(|field| cell(pool, field));
    let leased = pool["holders"].as_array().map_or(0, Vec::len);
    let taken = pool["taken"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids = taken.iter().filter_map(|id| id.as_u64()?.try_into().ok());
    let taken = WorkerPool::of_ids(ids).map(|taken| format!(", {taken} taken")).unwrap_or_default();
    format!("pool {name}: worker ids {workers}, {leased} of {size} leased{taken}\n")
}

/// A point in time that an answer has as Unix milliseconds in a string.
fn time(row: &Value, field: &str) -> String {
    let ms = row[field].as_str().and_then(|text| text.parse().ok());
    ms.map_or("-".to_owned(), rfc3339)
}

/// Worker ids that programs use without a lease, if there are any.
#[derive(Clone, Debug)]
pub struct Taken(Option<WorkerPool>);

fn taken(text: &str) -> Result<Taken, InvalidPool> {
    if text == "none" { Ok(Taken(None)) } else { text.parse().map(|taken| Taken(Some(taken))) }
}

fn text(pool: &Value) -> String {
    let rows = pool["holders"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return heading(pool);
    }
    let mut table = TextTable::new(["WORKER", "HOLDER", "UNTIL", "FROM"])
        .numbers(&["WORKER"])
        .dispensable(&["FROM"]);
    for row in rows {
        let [worker, holder] = ["worker_id", "holder"].map(|field| cell(row, field));
        table.row([worker, holder, time(row, "until_ms"), time(row, "from_ms")]);
    }
    format!("{}\n{}", heading(pool), table.styled())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_shown_with_the_holder_of_each_worker_id_and_the_end_of_its_lease() {
        let holder =
            json!({"worker_id": 7, "holder": "shop-7", "from_ms": "0", "until_ms": "60000"});
        let mut pool = json!({"pool": "shops", "workers": "0-9", "size": 10, "holders": [holder], "next": null});
        let shown = anstream::adapter::strip_str(&text(&pool)).to_string();
        assert!(
            shown.starts_with("pool shops: worker ids 0-9, 1 of 10 leased\n\nWORKER"),
            "{shown}"
        );
        assert!(shown.contains("     7  shop-7  1970-01-01T00:01:00.000Z"), "{shown}");
        pool["taken"] = json!([1, 2, 8]);
        assert!(
            text(&pool).starts_with("pool shops: worker ids 0-9, 1 of 10 leased, 1-2,8 taken\n")
        );
    }
}
