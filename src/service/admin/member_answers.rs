//! What every member answers to a question that a client of this node has.
//!
//! A node asks the others when a client asks it, so no message is sent while no client asks. A member that is gone does
//! not answer. The last answers are kept for a moment.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_codec as codec;
use mintleaf_raft::{Handle, MemberStatus};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// For how long other clients get the same answers: however many ask, the members are asked 20 times a second at most.
const SHARED_MAX: Duration = Duration::from_millis(50);
/// Time that a member gets to answer, besides two round trips; all of it together is at most [`ANSWER_MAX`].
const ANSWER_MIN: Duration = Duration::from_millis(400);
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// A member of a release that supports only lower levels is not asked: it would end the connection.
const LEVEL_MIN: u32 = 3;

/// The format of a [`Question`] and of its answer, in their first bytes.
const FORMAT: u8 = 3;

/// What one node asks of another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum Question {
    /// Where clients of the Redis protocol find you; nowhere, unless you are ready.
    WhereRedis,
    /// How many ids you have handed out, and how many requests have failed. A member that does not know this question
    /// has no answer.
    Counts,
}

/// Reads the answer of a member, by its Raft id; `None` for one that no member would give.
pub(super) type ReadAnswer<A> = fn(u64, &[u8]) -> Option<A>;

/// The answers of all members to one question.
pub(super) struct MemberAnswers<A> {
    question: Question,
    read: ReadAnswer<A>,
    /// The last answers, in their order, and when the members were asked.
    last: Mutex<Option<(Instant, Arc<[A]>)>>,
}

impl<A: Ord + Send + 'static> MemberAnswers<A> {
    pub(super) fn new(question: Question, read: ReadAnswer<A>) -> Self {
        Self { question, read, last: Mutex::default() }
    }

    /// What the members answer now, and this node itself if it has an answer.
    pub(super) async fn now(&self, node: &Handle, own: impl FnOnce() -> Option<A>) -> Arc<[A]> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        let began = Instant::now();
        if let Some((began, answers)) = &*last
            && *began + SHARED_MAX >= asked
        {
            return Arc::clone(answers);
        }
        let mut answers = self.ask_others(node).await;
        answers.extend(own());
        answers.sort_unstable();
        let answers: Arc<[A]> = answers.into();
        *last = Some((began, Arc::clone(&answers)));
        answers
    }

    /// Asks every other member that may answer.
    async fn ask_others(&self, node: &Handle) -> Vec<A> {
        let (status, mut asked) = (node.status(), JoinSet::new());
        let others = status.members.iter().filter(|member| member.id != status.node_id);
        for member in others.filter(|member| may_answer(member)) {
            let within = ANSWER_MIN + 2 * member.round_trip.unwrap_or_default();
            let deadline = Instant::now() + within.min(ANSWER_MAX);
            let (node, id, read) = (node.clone(), member.id, self.read);
            let question = codec::encode(FORMAT, &self.question);
            asked.spawn(async move {
                let answer = node.ask_member(id, question, deadline).await.ok()?;
                read(id, &answer)
            });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }
}

/// The question of another member; `None` if the bytes are something else.
pub(super) fn question(request: &[u8]) -> Option<Question> {
    codec::decode_as(FORMAT, request).ok()
}

/// The bytes of an answer.
pub(super) fn answer<T: Serialize>(answer: &T) -> Vec<u8> {
    codec::encode(FORMAT, answer)
}

/// Reads what [`answer`] wrote; `None` for anything else.
pub(super) fn read<T: serde::de::DeserializeOwned>(answer: &[u8]) -> Option<T> {
    codec::decode_as(FORMAT, answer).ok()
}

/// Whether a member can be reached, and is not known to run a release that has no answer.
fn may_answer(member: &MemberStatus) -> bool {
    let release = member.release.as_ref();
    member.reachable && release.is_none_or(|release| release.level >= LEVEL_MIN)
}

#[cfg(test)]
mod tests {
    use mintleaf_raft::{Release, Role};

    use super::*;

    fn member(reachable: bool, level: Option<u32>) -> MemberStatus {
        MemberStatus {
            id: 2,
            raft: String::new(),
            http: String::new(),
            role: Role::Voter,
            matched_index: None,
            reachable,
            silence: None,
            round_trip: None,
            sync: None,
            declines: false,
            release: level.map(|level| Release { level, version: String::new() }),
            zone: None,
        }
    }

    #[test]
    fn a_member_of_an_older_release_is_not_asked() {
        assert!(may_answer(&member(true, Some(LEVEL_MIN))) && may_answer(&member(true, None)));
        assert!(!may_answer(&member(true, Some(LEVEL_MIN - 1))));
        assert!(!may_answer(&member(false, Some(LEVEL_MIN))));
    }

    #[test]
    fn questions_and_answers_of_another_format_are_not_read() {
        for asked in [Question::WhereRedis, Question::Counts] {
            assert_eq!(question(&answer(&asked)), Some(asked));
            assert_eq!(question(&codec::encode(FORMAT - 1, &asked)), None);
        }
        assert_eq!(question(b""), None);
        assert_eq!(read::<u64>(&codec::encode(FORMAT - 1, &7_u64)), None);
    }
}
