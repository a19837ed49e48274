//! The requests of clients and their outcomes, recorded for the judge of histories, `mintleaf-check`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use mintleaf_check::history::{Admin, Call, Flakes, Ids, Interval, Outcome, Record, Row};
use mintleaf_check::{Input, check};
use mintleaf_harness::{Answer, NoAnswer, Recorder};
use parking_lot::Mutex;

/// The number of the client that lists tags.
const LISTER: u32 = 1_000_000;

/// The history of a campaign, and the broken promises so far.
#[derive(Debug)]
pub(super) struct Ledger {
    history: Recorder,
    /// The latest listing of tags. Each listing is judged with the whole history, but without earlier listings.
    listing: PathBuf,
    /// Tags whose creation was acknowledged.
    tags: Mutex<BTreeSet<String>>,
    ids: AtomicU64,
    violations: Mutex<Vec<String>>,
}

/// A request under way.
pub(super) struct Asked {
    client: u32,
    node: u64,
    inv: u64,
}

/// A tag as a node lists it: its step, its description, its `max_id`.
pub(super) type Listed = (u32, String, u64);

impl Ledger {
    /// Starts a history in this directory.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            history: Recorder::create(&directory.join("history.jsonl"))?,
            listing: directory.join("listing.jsonl"),
            tags: Mutex::default(),
            ids: AtomicU64::new(0),
            violations: Mutex::default(),
        })
    }

    /// Notes that a client is about to ask a node.
    pub(super) fn ask(&self, client: u32, node: u64) -> Asked {
        Asked { client, node, inv: self.history.now() }
    }

    /// Records the outcome of a request for ids of a tag, or for snowflake ids. Returns whether it got any.
    pub(super) fn note_ids(
        &self,
        asked: &Asked,
        tag: Option<&str>,
        answer: &Result<Answer, NoAnswer>,
    ) -> bool {
        let mut call = self.call(asked, answer);
        let mut r: Vec<Interval> = Vec::new();
        if let (Outcome::Ok, Ok(answer)) = (call.out, answer) {
            match answer.intervals().filter(|given| !given.is_empty()) {
                Some(given) => r = given,
                None => {
                    self.violation(format!("node {} gave no ids: {answer:?}", asked.node));
                    call.out = Outcome::Info;
                }
            }
        }
        let count = r.iter().map(|(start, end)| end.saturating_sub(*start)).sum();
        self.ids.fetch_add(count, Ordering::Relaxed);
        self.history.write(&match tag {
            Some(tag) => Record::Ids(Ids { call, key: tag.into(), r }),
            None => Record::Flakes(Flakes { call, r }),
        });
        count > 0
    }

    /// Records the outcome of creating a tag whose description is its name. Returns whether it was created.
    pub(super) fn note_tag(
        &self,
        asked: &Asked,
        tag: &str,
        step: u32,
        answer: &Result<Answer, NoAnswer>,
    ) -> bool {
        let call = self.call(asked, answer);
        let created = call.out == Outcome::Ok;
        let row = Row { step: Some(step), description: Some(tag.into()), max_id: Some(1) };
        let (key, row, seen, stale) = (tag.into(), Some(row), None, false);
        self.history.write(&Record::Create(Admin { call, key, row, seen, stale }));
        if created {
            self.tags.lock().insert(tag.to_owned());
        }
        created
    }

    fn call(&self, asked: &Asked, answer: &Result<Answer, NoAnswer>) -> Call<'static> {
        let &Asked { client: p, node, inv } = asked;
        let mut ret = Some(self.history.now());
        let mut code = None;
        let out = match answer {
            Ok(answer) if answer.is_ok() => Outcome::Ok,
            Ok(answer) => {
                let problem = answer.try_json().unwrap_or_default();
                code = problem["code"].as_str().map(|code| code.to_owned().into());
                if answer.status < 500 { Outcome::Fail } else { Outcome::Info }
            }
            Err(NoAnswer::Unreached(_)) => Outcome::Fail,
            Err(NoAnswer::Lost(_)) => {
                ret = None;
                Outcome::Info
            }
        };
        Call { p, node, boot: None, inv, ret, out, code }
    }

    /// Records a broken promise that the campaign itself observed.
    pub(super) fn violation(&self, what: String) {
        self.violations.lock().push(what);
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// How many ids were handed out, and how many tags acknowledged.
    pub(super) fn counts(&self) -> (u64, usize) {
        (self.ids.load(Ordering::Relaxed), self.tags.lock().len())
    }

    /// The tags that a listing must contain if it is requested now.
    pub(super) fn acknowledged(&self) -> BTreeSet<String> {
        self.tags.lock().clone()
    }

    /// Lets the judge check the whole history, together with the listing that a node was `asked` for. A tag
    /// that is `expected` but not listed counts as read and absent.
    ///
    /// # Errors
    /// When the history has gaps.
    pub(super) fn judge(
        &self,
        asked: &Asked,
        expected: &BTreeSet<String>,
        listed: &BTreeMap<String, Listed>,
    ) -> io::Result<()> {
        let listing = self.history.beside(&self.listing)?;
        let call = Call {
            p: LISTER,
            node: asked.node,
            boot: None,
            inv: asked.inv,
            ret: Some(self.history.now()),
            out: Outcome::Ok,
            code: None,
        };
        let absent =
            expected.iter().filter(|tag| !listed.contains_key(*tag)).map(|tag| (tag, None));
        let there = listed.iter().map(|(tag, (step, text, max_id))| {
            let (step, max_id) = (Some(*step), Some(*max_id));
            (tag, Some(Row { step, description: Some(text.as_str().into()), max_id }))
        });
        for (tag, row) in there.chain(absent) {
            let (call, key, seen, stale) = (call.clone(), tag.as_str().into(), None, false);
            listing.write(&Record::Read(Admin { call, key, row, seen, stale }));
        }
        let mut input = Input::default();
        for part in [&self.history, &listing] {
            input.file(part.finish()?).map_err(io::Error::other)?;
        }
        let report = check(input, &mintleaf_check::Options::default()).map_err(io::Error::other)?;
        let broken = report.verdicts.iter().filter(|(_, verdict)| verdict.violations > 0);
        let counts = broken.map(|(invariant, verdict)| format!("{invariant:?} {verdict}"));
        let shown = report.violations.iter().map(|violation| violation.to_string());
        self.violations.lock().extend(counts.chain(shown));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> Result<Answer, NoAnswer> {
        Ok(Answer { status, headers: Default::default(), body: body.into() })
    }

    /// The violations if node 1 creates tag `t`, gives these ids of it, and lists it with this `max_id`, or
    /// does not list it.
    fn judged(ids: &[&'static str], listed: Option<u64>) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(directory.path()).unwrap();
        assert!(ledger.note_tag(&ledger.ask(1, 1), "t", 10, &answer(201, "{}")));
        for ids in ids {
            assert!(ledger.note_ids(&ledger.ask(1, 1), Some("t"), &answer(200, ids)));
        }
        let expected = ledger.acknowledged();
        let listed = listed.map(|max_id| ("t".to_owned(), (10, "t".to_owned(), max_id)));
        let listed = listed.into_iter().collect();
        ledger.judge(&ledger.ask(1, 1), &expected, &listed).unwrap();
        ledger.violations()
    }

    #[test]
    fn kept_promises_are_no_violation() {
        assert_eq!(judged(&["1", r#"{"ids":["2","5"]}"#], Some(6)), [""; 0]);
    }

    #[test]
    fn an_id_given_twice_is_found() {
        let found = judged(&["7", r#"{"ranges":[{"start":"6","end":"9"}]}"#], Some(20));
        assert!(found.iter().any(|found| found.contains("id 7 was handed out twice")), "{found:?}");
    }

    #[test]
    fn a_lost_tag_and_a_lowered_mark_are_found() {
        let lost = judged(&["1"], None);
        assert!(lost.iter().any(|found| found.starts_with("I6 VIOLATED")), "{lost:?}");
        let lowered = judged(&["5"], Some(5));
        assert!(lowered.iter().any(|found| found.starts_with("I3 VIOLATED")), "{lowered:?}");
    }

    #[test]
    fn an_answer_without_ids_is_a_violation_and_a_refusal_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(directory.path()).unwrap();
        assert!(!ledger.note_ids(&ledger.ask(1, 1), None, &answer(503, "{}")));
        assert!(ledger.violations().is_empty());
        assert!(!ledger.note_ids(&ledger.ask(1, 1), None, &answer(200, "<html>")));
        assert_eq!(ledger.violations().len(), 1);
    }
}
