//! Plays one case: listens at its endpoints, follows its script, and remembers what arrived.

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::case::{Act, Case, Cut, Named, Place, Rule};
use crate::node::{Answer, Node};
use crate::request::{Kind, Request};

/// How long an endpoint tries to get its port back.
const LISTEN_MAX: Duration = Duration::from_secs(5);

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// Where.
    pub endpoint: usize,
    /// Whether its connection had carried one before.
    pub is_kept: bool,
    /// What it was.
    pub request: Request,
}

/// A case that is being played. It ends when it is dropped.
pub struct Stage {
    shared: Arc<Shared>,
}

struct Shared {
    case: Case,
    endpoints: Vec<SocketAddr>,
    state: Mutex<State>,
    /// Wakes what waits, at the end.
    end: Condvar,
}

#[derive(Default)]
struct State {
    phase: String,
    /// How many requests each rule has decided.
    used: Vec<u64>,
    node: Node,
    seen: Vec<Seen>,
    /// Open connections, each with its endpoint.
    open: Vec<(usize, TcpStream)>,
    /// What listens at each endpoint.
    listening: Vec<Option<Listening>>,
    has_ended: bool,
}

struct Listening {
    must_end: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Stage {
    /// Listens at fresh ports.
    ///
    /// # Errors
    /// There is no port.
    pub fn new(case: Case) -> std::io::Result<Self> {
        let listeners: Vec<_> = (0..case.endpoints).map(|_| fresh()).collect::<Result<_, _>>()?;
        let endpoints = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let state = State { used: vec![0; case.script.len()], ..State::default() };
        let shared = Shared { case, endpoints, state: Mutex::new(state), end: Condvar::new() };
        let shared = Arc::new(shared);
        let listening = listeners.into_iter().enumerate();
        let listening = listening.map(|(at, listener)| Some(shared.listen(at, listener))).collect();
        shared.lock().listening = listening;
        Ok(Self { shared })
    }

    /// The case.
    pub fn case(&self) -> &Case {
        &self.shared.case
    }

    /// The addresses of the endpoints.
    pub fn endpoints(&self) -> Vec<String> {
        self.shared.endpoints.iter().map(|at| format!("http://{at}")).collect()
    }

    /// Goes on to a phase. When this returns, all endpoints listen, or none does.
    ///
    /// # Errors
    /// An endpoint did not get its port back.
    pub fn enter(&self, phase: &str) -> std::io::Result<()> {
        let shared = &self.shared;
        shared.lock().phase = phase.to_owned();
        for at in 0..shared.endpoints.len() {
            if shared.case.away.iter().any(|away| away == phase) {
                shared.refuse(at);
            } else if shared.lock().listening[at].is_none() {
                let listener = bound(shared.endpoints[at])?;
                let listening = shared.listen(at, listener);
                shared.lock().listening[at] = Some(listening);
            }
        }
        Ok(())
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.end.notify_all();
        for at in 0..self.shared.endpoints.len() {
            self.shared.refuse(at);
        }
    }
}

/// Listens at a port that no endpoint of this process has had. The client of another case may still call there.
fn fresh() -> std::io::Result<TcpListener> {
    static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        if TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return Ok(listener);
        }
    }
}

