//! The memory of a node's answers that their clients have not read yet.
//!
//! One budget for all connections of both protocols. Most answers never meet it: they are short, and the socket takes
//! them at once. Two kinds are held against it, which bounds what any number of slow readers can pin:
//!
//! - A long answer, until hyper has handed it on. It may use up to three quarters of the budget; beyond that its
//!   request is turned away. A request for ids is turned away before it takes any, because its bytes are reserved
//!   first; one for a list before its answer leaves the step that made it, and each worker thread carries out one such
//!   step at a time.
//! - A connection's buffer, once its socket does not take all of it. If that does not fit any more, the connection
//!   ends.
//!
//! One origin gets at most half of either, so that others get the rest. Callers behind one proxy share an origin.
//!
//! What is held is counted under one lock, which ordinary answers never take. An origin is counted while it
//! holds something, which is always more than an ordinary answer: so there are 4,096 of them at most.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::connection::origin::ClientSubnet;
use crate::limits::{ORDINARY_ANSWER_BYTES, UNREAD_BYTES_MAX, UNREAD_PAGE_BYTES_MAX};
use crate::metrics::Metrics;

/// The budget of one node.
#[derive(Debug)]
pub struct AnswerBudget {
    held: Mutex<Held>,
    /// Maximum number of bytes that clients may leave unread, over all connections.
    bytes_max: usize,
    /// The budget of the page of metrics, which nothing else may use up; `None` in that budget itself.
    pages: Option<Arc<Self>>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// The bytes of each origin that holds any.
    by_origin: HashMap<ClientSubnet, usize>,
}

impl Held {
    /// Whether `origin` may hold this many more bytes, where all together may hold `bytes_max`.
    fn has_room(&self, origin: ClientSubnet, bytes: usize, bytes_max: usize) -> bool {
        let fits = |held: usize, max| held.checked_add(bytes).is_some_and(|held| held <= max);
        let own = self.by_origin.get(&origin).copied().unwrap_or_default();
        fits(self.bytes, bytes_max) && fits(own, bytes_max / 2)
    }

