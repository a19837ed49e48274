//! Whether the time that a refusal takes reveals anything about a secret.
//!
//! Guesses of several kinds go out in random order on one connection, each after the answer to the one before.
//! So a machine that slows down slows all kinds. A block of guesses gives one median for each kind, and the
//! medians of a block are compared. One kind appears twice: the difference between these two is noise.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::seq::SliceRandom;
use ring::digest::{SHA256, digest};

use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::doors::{Door, NAME};
use crate::node::{Build, Node};
use crate::stats::Spread;

/// Guesses of each kind in a block.
const GUESSES: usize = 200;
/// Blocks for each round of the other rows.
const BLOCKS: u32 = 10;
/// Longer than any answer takes.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A name as long as the token's.
const NO_NAME: &str = "nobo";
/// How many leading bits of the token's hash some guesses share.
const ALIKE: usize = 16;
const ALIKE_BYTES: usize = 2;

/// How much of a guess is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    NothingAgain,
    /// The name in `AUTH`. HTTP has no name; there it is the first half of the token.
    Name,
    /// All but the last four characters.
    Most,
    /// The first bits of its hash.
    Hash,
}
use Kind::{Hash, Most, Name, Nothing, NothingAgain};

const KINDS: [Kind; 5] = [Nothing, NothingAgain, Name, Most, Hash];

/// Wrong tokens of every kind, each as long as the right one. No token is sent twice in a row, because a node
/// remembers the last one.
struct Guesses {
    token: String,
    alike: Vec<String>,
    next_alike: usize,
}

impl Guesses {
    fn new(token: String) -> Self {
        let begin =
            |token: &str| digest(&SHA256, token.as_bytes()).as_ref()[..ALIKE_BYTES].to_vec();
        let right = begin(&token);
        let wrong = std::iter::repeat_with(|| with_wrong_end(&token, token.len() / 2));
        let alike = wrong.filter(|guess| begin(guess) == right).take(ALIKE).collect();
        Self { token, alike, next_alike: 0 }
    }

    fn next(&mut self, kind: Kind, by_name: bool) -> String {
        let length = self.token.len();
        match kind {
            Name if !by_name => with_wrong_end(&self.token, length / 2),
            Nothing | NothingAgain | Name => with_wrong_end(&self.token, length),
            Most => with_wrong_end(&self.token, 4),
            Hash => {
                self.next_alike = (self.next_alike + 1) % self.alike.len();
                self.alike[self.next_alike].clone()
            }
        }
    }
}

/// A token with other characters at its end. `z` is not a digit of a token.
fn with_wrong_end(token: &str, length: usize) -> String {
    let mut random = rand::thread_rng();
    let end = (0..length).map(|at| match at {
        0 => 'z',
        _ => char::from(random.gen_range(b'g'..=b'z')),
    });
    token[..token.len() - length].chars().chain(end).collect()
}

/// A connection that carries guesses.
struct Guesser(BufReader<TcpStream>);

impl Guesser {
    fn connect(target: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request, and returns how long its answer took.
    ///
    /// # Errors
    /// When the answer does not begin like that to a wrong guess.
    fn ask(&mut self, request: &str, begin: &str) -> Result<Duration> {
        let asked = Instant::now();
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let took = asked.elapsed();
        if !line.starts_with(begin) {
            return Err(format!("a wrong token is answered {line:?}").into());
        }
        if begin.starts_with("HTTP") {
            self.skip_rest()?;
        }
        Ok(took)
    }

    /// Reads the rest of an HTTP answer.
    fn skip_rest(&mut self) -> Result<()> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse()?,
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        Ok(self.0.read_exact(&mut body)?)
    }
}

pub(crate) fn http(bench: &Bench) -> Result<Finding> {
    let node = node(bench)?;
    measure(bench, &node, node.http, |guesses, kind| {
        let token = guesses.next(kind, false);
        let head =
            format!("GET /v1/snowflake HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}");
        (head + "\r\n\r\n", "HTTP/1.1 401 ")
    })
}

