//! What clients may rely on: every path, its successes, its failures, its limits.

mod buffers;
mod ids;
mod leaf;
mod ops;
mod tags;
mod tinyid;

use serde_json::json;

use crate::harness::{Answer, Api, Cluster, encoded, eventually, mintleaf, secs};

const LAST_ID: u64 = i64::MAX as u64;

/// A cluster of one that does not create tags automatically.
fn strict() -> Cluster {
    mintleaf().cluster(1)
}

fn create(api: Api, tag: &str, step: u32) -> Answer {
    api.post("/v1/tags", &json!({ "tag": tag, "step": step }))
}

/// The problem's code. Also checks everything that every problem must have.
#[track_caller]
fn refusal(answer: &Answer, status: u16, path: &str) -> (String, String) {
    let (got, code) = answer.problem();
    assert_eq!(got, status, "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store");
    let problem = answer.json();
    for member in ["type", "title", "detail"] {
        assert!(problem[member].is_string(), "{member} of {answer:?}");
    }
    assert_eq!(problem["instance"], path);
    (code, problem["detail"].as_str().unwrap().to_owned())
}