    fn give_back(&mut self, origin: ClientSubnet, bytes: usize) {
        self.bytes -= bytes;
        if let Entry::Occupied(mut own) = self.by_origin.entry(origin) {
            *own.get_mut() -= bytes;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// The budget as the clients of one origin have it.
#[derive(Clone, Debug)]
pub(crate) struct OriginBudget {
    budget: Arc<AnswerBudget>,
    origin: ClientSubnet,
}

/// A part of the budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    from: OriginBudget,
    bytes: usize,
}

impl HeldBytes {
    /// A long answer, held until the last copy of it is dropped. What was reserved for it beyond its length
    /// is given back.
    pub(crate) fn hold(mut self, answer: &Bytes) -> Bytes {
        self.give_back(self.bytes.saturating_sub(answer.len()));
        // A buffer that grew to its size may be twice as large as what is in it.
        let bytes = Bytes::copy_from_slice(answer);
        Bytes::from_owner(LongAnswer { bytes, _held: self })
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        let OriginBudget { budget, origin } = &self.from;
        budget.held.lock().give_back(*origin, bytes);
        budget.metrics.answers_read(bytes);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// A long answer and its part of the budget.
struct LongAnswer {
    bytes: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for LongAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AnswerBudget {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        let pages = Self {
            held: Mutex::default(),
            bytes_max: UNREAD_PAGE_BYTES_MAX,
            pages: None,
            metrics: Arc::clone(&metrics),
        };
        let pages = Some(Arc::new(pages));
        Arc::new(Self { held: Mutex::default(), bytes_max: UNREAD_BYTES_MAX, pages, metrics })
    }

    /// Bytes of long answers that may be held.
    fn long_bytes_max(&self) -> usize {
        self.bytes_max / 4 * 3
    }

    /// The budget as clients at this address have it.
    pub(crate) fn of(self: &Arc<Self>, address: Option<IpAddr>) -> OriginBudget {
        let origin = address.map_or(ClientSubnet::UNKNOWN, ClientSubnet::from);
        OriginBudget { budget: Arc::clone(self), origin }
    }
}

impl OriginBudget {
    /// The same for clients at another address.
    pub(crate) fn at(&self, address: Option<IpAddr>) -> Self {
        self.budget.of(address)
    }

    /// Whose budget this is.
    pub(crate) fn origin(&self) -> ClientSubnet {
        self.origin
    }

    /// The budget of the page of metrics, for the same origin.
    pub(crate) fn of_pages(&self) -> Self {
        let budget = Arc::clone(self.budget.pages.as_ref().unwrap_or(&self.budget));
        Self { budget, origin: self.origin }
    }

    /// Whether a request for a long answer must be turned away. Only such a request asks: this takes a lock.
    pub(crate) fn is_spent(&self) -> bool {
        !self.budget.held.lock().has_room(self.origin, 1, self.budget.long_bytes_max())
    }

    /// Room for a long answer of up to this many bytes, which is not made yet; `None` if there is no room.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<HeldBytes> {
        self.take(bytes, self.budget.long_bytes_max())
    }

    /// An answer that is held against the budget until the last copy of it is dropped. It counts as part of what was
    /// reserved for it, if anything was. `None` if it does not fit, which never happens to an answer that was reserved
    /// for.
    pub(crate) fn hold_reserved(
        &self,
        reserved: Option<HeldBytes>,
        answer: Bytes,
    ) -> Option<Bytes> {
        match reserved {
            Some(held) if (ORDINARY_ANSWER_BYTES + 1..=held.bytes).contains(&answer.len()) => {
                Some(held.hold(&answer))
            }
            _ => self.hold_answer(answer),
        }
    }

    /// An answer that is held against the budget until the last copy of it is dropped, if it is a long one; `None` if
    /// it does not fit.
    pub(crate) fn hold_answer(&self, answer: Bytes) -> Option<Bytes> {
        if answer.len() <= ORDINARY_ANSWER_BYTES {
            return Some(answer);
        }
        Some(self.reserve(answer.len())?.hold(&answer))
    }

    /// Holds a buffer of this many bytes that a socket did not take as a whole; nothing if it is an ordinary one.
    ///
    /// # Errors
    /// That the connection must end, because the budget has no room for it.
    pub(crate) fn hold_buffer(&self, bytes: usize) -> io::Result<Option<HeldBytes>> {
        if bytes <= ORDINARY_ANSWER_BYTES {
            return Ok(None);
        }
        let held = self.take(bytes, self.budget.bytes_max);
        if held.is_none() {
            self.budget.metrics.answers_dropped();
        }
        held.map(Some).ok_or_else(|| io::Error::other("too many answers wait to be read"))
    }

    fn take(&self, bytes: usize, bytes_max: usize) -> Option<HeldBytes> {
        let mut held = self.budget.held.lock();
        if !held.has_room(self.origin, bytes, bytes_max) {
            return None;
        }
        held.bytes += bytes;
        *held.by_origin.entry(self.origin).or_default() += bytes;
        drop(held);
        self.budget.metrics.answers_unread(bytes);
        Some(HeldBytes { from: self.clone(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 256 * 1024;
    const LONG_BYTES_MAX: usize = UNREAD_BYTES_MAX / 4 * 3;

    fn budget() -> Arc<AnswerBudget> {
        AnswerBudget::new(Arc::default())
    }

    fn client(budget: &Arc<AnswerBudget>, last: u8) -> OriginBudget {
        budget.of(Some([10, 0, 0, last].into()))
    }

    /// As many long answers as the client gets.
    fn long_answers(client: &OriginBudget) -> Vec<Bytes> {
        std::iter::from_fn(|| client.hold_answer(Bytes::from(vec![0; LONG]))).collect()
    }

    #[test]
    fn long_answers_leave_a_quarter_to_buffers_and_nothing_passes_the_whole() {
        let budget = budget();
        let clients = [1, 2, 3].map(|last| client(&budget, last));
        let answers: Vec<Bytes> = clients.iter().flat_map(long_answers).collect();
        assert_eq!(answers.len() * LONG, LONG_BYTES_MAX);
        assert!(clients.iter().all(OriginBudget::is_spent));
        let buffer = || clients[2].hold_buffer(LONG).ok();
        let buffers: Vec<_> = std::iter::from_fn(buffer).collect();
        assert_eq!((answers.len() + buffers.len()) * LONG, UNREAD_BYTES_MAX);
        drop(buffers);
        assert!(clients.iter().all(|client| long_answers(client).is_empty()));
        drop(answers);
        assert!(!clients[0].is_spent() && !long_answers(&clients[0]).is_empty());
        let held = budget.held.lock();
        assert_eq!((held.bytes, held.by_origin.len()), (0, 0));
    }

    #[test]
    fn one_address_gets_half_and_leaves_the_rest_to_others() {
        let budget = budget();
        let (greedy, other) = (client(&budget, 1), client(&budget, 2));
        let answers = long_answers(&greedy);
        assert_eq!(answers.len() * LONG, LONG_BYTES_MAX / 2);
        let buffers: Vec<_> = std::iter::from_fn(|| greedy.hold_buffer(LONG).ok()).collect();
        assert_eq!((answers.len() + buffers.len()) * LONG, UNREAD_BYTES_MAX / 2);
        assert!(greedy.is_spent() && !other.is_spent());
        assert!(!long_answers(&other).is_empty() && other.hold_buffer(LONG).is_ok());
        drop(answers);
        assert!(!long_answers(&greedy).is_empty());
    }

    #[test]
    fn what_was_reserved_beyond_an_answers_length_is_given_back() {
        let budget = budget();
        let client = client(&budget, 1);
        let answer = client.reserve(LONG).unwrap().hold(&Bytes::from(vec![7; LONG / 2]));
        assert_eq!(budget.held.lock().bytes, LONG / 2);
        assert_eq!(answer, vec![7; LONG / 2]);
        drop(answer);
        assert_eq!(budget.held.lock().bytes, 0);
    }

    #[test]
    fn what_was_reserved_for_is_answered_however_full_the_budget_is_by_then() {
        let budget = budget();
        let client = client(&budget, 1);
        let reserved = [client.reserve(LONG), client.reserve(LONG)];
        let _others = long_answers(&client);
        assert!(client.is_spent());
        let [first, second] = reserved.map(|reserved| {
            assert!(reserved.is_some());
            client.hold_reserved(reserved, Bytes::from(vec![7; LONG]))
        });
        assert_eq!(
            [&first, &second].map(|answer| answer.as_ref().map(Bytes::len)),
            [Some(LONG); 2]
        );
        assert_eq!(client.hold_reserved(None, Bytes::from(vec![7; LONG])), None);
        let short = client.hold_reserved(client.reserve(1), Bytes::from_static(b"short"));
        assert_eq!(short.as_deref(), Some(&b"short"[..]));
    }

    #[test]
    fn an_ordinary_answer_never_meets_the_budget() {
        let budget = budget();
        let client = client(&budget, 1);
        let _all = client.take(UNREAD_BYTES_MAX / 2, UNREAD_BYTES_MAX).unwrap();
        assert!(client.hold_answer(Bytes::from(vec![0; ORDINARY_ANSWER_BYTES])).is_some());
        assert!(client.hold_buffer(ORDINARY_ANSWER_BYTES).unwrap().is_none());
        assert!(client.hold_buffer(ORDINARY_ANSWER_BYTES + 1).is_err());
    }

    #[test]
    fn the_page_of_metrics_has_bytes_that_nothing_else_uses_up() {
        let budget = budget();
        let client = client(&budget, 1);
        let _buffers = client.take(UNREAD_BYTES_MAX / 2, UNREAD_BYTES_MAX).unwrap();
        assert!(client.is_spent());
        let pages = long_answers(&client.of_pages());
        assert_eq!(pages.len() * LONG, UNREAD_PAGE_BYTES_MAX / 4 * 3 / 2);
    }
}
