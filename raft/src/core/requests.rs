//! What other members ask this node in its role as leader, and the answers.

use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::leader_requests::{LEADER_REQUEST_BYTES_MAX, LeaderRequests};
use crate::message::Unasked;

/// Number of requests that may be answered at once. One more is refused as overload: the answers may take 32 MiB.
const REQUESTS_MAX: usize = 256;

/// Passes requests to the registered answerer.
pub(crate) struct Requests {
    answerer: OnceLock<Arc<dyn LeaderRequests>>,
    places: Semaphore,
}

impl Default for Requests {
    fn default() -> Self {
        Self { answerer: OnceLock::new(), places: Semaphore::new(REQUESTS_MAX) }
    }
}

impl Requests {
    /// Registers `answerer`. The first one stays.
    pub(crate) fn answer_by(&self, answerer: Arc<dyn LeaderRequests>) {
        let _ = self.answerer.set(answerer);
    }

    pub(crate) async fn answer(
        &self,
        request: Vec<u8>,
        deadline: Instant,
    ) -> Result<Vec<u8>, Unasked> {
        let answerer = self.answerer.get().ok_or(Unasked::NoAnswer)?;
        let _place = self.places.try_acquire().map_err(|_| Unasked::Overloaded)?;
        let answered = timeout_at(deadline, answerer.answer(request, deadline)).await;
        let answer = answered.ok().flatten().ok_or(Unasked::NoAnswer)?;
        assert!(answer.len() <= LEADER_REQUEST_BYTES_MAX, "an answer of {} bytes", answer.len());
        Ok(answer)
    }
}
