//! A client of the cluster that sends one request at a time, and records each.

mod shaped;

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use mintleaf_check::history::{Admin, Call, Flakes, Ids, Interval, Outcome, Record, Row};
use mintleaf_harness::{Answer, NoAnswer, Recorder};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::Nodes;
use crate::links::NodeId;
use crate::logs::boot;
use crate::node::Incidents;

/// Longer than a node may take to answer a request for ids: after 2 s it refuses.
const IDS_WITHIN: Duration = Duration::from_secs(4);
/// Longer than a node may take to answer a change: 5 s.
const ADMIN_WITHIN: Duration = Duration::from_secs(7);

/// A client.
pub(crate) struct Session {
    /// Its number in the history.
    p: u32,
    client: Client,
    nodes: Arc<Nodes>,
    recorder: Arc<Recorder>,
    incidents: Arc<Mutex<Incidents>>,
}

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Sessions {
    pub(crate) client: Client,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) incidents: Arc<Mutex<Incidents>>,
}

impl Sessions {
    /// A new client with a number that no other client has.
    pub(crate) fn open(&self, p: u32) -> Session {
        let Self { client, nodes, recorder, incidents } = self.clone();
        Session { p, client, nodes, recorder, incidents }
    }
}

/// The format that ids are requested in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// Leaf's own path: a single bare id.
    Leaf,
    /// Version 1, as a list of ids.
    Ids(u64),
    /// Version 1, as ranges.
    Ranges(u64),
}

impl Form {
    fn count(self) -> u64 {
        match self {
            Self::Leaf => 1,
            Self::Ids(count) | Self::Ranges(count) => count,
        }
    }

    fn path(self, leaf: &str, v1: &str) -> String {
        match self {
            Self::Leaf => leaf.to_owned(),
            Self::Ids(1) => v1.to_owned(),
            Self::Ids(count) => format!("{v1}?count={count}"),
            Self::Ranges(count) => format!("{v1}?count={count}&format=ranges"),
        }
    }
}

/// A request that has ended.
struct Asked {
    call: Call<'static>,
    answer: Option<Answer>,
}

impl Session {
    /// Takes ids of a tag.
    pub(crate) async fn ids(&self, node: NodeId, tag: &str, form: Form) -> Outcome {
        let path = form.path(&format!("/api/segment/get/{tag}"), &format!("/v1/segment/{tag}"));
        let Asked { mut call, answer } = self.ask(node, Method::GET, &path, None, IDS_WITHIN).await;
        let r = self.given(&mut call, answer.as_ref(), form, &path);
        let out = call.out;
        self.recorder.write(&Record::Ids(Ids { call, key: tag.into(), r }));
        out
    }

    /// Takes snowflake ids.
    pub(crate) async fn flakes(&self, node: NodeId, form: Form) -> Outcome {
        let path = form.path("/api/snowflake/get/any", "/v1/snowflake");
        let Asked { mut call, answer } = self.ask(node, Method::GET, &path, None, IDS_WITHIN).await;
        let r = self.given(&mut call, answer.as_ref(), form, &path);
        let out = call.out;
        self.recorder.write(&Record::Flakes(Flakes { call, r }));
        out
    }

    /// The ids in an answer. An answer that is not exactly what was asked for is a broken promise.
    fn given(
        &self,
        call: &mut Call<'_>,
        answer: Option<&Answer>,
        form: Form,
        path: &str,
    ) -> Vec<Interval> {
        if call.out != Outcome::Ok {
            return Vec::new();
        }
        let given = answer.and_then(|answer| intervals(answer, form));
        let count = |given: &[Interval]| given.iter().map(|(start, end)| end - start).sum::<u64>();
        match given.filter(|given| count(given) == form.count()) {
            Some(given) => given,
            None => {
                self.outcry(format!("GET {path} was answered with {answer:?}"));
                call.out = Outcome::Info;
                Vec::new()
            }
        }
    }

    /// Creates a tag under a name that was never used before.
    pub(crate) async fn mark(&self, node: NodeId) -> Outcome {
        let tag = format!("mark-{}-{}", self.p, self.recorder.now());
        self.create(node, &tag, 1, &tag).await
    }

    /// Creates a tag. No other write should have the same description.
    pub(crate) async fn create(&self, node: NodeId, tag: &str, step: u32, text: &str) -> Outcome {
        let body = json!({ "tag": tag, "step": step, "description": text });
        self.create_as(node, tag, &body, step, text).await
    }

    async fn create_as(
        &self,
        node: NodeId,
        tag: &str,
        body: &Value,
        step: u32,
        text: &str,
    ) -> Outcome {
        let asked = self.ask(node, Method::POST, "/v1/tags", Some(body), ADMIN_WITHIN).await;
        let row = Row { step: Some(step), description: Some(text.into()), max_id: Some(1) };
        let (call, seen) = self.seen(asked, 201);
        let out = call.out;
        let (key, stale) = (tag.into(), false);
        self.recorder.write(&Record::Create(Admin { call, key, row: Some(row), seen, stale }));
        out
    }

    /// Changes a tag's step, description or both.
    pub(crate) async fn update(&self, node: NodeId, tag: &str, row: Row<'_>) -> Outcome {
        let mut body = json!({});
        if let Some(step) = row.step {
            body["step"] = json!(step);
        }
        if let Some(text) = &row.description {
            body["description"] = json!(text);
        }
        let path = format!("/v1/tags/{tag}");
        let asked = self.ask(node, Method::PATCH, &path, Some(&body), ADMIN_WITHIN).await;
        let (call, seen) = self.seen(asked, 200);
        let out = call.out;
        let (key, stale) = (tag.into(), false);
        self.recorder.write(&Record::Update(Admin { call, key, row: Some(row), seen, stale }));
        out
    }

