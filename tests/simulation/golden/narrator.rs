//! A trace for people: the messages between nodes, and the events around them.
//!
//! Messages without news are folded: a heartbeat after the first one with its commit index, a request that
//! repeats the previous one on its link, and the answers to both. A separate line counts the folded messages.
//! Messages of the same moment with the same text share a line.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use mintleaf_raft::simulation::{Words, answer_in_words, request_in_words};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Writes the trace of one scene.
pub(crate) struct Narrator {
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    text: String,
    /// When the scene began. Nothing is written before that.
    began: Option<Instant>,
    /// The message that others of the same moment may still join.
    open: Option<Line>,
    /// The last request of each kind on each link: sender, receiver, kind. A request that does not arrive is
    /// stored without its text, so that all its repetitions are folded.
    last: BTreeMap<(u64, u64, &'static str), (Fate, String)>,
    /// How many requests were folded since the last line, by kind.
    folded: BTreeMap<&'static str, u64>,
    /// The latest term with a leader, and that leader.
    leader: Option<(u64, u64)>,
    /// A node that sends as the leader of an earlier term.
    outdated: Option<(u64, u64)>,
}

struct Line {
    at_ms: u128,
    from: Vec<u64>,
    to: Vec<u64>,
    arrow: &'static str,
    text: String,
}

/// What happens to a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// It arrives.
    Arrives,
    /// The link is cut.
    Lost,
    /// Nothing listens at the receiver's address.
    Refused,
}

impl Fate {
    fn arrow(self) -> &'static str {
        match self {
            Self::Arrives => "->",
            Self::Lost => "-x",
            Self::Refused => "-|",
        }
    }
}

impl Narrator {
    pub(crate) fn new() -> Self {
        Self { told: Mutex::default() }
    }

    /// Starts writing.
    pub(crate) fn listen(&self) {
        let told = &mut *self.told.lock();
        told.began = Some(Instant::now());
        told.folded.clear();
    }

    /// Writes an event that is not a message.
    pub(crate) fn say(&self, what: impl Display) {
        self.told.lock().event("==", what);
    }

    /// Writes a request. Returns its kind if the request has news; then its answer is written too.
    pub(crate) fn request(
        &self,
        from: u64,
        to: u64,
        frame: &[u8],
        fate: Fate,
    ) -> Option<&'static str> {
        let words = request_in_words(frame)?;
        let told = &mut *self.told.lock();
        told.note_leader(from, &words);
        let said = if fate == Fate::Arrives { words.text.clone() } else { String::new() };
        let last = told.last.insert((from, to, words.kind), (fate, said.clone()));
        if words.is_routine || last == Some((fate, said)) {
            told.fold(words.kind);
            return None;
        }
        told.message(from, to, fate, words.text);
        Some(words.kind)
    }

    /// Writes the answer to a request of this kind.
    pub(crate) fn answer(&self, from: u64, to: u64, kind: &str, answer: &[u8], fate: Fate) {
        let Some(Words { text, .. }) = answer_in_words(answer) else { return };
        let text = if (kind, &*text) == ("Prepare", "done") { "prepared".to_owned() } else { text };
        self.told.lock().message(from, to, fate, format!("  {text}"));
    }

    /// The whole trace.
    pub(crate) fn text(&self) -> String {
        let told = &mut *self.told.lock();
        told.close();
        std::mem::take(&mut told.text)
    }
}

impl Told {
    /// Milliseconds since the scene began; `None` before.
    fn now_ms(&self) -> Option<u128> {
        self.began.map(|began| began.elapsed().as_millis())
    }

    fn note_leader(&mut self, node: u64, words: &Words) {
        let Some(term) = words.leads else { return };
        let claim = Some((term, node));
        if self.leader < claim {
            self.leader = claim;
            self.event("**", format_args!("n{node} leads term {term}"));
        } else if self.leader > claim && self.outdated != claim {
            self.outdated = claim;
            self.event(
                "**",
                format_args!("n{node} still takes itself for the leader of term {term}"),
            );
        }
    }

    fn event(&mut self, mark: &str, what: impl Display) {
        if let Some(at_ms) = self.now_ms() {
            self.close();
            self.write(at_ms, format_args!("{mark} {what}"));
        }
    }

    /// Adds a message to the open line, or opens another.
    fn message(&mut self, from: u64, to: u64, fate: Fate, text: String) {
        let Some(at_ms) = self.now_ms() else { return };
        let arrow = fate.arrow();
        if let Some(open) = &mut self.open {
            let alike = (open.at_ms, open.arrow, &open.text) == (at_ms, arrow, &text);
            if alike && open.from == [from] {
                return open.to.push(to);
            }
            if alike && open.to == [to] {
                return open.from.push(from);
            }
        }
        self.close();
        self.open = Some(Line { at_ms, from: vec![from], to: vec![to], arrow, text });
    }

    fn fold(&mut self, kind: &'static str) {
        let now_ms = self.now_ms();
        if self.open.as_ref().is_some_and(|open| Some(open.at_ms) != now_ms) {
            self.close();
        }
        *self.folded.entry(kind).or_default() += 1;
    }

    /// Writes the open line.
    fn close(&mut self) {
        let Some(Line { at_ms, from, to, arrow, text }) = self.open.take() else { return };
        let ends = format!("{} {arrow} {}", nodes(&from), nodes(&to));
        self.write(at_ms, format_args!("{ends:<14} {text}"));
    }

    fn write(&mut self, at_ms: u128, what: impl Display) {
        if !self.folded.is_empty() {
            let counts = std::mem::take(&mut self.folded);
            let counts = counts.into_iter().map(|(kind, count)| format!("{count} {kind}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            let _ = writeln!(self.text, "{:>10}({counts})", "");
        }
        let (s, ms) = (at_ms / 1000, at_ms % 1000);
        let _ = writeln!(self.text, "{s:>4}.{ms:03}  {what}");
    }
}

fn nodes(ids: &[u64]) -> String {
    ids.iter().map(|id| format!("n{id}")).collect::<Vec<_>>().join(",")
}
