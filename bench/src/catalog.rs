//! The rows: what each compares, and the figure that it should reach.

use crate::Result;
use crate::bench::Bench;
use crate::goal::Goal;
use crate::rows::ordered::{Asked, Kind};
use crate::rows::{
    commits, counters, doors, elections, failover, ids, latency, ordered, refusals, tags,
};
use crate::stats::Spread;

/// One line of the table.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) work: &'static str,
    pub(crate) goal: Option<Goal>,
    pub(crate) needs: &'static [Need],
    pub(crate) measure: fn(&Bench) -> Result<Finding>,
}

/// A requirement of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// A separate core for the generator.
    TwoCores,
    /// A program on the machine.
    Program(&'static str),
    /// The node with a great many tags.
    ManyTags,
}

/// The outcome of a row.
pub(crate) struct Finding {
    pub(crate) ours: String,
    pub(crate) reference: String,
    pub(crate) figure: Spread,
}

const NGINX: &[Need] = &[Need::TwoCores, Need::Program("nginx")];
const REDIS: &[Need] = &[Need::TwoCores, Need::Program("redis-server")];
const ETCD: &[Need] = &[Need::TwoCores, Need::Program("etcd")];
pub(crate) const ALONE: &[Need] = &[Need::TwoCores];
const TAGS: &[Need] = &[Need::ManyTags];
const TAGS_REDIS: &[Need] = &[Need::ManyTags, Need::Program("redis-server")];

