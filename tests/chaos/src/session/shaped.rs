//! Requests for tags with shapes: strict tags, sequences, and tags with periods.

use hyper::Method;
use mintleaf_check::history::{Call, Drawn, Ids, Interval, Outcome, Record, Strict};
use mintleaf_harness::Answer;
use serde_json::{Value, json};

use super::{Asked, Form, IDS_WITHIN, Session};
use crate::lines::{of_key, of_period, of_section, section_of};
use crate::links::NodeId;

impl Session {
    /// Records that ids of this name rise over all nodes, for the judge.
    pub(crate) fn promise_order(&self, key: &str) {
        self.recorder.write(&Record::Strict(Strict { key: key.into() }));
    }

    /// Records that numbers of a key rise over all nodes, and what they are drawn from, for the judge.
    pub(crate) fn introduce_key(&self, tag: &str, key: &str) {
        let name = of_key(tag, key);
        self.promise_order(&name);
        let from = of_section(tag, section_of(key)).into();
        self.recorder.write(&Record::Drawn(Drawn { key: name.into(), from }));
    }

    /// Creates a tag with these fields in addition to those that every tag has.
    pub(crate) async fn create_shaped(
        &self,
        node: NodeId,
        tag: &str,
        shape: &Value,
        step: u32,
        text: &str,
    ) -> Outcome {
        let mut body = json!({ "tag": tag, "step": step, "description": text });
        for (field, value) in shape.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        self.create_as(node, tag, &body, step, text).await
    }

    /// Takes numbers of a key over HTTP. In the history each key is a separate tag.
    pub(crate) async fn numbers(&self, node: NodeId, tag: &str, key: &str, form: Form) -> Outcome {
        let path = format!("/v1/sequence/{tag}/{key}");
        let path = form.path(&path, &path);
        let Asked { mut call, answer } = self.ask(node, Method::GET, &path, None, IDS_WITHIN).await;
        let r = self.given(&mut call, answer.as_ref(), form, &path);
        let (out, key) = (call.out, of_key(tag, key).into());
        self.recorder.write(&Record::Ids(Ids { call, key, r }));
        out
    }

    /// Takes numbers of a key over the Redis protocol.
    pub(crate) async fn numbers_by_redis(
        &self,
        node: NodeId,
        tag: &str,
        key: &str,
        count: u64,
    ) -> Outcome {
        let words = format!("HINCRBY {tag} {key} {count}");
        let asked = self.client.command(node, &words, IDS_WITHIN);
        let (mut call, answer) = self.observe(node, asked).await;
        let mut r = Vec::new();
        // The answer is the last number. An error may follow after numbers were taken.
        match answer.as_deref().map(|line| (line, last_of(line))) {
            Some((_, Some(last))) if last >= count => {
                call.out = Outcome::Ok;
                r.push((last + 1 - count, last + 1));
            }
            Some((line, _)) if !line.starts_with('-') => {
                self.outcry(format!("{words} was answered with {line:?}"));
            }
            _ => {}
        }
        let (out, key) = (call.out, of_key(tag, key).into());
        self.recorder.write(&Record::Ids(Ids { call, key, r }));
        out
    }

    /// Takes ids of a tag with periods.
    pub(crate) async fn ids_of_period(&self, node: NodeId, tag: &str, form: Form) -> Outcome {
        let (call, given) = self.dated(node, tag, form).await;
        let (key, r) = match given {
            Some((period, r)) => of_period(tag, period, r),
            None => (tag.to_owned(), Vec::new()),
        };
        let out = call.out;
        self.recorder.write(&Record::Ids(Ids { call, key: key.into(), r }));
        out
    }

    /// Takes ids of a tag with periods. Returns their period, and their numbers within it.
    async fn dated(
        &self,
        node: NodeId,
        tag: &str,
        form: Form,
    ) -> (Call<'static>, Option<(u64, Vec<Interval>)>) {
        let path = format!("/v1/segment/{tag}");
        let path = form.path(&path, &path);
        let Asked { mut call, answer } = self.ask(node, Method::GET, &path, None, IDS_WITHIN).await;
        if call.out != Outcome::Ok {
            return (call, None);
        }
        let Some((period, bare)) = answer.as_ref().and_then(without_period) else {
            self.outcry(format!("GET {path} was answered with {answer:?}, which names no period"));
            call.out = Outcome::Info;
            return (call, None);
        };
        let r = self.given(&mut call, Some(&bare), form, &path);
        (call, Some((period, r)))
    }
}

/// The number in a line of the Redis protocol, if the line is one.
fn last_of(line: &str) -> Option<u64> {
    line.strip_prefix(':')?.parse().ok()
}

/// The period in an answer, and the answer as if its ids were bare numbers. The texts of its ids begin with the period.
fn without_period(answer: &Answer) -> Option<(u64, Answer)> {
    let mut body = answer.try_json()?;
    let period = body["period"].as_str()?.to_owned();
    for id in body["ids"].as_array_mut().into_iter().flatten() {
        let number: u64 = id.as_str()?.strip_prefix(&*period)?.parse().ok()?;
        *id = number.to_string().into();
    }
    let (status, headers) = (answer.status, answer.headers.clone());
    Some((period.parse().ok()?, Answer { status, headers, body: body.to_string().into() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::intervals;

    fn answer(body: &'static str) -> Answer {
        Answer { status: 200, headers: Default::default(), body: body.into() }
    }

    #[test]
    fn ids_of_a_period_are_taken_out_of_their_texts() {
        let texts =
            r#"{"tag":"days","period":"20261122","ids":["20261122000009","20261122000010"]}"#;
        let (period, bare) = without_period(&answer(texts)).unwrap();
        assert_eq!((period, intervals(&bare, Form::Ids(2))), (20_261_122, Some(vec![(9, 11)])));
        let ranges = r#"{"period":"20261122","ranges":[{"start":"3","end":"7"}]}"#;
        let (_, bare) = without_period(&answer(ranges)).unwrap();
        assert_eq!(intervals(&bare, Form::Ranges(4)), Some(vec![(3, 7)]));
    }

    #[test]
    fn an_answer_without_its_period_has_no_ids() {
        for body in [r#"{"ids":["7"]}"#, r#"{"period":"2026","ids":["2027000007"]}"#, "7"] {
            assert!(without_period(&answer(body)).is_none(), "{body}");
        }
    }

    #[test]
    fn only_a_number_of_the_redis_protocol_is_one() {
        assert_eq!(last_of(":17"), Some(17));
        assert_eq!([":", "$2", "-UNAVAILABLE no quorum", ":1x"].map(last_of), [None; 4]);
    }
}
