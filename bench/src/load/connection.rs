//! One connection: a socket, and the part of an answer that has arrived.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::Registry;

use super::grpc::Grpc;
use super::protocol::{Answers, Protocol, Reader};
use super::transport::{Tls, Transport};
use crate::Result;

/// The capacity for answers, in bytes. The largest single answer is a batch of some thousand ids.
const BUFFER_BYTES: usize = 256 * 1024;
/// A server that accepts no bytes for this long counts as hanging.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// A connection from the generator to a server.
pub(super) struct Connection {
    transport: Transport,
    reader: Reader,
    buffer: Vec<u8>,
    filled: usize,
    /// Requests that have not been answered yet.
    pub(super) in_flight: u64,
    /// When the requests in flight were due, in nanoseconds of the run.
    pub(super) since: u64,
}

impl Connection {
    /// # Errors
    /// When the connection cannot be made.
    pub(super) fn open(target: SocketAddr, protocol: Protocol, tls: Option<&Tls>) -> Result<Self> {
        let mut connection = Self {
            transport: Transport::open(target, tls)?,
            reader: Reader::new(protocol),
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            in_flight: 0,
            since: 0,
        };
        if matches!(protocol, Protocol::Etcd | Protocol::EtcdRead) {
            connection.write(&Grpc::greeting())?;
        }
        Ok(connection)
    }

    pub(super) fn register(&mut self, registry: &Registry, at: usize) -> Result<()> {
        self.transport.register(registry, at)
    }

    /// Sends a command before the first request, and waits for its answer.
    ///
    /// # Errors
    /// When it is refused, or not answered in time.
    pub(super) fn greet(&mut self, greeting: &[u8]) -> Result<()> {
        self.write(greeting)?;
        let deadline = Instant::now() + WRITE_MAX;
        loop {
            let answers = self.receive()?;
            match answers.first_error {
                Some(error) => return Err(error.into()),
                None if answers.count > 0 => return Ok(()),
                None if Instant::now() > deadline => return Err("no answer at connect".into()),
                None => {}
            }
        }
    }

    /// Sends `count` requests, which are timed from `since`.
    pub(super) fn send(&mut self, requests: &[u8], count: u64, since: u64) -> Result<()> {
        (self.in_flight, self.since) = (count, since);
        match &mut self.reader {
            Reader::Grpc(grpc) => {
                let addressed = grpc.address(requests);
                self.write(&addressed)
            }
            Reader::Http | Reader::Resp => self.write(requests),
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let mut stuck: Option<Instant> = None;
        while !bytes.is_empty() || !self.transport.is_flushed() {
            match self.transport.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if bytes.is_empty() && self.transport.is_flushed() {
                break;
            }
            if stuck.get_or_insert_with(Instant::now).elapsed() > WRITE_MAX {
                return Err("the server takes no more requests".into());
            }
        }
        Ok(())
    }

    /// Reads all that has arrived, and returns the complete answers.
    ///
    /// # Errors
    /// When the server has closed the connection.
    pub(super) fn receive(&mut self) -> Result<Answers> {
        let mut all = Answers::default();
        loop {
            let room = self.buffer.len() - self.filled;
            let read = match self.transport.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err("the server closed a connection".into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(all),
                Err(error) => return Err(error.into()),
            };
            self.filled += read;
            let answers = self.reader.read(&self.buffer[..self.filled])?;
            self.buffer.copy_within(answers.length..self.filled, 0);
            self.filled -= answers.length;
            if self.filled == self.buffer.len() {
                return Err("an answer is too long".into());
            }
            all.count += answers.count;
            all.errors += answers.errors;
            all.first_error = all.first_error.or(answers.first_error);
            // This read left room in the buffer, so the socket is empty. mio reports what arrives later.
            if read < room {
                return Ok(all);
            }
        }
    }
}