/// Every row, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    Row {
        id: "aa",
        work: "nginx against itself: what the method cannot tell apart",
        goal: None,
        needs: NGINX,
        measure: ids::nginx_itself,
    },
    Row {
        id: "single",
        work: "one id a request, 64 connections; CPU a request, to nginx with a fixed answer",
        goal: Goal::below(1.05, 0.95, ""),
        needs: NGINX,
        measure: ids::single,
    },
    Row {
        id: "pipe16",
        work: "the same pipelined by 16; requests/s",
        goal: Goal::above(6.0, 10.0, ""),
        needs: NGINX,
        measure: |bench| ids::pipelined(bench, 16),
    },
    Row {
        id: "pipe64",
        work: "the same pipelined by 64; requests/s",
        goal: Goal::above(12.0, 30.0, ""),
        needs: NGINX,
        measure: |bench| ids::pipelined(bench, 64),
    },
    Row {
        id: "aa99",
        work: "p99 of bare hyper at half its rate, to itself: what the method cannot tell apart",
        goal: None,
        needs: ALONE,
        measure: latency::hyper_itself,
    },
    Row {
        id: "p99",
        work: "p99 at half of bare hyper's rate while segments refill, to bare hyper",
        goal: Goal::below(1.3, 1.1, ""),
        needs: ALONE,
        measure: latency::refilling,
    },
    Row {
        id: "p99kill",
        work: "the same on one of three nodes while the leader is killed",
        goal: Goal::below(1.3, 1.1, ""),
        needs: ALONE,
        measure: latency::leader_killed,
    },
    Row {
        id: "resp1",
        work: "INCR of one key, 64 connections; requests/s, to Redis in memory",
        goal: Goal::above(1.0, 1.08, ""),
        needs: REDIS,
        measure: |bench| counters::incr(bench, 1, 1),
    },
    Row {
        id: "resp16",
        work: "the same pipelined by 16",
        goal: Goal::above(1.3, 1.6, ""),
        needs: REDIS,
        measure: |bench| counters::incr(bench, 1, 16),
    },
    Row {
        id: "resp64",
        work: "the same pipelined by 64",
        goal: Goal::above(2.0, 2.6, ""),
        needs: REDIS,
        measure: |bench| counters::incr(bench, 1, 64),
    },
    Row {
        id: "keys1",
        work: "INCR of 1,000 keys in turn; requests/s, to Redis in memory",
        goal: Goal::above(1.0, 1.08, ""),
        needs: REDIS,
        measure: |bench| counters::incr(bench, 1_000, 1),
    },
    Row {
        id: "keys16",
        work: "the same pipelined by 16",
        goal: Goal::above(1.3, 1.6, ""),
        needs: REDIS,
        measure: |bench| counters::incr(bench, 1_000, 16),
    },
    Row {
        id: "keys64",
        work: "the same pipelined by 64",
        goal: Goal::above(2.0, 2.6, ""),
        needs: REDIS,
        measure: |bench| counters::incr(bench, 1_000, 64),
    },
    Row {
        id: "batch",
        work: "1,000 ids a request as text; requests/s, to requests for one id",
        goal: Goal::above(0.5, 0.7, ""),
        needs: ALONE,
        measure: ids::batch,
    },
    Row {
        id: "snowflake",
        work: "one snowflake id a request; as many for the same CPU, to ids of a tag",
        goal: Goal::above(0.95, 1.0, ""),
        needs: ALONE,
        measure: ids::snowflake,
    },
    Row {
        id: "token",
        work: "ids of 1,000 tags in turn, with a token; CPU a request, to a node that asks for none",
        goal: Goal::below(1.05, 1.02, ""),
        needs: ALONE,
        measure: |bench| doors::token(bench, 1),
    },
    Row {
        id: "token16",
        work: "the same pipelined by 16",
        goal: Goal::below(1.05, 1.02, ""),
        needs: ALONE,
        measure: |bench| doors::token(bench, 16),
    },
    Row {
        id: "login",
        work: "INCR of 1,000 keys in turn, logged in; CPU a command, to a node that asks for no login",
        goal: Goal::below(1.05, 1.02, ""),
        needs: ALONE,
        measure: |bench| doors::login(bench, 1),
    },
    Row {
        id: "login16",
        work: "the same pipelined by 16",
        goal: Goal::below(1.05, 1.02, ""),
        needs: ALONE,
        measure: |bench| doors::login(bench, 16),
    },
    Row {
        id: "limited",
        work: "ids of a tag with a rate limit; CPU a request, to one without",
        goal: Goal::below(1.05, 1.02, ""),
        needs: ALONE,
        measure: |bench| doors::limited(bench, 1),
    },
    Row {
        id: "limited16",
        work: "the same pipelined by 16",
        goal: None,
        needs: ALONE,
        measure: |bench| doors::limited(bench, 16),
    },
    Row {
        id: "tls",
        work: "one id a request by TLS 1.3, 64 connections; CPU a request, to nginx with a fixed answer by TLS",
        goal: Goal::below(1.35, 1.0, ""),
        needs: NGINX,
        measure: doors::tls_to_nginx,
    },
    Row {
        id: "tls-cost",
        work: "the same, to a node without TLS",
        goal: None,
        needs: ALONE,
        measure: doors::tls_to_plain,
    },
    Row {
        id: "guess",
        work: "time of a refusal over HTTP, by how much of the token is right; to a wrong token",
        goal: None,
        needs: ALONE,
        measure: refusals::http,
    },
    Row {
        id: "guess-resp",
        work: "the same of AUTH, to a wrong name and token",
        goal: None,
        needs: ALONE,
        measure: refusals::resp,
    },
    Row {
        id: "memory",
        work: "resident memory with all the tags, to Redis with as many counters",
        goal: Goal::below(3.0, 1.0, ""),
        needs: TAGS_REDIS,
        measure: tags::memory,
    },
    Row {
        id: "idle",
        work: "that node at rest; share of a core",
        goal: Goal::below(1.0, 0.3, " %"),
        needs: TAGS,
        measure: tags::idle,
    },
    Row {
        id: "start",
        work: "its start until it is ready",
        goal: Goal::below(5.0, 1.0, " s"),
        needs: TAGS,
        measure: tags::start,
    },
    Row {
        id: "grab",
        work: "one durable change on three nodes, one caller; p50, to etcd's put",
        goal: Goal::below(1.0, 0.4, ""),
        needs: ETCD,
        measure: commits::one_caller,
    },
    Row {
        id: "grabs50",
        work: "the same by 50 callers; changes/s",
        goal: Goal::above(2.0, 5.0, ""),
        needs: ETCD,
        measure: commits::many_callers,
    },
    Row {
        id: "grab-tls",
        work: "one durable change by one caller, TLS between nodes; p50, to none",
        goal: Goal::below(1.15, 1.05, ""),
        needs: ALONE,
        measure: commits::one_caller_by_tls,
    },
    Row {
        id: "grabs50-tls",
        work: "the same by 50 callers; changes/s",
        goal: Goal::above(0.85, 0.95, ""),
        needs: ALONE,
        measure: commits::many_callers_by_tls,
    },
    Row {
        id: "sequence",
        work: "numbers of a million keys in turn, pipelined by 16, at the leader of three nodes; thousands a second",
        goal: Goal::above(300.0, 400.0, " k/s"),
        needs: ALONE,
        measure: |bench| ordered::rate(bench, Kind::Sequence, Asked::Leader),
    },
    Row {
        id: "sequence-f",
        work: "the same at a follower, which asks the leader",
        goal: Goal::above(150.0, 200.0, " k/s"),
        needs: ALONE,
        measure: |bench| ordered::rate(bench, Kind::Sequence, Asked::Follower),
    },
    Row {
        id: "sequence-1",
        work: "one number for a lone caller at the leader; p50, to etcd's linearizable read",
        goal: Goal::below(1.5, 1.0, ""),
        needs: ETCD,
        measure: |bench| ordered::one_caller(bench, Kind::Sequence),
    },
    Row {
        id: "strict",
        work: "ids of one strict tag, pipelined by 16, at the leader of three nodes; thousands a second",
        goal: Goal::above(300.0, 400.0, " k/s"),
        needs: ALONE,
        measure: |bench| ordered::rate(bench, Kind::Strict, Asked::Leader),
    },
    Row {
        id: "strict-f",
        work: "the same at a follower, which asks the leader",
        goal: Goal::above(150.0, 200.0, " k/s"),
        needs: ALONE,
        measure: |bench| ordered::rate(bench, Kind::Strict, Asked::Follower),
    },
    Row {
        id: "strict-1",
        work: "one strict id for a lone caller at the leader; p50, to etcd's linearizable read",
        goal: Goal::below(1.5, 1.0, ""),
        needs: ETCD,
        measure: |bench| ordered::one_caller(bench, Kind::Strict),
    },
    Row {
        id: "failover",
        work: "leader killed until another node has grabbed anew",
        goal: Goal::below(0.35, 0.25, " s"),
        needs: &[],
        measure: failover::after_kill,
    },
    Row {
        id: "elections",
        work: "new terms while all three nodes are under full load",
        goal: Goal::below(0.0, 0.0, ""),
        needs: ALONE,
        measure: elections::under_load,
    },
];

/// The rows of these names, or all rows when no name is given.
///
/// # Errors
/// When no row has one of the names.
pub(crate) fn selected(rows: &'static [Row], only: &[String]) -> Result<Vec<&'static Row>> {
    if let Some(name) = only.iter().find(|name| !rows.iter().any(|row| row.id == **name)) {
        return Err(format!("there is no row {name}; --list shows those there are").into());
    }
    let wanted = |row: &&Row| only.is_empty() || only.iter().any(|name| name == row.id);
    Ok(rows.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_names() {
        assert_eq!(selected(ROWS, &[]).unwrap().len(), ROWS.len());
        let two = selected(ROWS, &["p99".to_owned(), "aa".to_owned()]).unwrap();
        assert_eq!(two.iter().map(|row| row.id).collect::<Vec<_>>(), ["aa", "p99"]);
        assert!(selected(ROWS, &["none".to_owned()]).is_err());
    }
}