pub(crate) fn resp(bench: &Bench) -> Result<Finding> {
    let node = node(bench)?;
    measure(bench, &node, node.resp, |guesses, kind| {
        let name = if matches!(kind, Nothing | NothingAgain) { NO_NAME } else { NAME };
        let token = guesses.next(kind, true);
        (format!("AUTH {name} {token}\r\n"), "-WRONGPASS ")
    })
}

fn node(bench: &Bench) -> Result<Node> {
    Node::alone_of(bench, Build { door: Door::Token, ..Build::measured(bench) })
}

/// The kind whose time differs most from the time of a guess that is entirely wrong.
fn measure(
    bench: &Bench,
    node: &Node,
    target: SocketAddr,
    request: fn(&mut Guesses, Kind) -> (String, &'static str),
) -> Result<Finding> {
    let mut guesses = Guesses::new(node.token.clone().ok_or("the node knows no token")?);
    let mut guesser = Guesser::connect(target)?;
    let mut blocks = Vec::new();
    for _ in 0..bench.options.rounds() * BLOCKS {
        let mut order: Vec<Kind> = KINDS.repeat(GUESSES);
        order.shuffle(&mut rand::thread_rng());
        // Requests are made before the first is sent: otherwise making one would take time between an answer
        // and the next request.
        let requests = order.into_iter().map(|kind| (kind, request(&mut guesses, kind)));
        let requests: Vec<_> = requests.collect();
        let mut times = KINDS.map(|_| Vec::new());
        for (kind, (request, begin)) in requests {
            times[kind as usize].push(guesser.ask(&request, begin)?.as_secs_f64() * 1e6);
        }
        blocks.push(times.map(|times| Spread::of(times).median));
    }
    Ok(finding(&blocks))
}

fn finding(blocks: &[[f64; KINDS.len()]]) -> Finding {
    let time = |kind: Kind| Spread::of(blocks.iter().map(|block| block[kind as usize])).median;
    let ratio = |kind: Kind| Spread::of(blocks.iter().map(|block| block[kind as usize] / block[0]));
    let mut ours = String::new();
    for kind in [Name, Most, Hash] {
        let _ = write!(ours, "{kind:?} {:.1} µs {}; ", time(kind), ratio(kind));
    }
    let (nothing, again) = (time(Nothing), ratio(NothingAgain));
    let reference = format!("{nothing:.1} µs, the same again {again}");
    let worst = [Name, Most, Hash]
        .into_iter()
        .map(ratio)
        .max_by(|one, other| (one.median - 1.0).abs().total_cmp(&(other.median - 1.0).abs()));
    let ours = ours.trim_end_matches("; ").to_owned();
    Finding { ours, reference, figure: worst.unwrap_or(again) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_wrong_and_as_long_as_the_token() {
        let token = "mlt_0123456789abcdef".to_owned();
        let mut guesses = Guesses::new(token.clone());
        for (kind, by_name, right) in
            [(Nothing, true, 0), (Name, true, 0), (Name, false, 10), (Most, true, 16)]
        {
            let guess = guesses.next(kind, by_name);
            assert_eq!(guess.len(), token.len());
            assert_eq!(guess[..right], token[..right]);
            assert_ne!(guess.as_bytes()[right], token.as_bytes()[right]);
            assert_ne!(guess, guesses.next(kind, by_name));
        }
        let alike = guesses.next(Hash, true);
        let begin =
            |token: &str| digest(&SHA256, token.as_bytes()).as_ref()[..ALIKE_BYTES].to_vec();
        assert!(alike != token && begin(&alike) == begin(&token));
        assert_ne!(alike, guesses.next(Hash, true));
    }

    #[test]
    fn the_kind_that_differs_most_is_the_figure() {
        let found = finding(&[[10.0, 10.0, 10.1, 9.0, 10.2], [20.0, 20.0, 20.2, 18.0, 20.4]]);
        assert!((found.figure.median - 0.9).abs() < 1e-9, "{}", found.figure);
    }
}
