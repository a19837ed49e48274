//! The votes that this node has given or may be giving, recorded before a candidate can learn of them.
//!
//! openraft's metrics show a vote only after its candidate was answered. When a leader asks whether a later leader
//! may exist, the answer must not come from a source that lags behind: see `DESIGN.md` ("Confirmed leadership").

use std::sync::Arc;

use parking_lot::Mutex;

use crate::types::RaftVote;

/// The votes besides the one that openraft's metrics show.
pub(crate) struct GivenVotes(Arc<Mutex<Given>>);

struct Given {
    /// The latest vote that was given.
    latest: RaftVote,
    /// The votes that openraft is being asked for.
    asked: Vec<RaftVote>,
}

impl GivenVotes {
    /// `on_disk` is the vote that this node starts with.
    pub(crate) fn new(on_disk: RaftVote) -> Self {
        Self(Arc::new(Mutex::new(Given { latest: on_disk, asked: Vec::new() })))
    }

    /// Records a vote before openraft is asked for it. It counts as given until openraft has answered.
    pub(crate) fn ask(&self, vote: RaftVote) -> AskedVote {
        self.0.lock().asked.push(vote);
        AskedVote { all: Arc::clone(&self.0), vote }
    }

    /// The latest of `own`, which the metrics show, and the votes that were or may be given.
    pub(crate) fn latest(&self, own: RaftVote) -> RaftVote {
        let given = self.0.lock();
        let all = given.asked.iter().copied().chain([given.latest]);
        all.fold(own, later)
    }
}

/// A vote that openraft is being asked for.
pub(crate) struct AskedVote {
    all: Arc<Mutex<Given>>,
    vote: RaftVote,
}

impl AskedVote {
    /// Records that the vote was given.
    pub(crate) fn given(self) {
        let vote = self.vote;
        self.ended_with(vote);
    }

    /// Records the vote that openraft holds after it was asked.
    pub(crate) fn ended_with(self, vote: RaftVote) {
        let mut all = self.all.lock();
        all.latest = later(all.latest, vote);
    }
}

impl Drop for AskedVote {
    fn drop(&mut self) {
        let asked = &mut self.all.lock().asked;
        if let Some(at) = asked.iter().position(|vote| *vote == self.vote) {
            asked.swap_remove(at);
        }
    }
}

/// The later vote. A vote that cannot be compared with the other counts as later.
fn later(one: RaftVote, other: RaftVote) -> RaftVote {
    if other <= one { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_counts_while_it_is_asked_for_and_afterwards_if_it_was_given() {
        let vote = |term| RaftVote::new(term, 2);
        let votes = GivenVotes::new(vote(3));
        assert_eq!(votes.latest(RaftVote::default()), vote(3), "metrics are empty after a start");
        let (refused, given) = (votes.ask(vote(6)), votes.ask(vote(5)));
        assert_eq!(votes.latest(vote(4)), vote(6));
        drop(refused);
        assert_eq!(votes.latest(vote(4)), vote(5));
        given.given();
        assert_eq!((votes.latest(vote(4)), votes.latest(vote(7))), (vote(5), vote(7)));
    }
}
