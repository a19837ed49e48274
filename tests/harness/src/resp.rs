//! A client of the Redis protocol that shows answers as they are.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::secs;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `+`.
    Simple(String),
    /// `-`.
    Error(String),
    /// `:`.
    Integer(u64),
    /// `:`, below zero.
    Negative(i64),
    /// `$`.
    Bulk(String),
    /// `_`, or a null bulk string.
    Null,
    /// `*`.
    Array(Vec<Value>),
    /// Keys and values in turn.
    Map(Vec<Value>),
}

impl Value {
    /// The integer that it must be.
    ///
    /// # Panics
    /// When it is not an integer.
    #[track_caller]
    pub fn integer(&self) -> u64 {
        match self {
            Value::Integer(number) => *number,
            other => panic!("no integer: {other:?}"),
        }
    }

    /// The array that it must be.
    ///
    /// # Panics
    /// When it is not an array.
    #[track_caller]
    pub fn array(&self) -> &[Value] {
        match self {
            Value::Array(values) => values,
            other => panic!("no array: {other:?}"),
        }
    }

    /// The ids in an answer to `INCR`, `MINT` or `SNOWFLAKE`, one or many.
    #[track_caller]
    pub fn ids(&self) -> Vec<u64> {
        match self {
            Value::Integer(id) => vec![*id],
            Value::Bulk(id) => vec![id.parse().unwrap()],
            Value::Array(ids) => ids.iter().flat_map(Value::ids).collect(),
            other => panic!("no ids: {other:?}"),
        }
    }
}

/// One connection. A missing answer fails the test.
#[derive(Debug)]
pub struct RedisClient<S = TcpStream> {
    stream: BufReader<S>,
}

impl RedisClient {
    /// Opens it.
    pub fn connect(node: SocketAddr) -> Self {
        let stream = TcpStream::connect(node).unwrap();
        stream.set_read_timeout(Some(secs(30))).unwrap();
        Self::over(stream)
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}

impl<S: Read + Write> RedisClient<S> {
    /// A client over an open stream, such as a TLS stream.
    pub fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Sends these bytes, and waits for nothing.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends one command, given as words, and returns its answer.
    pub fn ask(&mut self, words: &str) -> Value {
        self.send(&command(words));
        self.answer()
    }

    /// The next answer.
    #[track_caller]
    pub fn answer(&mut self) -> Value {
        self.try_answer().expect("the node has closed the connection")
    }

    /// The next answer, or `None` when the node has closed the connection.
    pub fn try_answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let line = line.strip_suffix("\r\n").expect("a whole line");
        let (kind, rest) = line.split_at(1);
        Some(match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" if rest.starts_with('-') => Value::Negative(rest.parse().unwrap()),
            ":" => Value::Integer(rest.parse().unwrap()),
            "_" => Value::Null,
            "$" if rest == "-1" => Value::Null,
            "$" => Value::Bulk(self.bulk(rest.parse().unwrap())),
            "*" => Value::Array((0..rest.parse().unwrap()).map(|_| self.answer()).collect()),
            "%" => {
                Value::Map((0..2 * rest.parse::<usize>().unwrap()).map(|_| self.answer()).collect())
            }
            _ => panic!("no answer: {line:?}"),
        })
    }

    fn bulk(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes.split_off(length), b"\r\n");
        String::from_utf8(bytes).unwrap()
    }
}

/// Encodes words as an array of bulk strings.
pub fn command(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let bulks: String = bulks.collect();
    format!("*{}\r\n{bulks}", words.len()).into_bytes()
}
