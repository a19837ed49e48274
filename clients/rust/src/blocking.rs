//! The client for code that is not async. A call that has to wait blocks its thread.

use std::ops::Range;
use std::sync::mpsc;

use crate::client::{self, Builder};
use crate::engine::slot::Waiter;
use crate::error::Error;
use crate::handle;
use crate::pool::Pool;
use crate::registration::Registration;
use crate::reply::{self, Fallible};
use crate::request;
use crate::worker::WorkerLease;

/// Ids from a Mintleaf cluster, for threads.
///
/// It is cheap to clone. Clones share the ids that they hold, also with the async client that it was made from.
///
/// ```no_run
/// use mintleaf_client::blocking::Client;
///
/// let client = Client::builder().endpoints(["http://a:8080", "http://b:8080"]).build_blocking()?;
/// let id: u64 = client.next_id("orders")?;
/// client.close();
/// # Ok::<(), mintleaf_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    client: client::Client,
}

impl From<client::Client> for Client {
    fn from(client: client::Client) -> Self {
        Self { client }
    }
}

impl Builder {
    /// Makes the client for threads. It sends no request yet.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_blocking(self) -> Result<Client, Error> {
        self.build().map(Client::from)
    }
}

impl Client {
    /// As [`client::Client::builder`]; [`Builder::build_blocking`] makes the client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// As [`client::Client::next_id`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn next_id(&self, tag: &str) -> Result<u64, Error> {
        if let Some(id) = self.client.inner.engine.held(tag) {
            return Ok(id);
        }
        reply::one(wait(|waiter| self.client.inner.engine.want(tag, 1, Vec::new(), waiter)))
    }

    /// As [`client::Client::next_ids`].
    ///
    /// # Errors
    /// The same.
    pub fn next_ids(&self, tag: &str, count: usize) -> Result<Vec<u64>, Error> {
        let wanted = request::check_count(count)?;
        let got: Vec<Range<u64>> =
            self.client.inner.engine.held_ids(tag, wanted).into_iter().collect();
        if got.iter().map(|ids| ids.end - ids.start).sum::<u64>() == wanted {
            return Ok(got.into_iter().flatten().collect());
        }
        reply::many(wait(|waiter| self.client.inner.engine.want(tag, wanted, got, waiter)))
    }

    /// As [`client::Client::next_text`].
    ///
    /// # Errors
    /// The same.
    pub fn next_text(&self, tag: &str) -> Result<String, Error> {
        if let Some(id) = self.client.inner.engine.held(tag) {
            return Ok(id.to_string());
        }
        reply::text(wait(|waiter| self.client.inner.engine.want(tag, 1, Vec::new(), waiter)))
    }

    /// As [`client::Client::next_id_of`].
    ///
    /// # Errors
    /// The same.
    pub fn next_id_of(&self, tag: &str, key: &str) -> Result<u64, Error> {
        reply::one(wait(|waiter| self.client.inner.engine.want_keyed(tag, key, waiter)))
    }

    /// As [`client::Client::next_snowflake`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn next_snowflake(&self) -> Result<u64, Error> {
        if let Some(id) = self.client.inner.engine.held_snowflake() {
            return Ok(id);
        }
        reply::one(wait(|waiter| {
            self.client.inner.engine.want_snowflake(waiter);
            Ok(())
        }))
    }

    /// As [`client::Client::register`].
    ///
    /// # Errors
    /// The same.
    pub fn register(&self, tag: &str, key: &str) -> Result<Registration, Error> {
        wait(|waiter| self.client.inner.engine.want_registered(tag, key, waiter))
    }

    /// As [`client::Client::lease_worker`].
    ///
    /// # Errors
    /// The same.
    pub fn lease_worker(&self, pool: impl Into<Pool>) -> Result<WorkerLease, Error> {
        let pool = pool.into();
        let worker = wait(|waiter| self.client.inner.engine.want_worker(pool, waiter))?;
        Ok(WorkerLease::new(self.client.clone(), worker))
    }

    /// As [`client::Client::handle`].
    ///
    /// # Errors
    /// The same.
    pub fn handle(&self, tag: &str) -> Result<Handle, Error> {
        Ok(Handle { handle: self.client.handle(tag)?, client: self.clone() })
    }

    /// As [`client::Client::close`].
    pub fn close(&self) {
        self.client.close();
    }
}

/// Ids of one tag for one thread, as [`handle::Handle`].
#[derive(Debug)]
pub struct Handle {
    handle: handle::Handle,
    client: Client,
}

impl Handle {
    /// The next id.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    #[inline]
    pub fn next_id(&mut self) -> Result<u64, Error> {
        match self.handle.next_held() {
            Some(id) => Ok(id),
            None => self.client.next_id(self.handle.tag()),
        }
    }
}

fn wait<R: Fallible>(want: impl FnOnce(Waiter<R>) -> Result<(), Error>) -> R {
    let (waiter, told) = mpsc::sync_channel(1);
    match want(Waiter::Thread(waiter)) {
        // A waiter is dropped only when the client ends.
        Ok(()) => told.recv().unwrap_or_else(|_| R::failed(Error::Closed)),
        Err(error) => R::failed(error),
    }
}
