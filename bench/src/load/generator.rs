//! The closed and the open loop.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mio::{Events, Poll};

use super::connection::Connection;
use super::requests::{self, Requests};
use super::transport::tls;
use super::{Load, Outcome};
use crate::Result;
use crate::histogram::Histogram;

const EVENTS_MAX: usize = 1024;
/// How much later than its time a run may end when no answer arrives.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// The length of a window of an open loop. The times of each window are counted separately.
const WINDOW: Duration = Duration::from_millis(250);

/// The due times of an open loop's requests that wait for a connection.
type Backlog = VecDeque<u64>;

/// A load under way.
pub(super) struct Generator {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    requests: Requests,
    depth: u64,
    /// The largest number of requests to send. A load that reaches it ends early.
    limit: u64,
    end: u64,
    began: Instant,
    sent: u64,
    answered: u64,
    histogram: Histogram,
    windows: Vec<Histogram>,
    errors: u64,
    first_error: Option<String>,
}

impl Generator {
    /// Prepares all requests, and connects.
    pub(super) fn connect(load: &Load) -> Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(load.connections);
        let tls = load.ca.as_deref().map(tls).transpose()?;
        for at in 0..load.connections {
            let mut connection = Connection::open(load.target, load.protocol, tls.as_ref())?;
            if !load.login.is_empty() {
                connection.greet(&requests::resp(&load.login))?;
            }
            connection.register(poll.registry(), at)?;
            connections.push(connection);
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            connections,
            requests: Requests::new(load),
            depth: load.depth,
            limit: load.requests.unwrap_or(u64::MAX),
            end: load.time.as_nanos() as u64,
            began: Instant::now(),
            sent: 0,
            answered: 0,
            histogram: Histogram::default(),
            windows: Vec::new(),
            errors: 0,
            first_error: None,
        })
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Keeps every connection busy.
    pub(super) fn closed_loop(&mut self) -> Result<()> {
        self.began = Instant::now();
        for at in 0..self.connections.len() {
            self.send(at, self.depth, self.now())?;
        }
        while self.now() < self.end && self.answered < self.limit {
            for at in self.ready(WAIT_MAX)? {
                if self.receive(at)? {
                    self.send(at, self.depth, self.now())?;
                }
            }
        }
        if self.limit != u64::MAX && self.answered < self.limit {
            return Err(format!("{} of {} answers in time", self.answered, self.limit).into());
        }
        Ok(())
    }

    /// Sends `rate` requests a second, on any free connection.
    ///
    /// It does not sleep between requests. It would wake up late, and the delay would count as the server's.
    pub(super) fn open_loop(&mut self, rate: f64) -> Result<()> {
        let interval = 1e9 / rate;
        self.windows = vec![Histogram::default(); self.end.div_ceil(window()) as usize];
        let due_at = |request: u64| (request as f64 * interval) as u64;
        let mut due = 0;
        let mut backlog = Backlog::new();
        let mut free: Vec<usize> = (0..self.connections.len()).collect();
        self.began = Instant::now();
        while self.now() < self.end {
            let now = self.now();
            while due_at(due) <= now {
                backlog.push_back(due_at(due));
                due += 1;
            }
            while let Some(since) = backlog.front().copied() {
                let Some(at) = free.pop() else { break };
                backlog.pop_front();
                self.send(at, 1, since)?;
            }
            for at in self.ready(Duration::ZERO)? {
                if self.receive(at)? {
                    free.push(at);
                }
            }
        }
        self.count_unanswered(&backlog);
        Ok(())
    }

    /// Counts the requests that are still waiting at the end, each with the time that it has waited. Otherwise
    /// a stall at the end would not show.
    fn count_unanswered(&mut self, backlog: &Backlog) {
        let now = self.now();
        let waiting = self.connections.iter().filter(|connection| connection.in_flight > 0);
        let waiting: Vec<u64> = waiting.map(|connection| connection.since).collect();
        for since in waiting.into_iter().chain(backlog.iter().copied()) {
            self.record(since, now.saturating_sub(since), 1);
        }
    }

    fn record(&mut self, since: u64, took: u64, times: u64) {
        self.histogram.record(took, times);
        if let Some(window) = self.windows.get_mut((since / window()) as usize) {
            window.record(took, times);
        }
    }

    /// The connections with something to read.
    fn ready(&mut self, wait: Duration) -> Result<Vec<usize>> {
        self.poll.poll(&mut self.events, Some(wait))?;
        Ok(self.events.iter().map(|event| event.token().0).collect())
    }

    /// Sends up to `count` requests, within the limit.
    fn send(&mut self, at: usize, count: u64, since: u64) -> Result<()> {
        let count = count.min(self.limit - self.sent);
        if count > 0 {
            let batch = self.requests.batch(self.sent, count);
            self.connections[at].send(batch, count, since)?;
            self.sent += count;
        }
        Ok(())
    }

    /// Counts the answers that arrived on a connection. Returns whether no request is in flight there any more.
    fn receive(&mut self, at: usize) -> Result<bool> {
        let connection = &mut self.connections[at];
        let answers = connection.receive()?;
        if answers.count == 0 {
            return Ok(false);
        }
        let Some(left) = connection.in_flight.checked_sub(answers.count) else {
            return Err("an answer to no request".into());
        };
        connection.in_flight = left;
        let since = connection.since;
        let took = (self.began.elapsed().as_nanos() as u64).saturating_sub(since);
        self.record(since, took, answers.count);
        self.answered += answers.count;
        self.errors += answers.errors;
        self.first_error = self.first_error.take().or(answers.first_error);
        Ok(left == 0)
    }

    /// The outcome of the load.
    pub(super) fn outcome(self) -> Outcome {
        let outcome = Outcome::new(&self.histogram, self.answered, self.began.elapsed());
        let windows = self.windows.iter().map(Histogram::buckets).collect();
        Outcome { errors: self.errors, first_error: self.first_error, windows, ..outcome }
    }
}

fn window() -> u64 {
    WINDOW.as_nanos() as u64
}