    /// Deletes a tag.
    pub(crate) async fn delete(&self, node: NodeId, tag: &str) -> Outcome {
        let path = format!("/v1/tags/{tag}");
        let Asked { call, .. } = self.ask(node, Method::DELETE, &path, None, ADMIN_WITHIN).await;
        let (out, key) = (call.out, tag.into());
        let (row, seen, stale) = (None, None, false);
        self.recorder.write(&Record::Delete(Admin { call, key, row, seen, stale }));
        out
    }

    /// Reads a tag, either linearizably or as the node knows it. That the tag does not exist is a valid answer.
    pub(crate) async fn read(&self, node: NodeId, tag: &str, stale: bool) -> Outcome {
        let consistency = if stale { "?consistency=stale" } else { "" };
        let path = format!("/v1/tags/{tag}{consistency}");
        let mut asked = self.ask(node, Method::GET, &path, None, ADMIN_WITHIN).await;
        let absent = asked.call.code.as_ref().is_some_and(|code| code.0 == "unknown_tag");
        if absent {
            (asked.call.out, asked.call.code) = (Outcome::Ok, None);
        }
        let (call, seen) = if absent { (asked.call, None) } else { self.seen(asked, 200) };
        let out = call.out;
        let (key, row) = (tag.into(), seen);
        self.recorder.write(&Record::Read(Admin { call, key, row, seen: None, stale }));
        out
    }

    /// The row in an answer. A success without a row is a broken promise.
    fn seen(&self, asked: Asked, status: u16) -> (Call<'static>, Option<Row<'static>>) {
        let Asked { mut call, answer } = asked;
        let Some(answer) = answer.filter(|_| call.out == Outcome::Ok) else { return (call, None) };
        let seen = row(&answer.try_json().unwrap_or_default()).filter(|_| answer.status == status);
        if seen.is_none() {
            self.outcry(format!("a request about a tag was answered with {answer:?}"));
            call.out = Outcome::Info;
        }
        (call, seen)
    }

    async fn ask(
        &self,
        node: NodeId,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Asked {
        let asked = self.client.ask(node, method, path, body, within);
        let (mut call, answer) = self.observe(node, asked).await;
        if let Some(answer) = &answer {
            call.out = outcome(answer.status);
            if call.out != Outcome::Ok {
                let problem = answer.try_json().unwrap_or_default();
                call.code = problem["code"].as_str().map(|code| code.to_owned().into());
            }
        }
        Asked { call, answer }
    }

    /// Waits for an answer, without interpreting it. Until then the outcome is unknown, or that no node was reached.
    async fn observe<T>(
        &self,
        node: NodeId,
        asked: impl Future<Output = Result<T, NoAnswer>>,
    ) -> (Call<'static>, Option<T>) {
        let (before, inv) = (self.nodes.get(node).life(), self.recorder.now());
        let reply = asked.await;
        let (after, ret) = (self.nodes.get(node).life(), self.recorder.now());
        // If nothing changed in between, only this process can have answered.
        let known = before.pid.is_some() && before == after;
        let boot = known.then(|| boot(node, before.starts).into());
        let mut call =
            Call { p: self.p, node, boot, inv, ret: Some(ret), out: Outcome::Info, code: None };
        match reply {
            Ok(answer) => (call, Some(answer)),
            Err(NoAnswer::Unreached(_)) => {
                call.out = Outcome::Fail;
                (call, None)
            }
            Err(NoAnswer::Lost(_)) => {
                call.ret = None;
                (call, None)
            }
        }
    }

    fn outcry(&self, line: String) {
        eprintln!("chaos: {line}");
        self.incidents.lock().outcries.push(line);
    }
}

/// The outcome that a status stands for: a node that failed may have made the change, a node that refused has not.
fn outcome(status: u16) -> Outcome {
    match status {
        200..=299 => Outcome::Ok,
        400..=499 => Outcome::Fail,
        _ => Outcome::Info,
    }
}

/// The ids that were handed out, if the answer has the requested format.
fn intervals(answer: &Answer, form: Form) -> Option<Vec<Interval>> {
    let shape = match answer.try_json()? {
        Value::Number(_) => "a number",
        body if body["ranges"].is_array() => "ranges",
        _ => "ids",
    };
    let expected = match form {
        Form::Leaf => "a number",
        Form::Ids(_) => "ids",
        Form::Ranges(_) => "ranges",
    };
    answer.intervals().filter(|_| shape == expected)
}

fn row(tag: &Value) -> Option<Row<'static>> {
    Some(Row {
        step: Some(u32::try_from(tag["step"].as_u64()?).ok()?),
        description: Some(tag["description"].as_str()?.to_owned().into()),
        max_id: Some(tag["max_id"].as_str()?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &'static str) -> Answer {
        Answer { status: 200, headers: Default::default(), body: body.into() }
    }

    #[test]
    fn an_answer_of_another_shape_than_was_asked_for_has_no_ids() {
        let shapes = [
            ("17", Form::Leaf),
            (r#"{"tag":"a","ids":["4"]}"#, Form::Ids(1)),
            (r#"{"ranges":[{"start":"4","end":"8"}]}"#, Form::Ranges(4)),
            ("<html>", Form::Leaf),
        ];
        for (place, (body, _)) in shapes.iter().enumerate() {
            for (other, &(_, form)) in shapes[..3].iter().enumerate() {
                assert_eq!(intervals(&answer(body), form).is_some(), place == other, "{body}");
            }
        }
    }

    #[test]
    fn only_a_refusal_is_certain_not_to_have_happened() {
        assert_eq!(outcome(201), Outcome::Ok);
        assert_eq!(outcome(409), Outcome::Fail);
        assert_eq!(outcome(503), Outcome::Info);
    }
}