/// Listens at a port that was left a moment ago. Another program may hold it for an instant.
fn bound(at: SocketAddr) -> std::io::Result<TcpListener> {
    let until = Instant::now() + LISTEN_MAX;
    loop {
        match TcpListener::bind(at) {
            Err(_) if Instant::now() < until => std::thread::yield_now(),
            listener => return listener,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: &Arc<Self>, at: usize, listener: TcpListener) -> Listening {
        let must_end = Arc::new(AtomicBool::new(false));
        let (shared, ends) = (Arc::clone(self), Arc::clone(&must_end));
        let accept = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.converse(at, &stream));
            }
        };
        Listening { must_end, thread: std::thread::spawn(accept) }
    }

    /// Stops listening at an endpoint, and ends its connections. When this returns, its port is closed.
    fn refuse(&self, at: usize) {
        let listening = self.lock().listening.get_mut(at).and_then(Option::take);
        if let Some(Listening { must_end, thread }) = listening {
            must_end.store(true, Ordering::SeqCst);
            // This wakes the thread. If it has ended already, there is nothing to wake.
            drop(TcpStream::connect(self.endpoints[at]));
            // A thread that panicked has ended too.
            drop(thread.join());
        }
        self.lock().open.retain(|(other, stream)| {
            // It may have ended by itself.
            let _ = *other != at || stream.shutdown(Shutdown::Both).is_err();
            *other != at
        });
    }

    /// Answers until the connection ends.
    fn converse(&self, at: usize, stream: &TcpStream) {
        let (Ok(()), Ok(handle)) = (stream.set_nodelay(true), stream.try_clone()) else { return };
        let peer = handle.peer_addr().ok();
        {
            let mut state = self.lock();
            if state.listening.get(at).is_some_and(Option::is_none) {
                return;
            }
            state.open.push((at, handle));
        }
        let mut reader = BufReader::new(stream);
        let mut is_kept = false;
        while let Some(request) = Request::read(&mut reader) {
            let act = self.decide(at, is_kept, request.clone());
            let answer = self.lock().node.answer(&request, &act);
            is_kept = true;
            if self.perform(at, &mut reader, &act, &answer).is_none() {
                break;
            }
        }
        // The client may have ended it.
        drop(stream.shutdown(Shutdown::Both));
        self.lock().open.retain(|(_, other)| other.peer_addr().ok() != peer);
    }

    /// Remembers the request, and returns the act of the first rule that is for it.
    fn decide(&self, at: usize, is_kept: bool, request: Request) -> Act {
        let mut state = self.lock();
        let seen = Seen { at: Instant::now(), endpoint: at, is_kept, request };
        state.seen.push(seen);
        let (seen, phase) = (state.seen.as_slice(), state.phase.as_str());
        let used = state.used.iter();
        let mut rules = self.case.script.iter().zip(used).enumerate();
        let found = rules.find(|(_, (rule, used))| {
            rule.times.is_none_or(|times| **used < times) && is_for(rule, seen, phase)
        });
        let Some(number) = found.map(|(number, _)| number) else { return Act::default() };
        state.used[number] += 1;
        self.case.script[number].act.clone()
    }

    /// Does what the act says; `None` when the connection must end.
    fn perform(
        &self,
        at: usize,
        reader: &mut BufReader<&TcpStream>,
        act: &Act,
        answer: &Answer,
    ) -> Option<()> {
        self.wait(Duration::from_millis(act.late_ms))?;
        if act.silence {
            // Returns when the client or the case ends the connection.
            drop(reader.read(&mut [0]));
            return None;
        }
        if act.refuse {
            self.refuse(at);
            return None;
        }
        let body = match act.cut {
            Some(Cut::Head(_)) => return None,
            Some(Cut::Body(length)) => answer.body.get(..length)?,
            None => &answer.body,
        };
        let mut text = format!("HTTP/1.1 {} Scripted\r\n", answer.status);
        if answer.status != 204 {
            let is_text = act.body.as_ref().is_some_and(Value::is_string);
            let kind = if is_text { "text/plain" } else { "application/json" };
            text += &format!("content-type: {kind}\r\ncontent-length: {}\r\n", answer.body.len());
        }
        let other = self.endpoints[(at + 1) % self.endpoints.len()];
        for (name, value) in &act.headers {
            text +=
                &format!("{name}: {}\r\n", value.replace("{other}", &format!("http://{other}")));
        }
        text += "\r\n";
        text += body;
        let mut stream = *reader.get_ref();
        stream.write_all(text.as_bytes()).ok()?;
        act.cut.is_none().then_some(())
    }

    /// Waits; `None` if the case ends before.
    fn wait(&self, duration: Duration) -> Option<()> {
        let until = Instant::now() + duration;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.has_ended {
                return None;
            }
            if left.is_zero() {
                return Some(());
            }
            let woken = self.end.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken.0;
        }
    }
}

/// Whether the rule is for the last request.
fn is_for(rule: &Rule, seen: &[Seen], phase: &str) -> bool {
    let Some(last) = seen.last() else { return false };
    let kind = last.request.kind;
    rule.on.map_or(kind != Kind::Cluster, |on| on == kind)
        && rule.tag.as_ref().is_none_or(|tag| *tag == last.request.tag)
        && rule.over.is_none_or(|over| last.request.count > over)
        && rule.kept.is_none_or(|kept| kept == last.is_kept)
        && rule.phase.as_ref().is_none_or(|wanted| wanted == phase)
        && rule.endpoint.as_ref().is_none_or(|place| is_at(place, seen))
}

/// Whether the last request arrived there.
pub(crate) fn is_at(place: &Place, seen: &[Seen]) -> bool {
    let mut asked = seen.iter().filter(|seen| seen.request.kind != Kind::Cluster);
    let Some(last) = seen.last() else { return false };
    let first = asked.next().map_or(last.endpoint, |seen| seen.endpoint);
    let before = asked.rev().nth(usize::from(last.request.kind != Kind::Cluster));
    let before = before.map_or(first, |seen| seen.endpoint);
    match place {
        Place::Index(index) => last.endpoint == *index,
        Place::Named(Named::First) => last.endpoint == first,
        Place::Named(Named::Others) => last.endpoint != first,
        Place::Named(Named::Same) => last.endpoint == before,
        Place::Named(Named::Another) => last.endpoint != before,
    }
}
