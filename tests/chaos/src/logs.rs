//! Reads the logs of nodes: their grants, lines that must never appear, and their last words.

use std::fmt;

use mintleaf_check::history::{Grant, Record, Release, Window};
use mintleaf_harness::Recorder;
use serde_json::Value;

use crate::lines::{of_period, of_section};
use crate::links::NodeId;

/// The target under which nodes log their grants; see the README.
pub(crate) const GRANTS_TARGET: &str = "mintleaf::grants";
/// How many of its last lines are kept to explain why a process ended.
const LAST_WORDS: usize = 3;

/// Reads the log of one process.
pub(crate) struct Reader<'a> {
    node: NodeId,
    boot: String,
    recorder: &'a Recorder,
    last_words: Vec<String>,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Line {
    /// A grant or its end, which has been recorded.
    Granted,
    /// A line that must never appear.
    Outcry,
    /// Anything else.
    Other,
}

impl Line {
    pub(crate) fn is_outcry(self) -> bool {
        self == Self::Outcry
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(node: NodeId, start: u64, recorder: &'a Recorder) -> Self {
        Self { node, boot: boot(node, start), recorder, last_words: Vec::new() }
    }

    /// Reads the next line.
    pub(crate) fn read(&mut self, line: &str) -> Line {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            self.keep(line);
            return Self::judge(line);
        };
        let fields = &event["fields"];
        if event["target"] == GRANTS_TARGET && self.granted(fields).is_some() {
            return Line::Granted;
        }
        if event["level"] == "ERROR" {
            self.keep(&fields.to_string());
        }
        Self::judge(line)
    }

    fn judge(line: &str) -> Line {
        let terrible = ["panicked at", "invariant"].iter().any(|word| line.contains(word));
        if terrible { Line::Outcry } else { Line::Other }
    }

    fn keep(&mut self, line: &str) {
        if self.last_words.len() == LAST_WORDS {
            self.last_words.remove(0);
        }
        self.last_words.push(line.to_owned());
    }

    /// Records a grant; `None` when the line is about something else.
    fn granted(&self, fields: &Value) -> Option<()> {
        let (node, at) = (self.node, self.recorder.now());
        let boot = Some(self.boot.as_str().into());
        let number = |name: &str| fields[name].as_u64();
        let worker = || number("worker_id").and_then(|id| u16::try_from(id).ok());
        let record = match fields["message"].as_str()? {
            "segment granted" => {
                let (tag, r) = (fields["tag"].as_str()?, vec![(number("start")?, number("end")?)]);
                let (key, r) = match number("period") {
                    Some(period) => of_period(tag, period, r),
                    None => (tag.to_owned(), r),
                };
                Record::Grant(Grant { key: key.into(), node, boot, at, r })
            }
            "section granted" => {
                let key = of_section(fields["tag"].as_str()?, number("section")?).into();
                let r = vec![(number("start")?, number("end")?)];
                Record::Grant(Grant { key, node, boot, at, r })
            }
            "window granted" => {
                let w = (number("floor_ms")?, number("fence_ms")?);
                Record::Window(Window { worker: worker()?, node, boot, at, w })
            }
            "window given up" => {
                let from_ms = number("unused_from_ms")?;
                Record::Release(Release { worker: worker()?, node, boot, at, from_ms })
            }
            _ => return None,
        };
        self.recorder.write(&record);
        Some(())
    }

    pub(crate) fn last_words(self) -> LastWords {
        LastWords(self.last_words)
    }
}

/// The name of one process start in a history.
pub(crate) fn boot(node: NodeId, start: u64) -> String {
    format!("{node}-{start}")
}

/// The last lines of a process.
#[derive(Clone, Debug)]
pub(crate) struct LastWords(Vec<String>);

impl LastWords {
    /// Whether they demand that the data directory be wiped before the next start.
    pub(crate) fn demands_wipe(&self) -> bool {
        self.0.iter().any(|line| line.contains("wipe"))
    }
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<Line>, LastWords, String) {
        let dir = std::env::temp_dir().join(format!("mintleaf-chaos-logs-{}", std::process::id()));
        let recorder = Recorder::create(&dir).unwrap();
        let mut reader = Reader::new(2, 7, &recorder);
        let read = lines.iter().map(|line| reader.read(line)).collect();
        let words = reader.last_words();
        let history = std::fs::read_to_string(recorder.finish().unwrap()).unwrap();
        std::fs::remove_file(dir).unwrap();
        (read, words, history)
    }

    #[test]
    fn grants_go_into_the_history_and_panics_are_noticed() {
        let (read, words, history) = read(&[
            r#"{"level":"DEBUG","fields":{"message":"segment granted","tag":"a","start":5,"end":9},"target":"mintleaf::grants"}"#,
            r#"{"level":"DEBUG","fields":{"message":"segment granted","tag":"a","period":2026,"start":1,"end":9},"target":"mintleaf::grants"}"#,
            r#"{"level":"DEBUG","fields":{"message":"section granted","tag":"s","section":17,"start":1,"end":9},"target":"mintleaf::grants"}"#,
            r#"{"level":"DEBUG","fields":{"message":"window given up","worker_id":3,"unused_from_ms":8},"target":"mintleaf::grants"}"#,
            r#"{"level":"INFO","fields":{"message":"ready"},"target":"mintleaf"}"#,
            "thread 'main' panicked at src/main.rs:1:1:",
            "wipe it, remove the node from the cluster, and join it again",
        ]);
        let (granted, rest) = read.split_at(4);
        assert_eq!(granted, [Line::Granted; 4]);
        assert_eq!(rest, [Line::Other, Line::Outcry, Line::Other]);
        assert!(words.demands_wipe());
        assert!(history.contains(r#""key":"a","node":2,"boot":"2-7""#), "{history}");
        assert!(history.contains(r#""key":"a/2026","node":2"#), "{history}");
        assert!(history.contains(r##""key":"s#17","node":2"##), "{history}");
        assert!(history.contains(r#""from_ms":8"#), "{history}");
    }
}
