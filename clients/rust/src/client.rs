//! The client for async code, and how a client is made.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder as RuntimeBuilder, Handle as Runtime};
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::engine::network::Network;
use crate::engine::slot::Waiter;
use crate::error::Error;
use crate::lease::line::Reply;
use crate::reply;
use crate::request;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::transport::http::{Http, addresses};
use crate::transport::tls::Pem;

/// How long the end of a client waits for a name that the operating system is looking up: nothing else takes
/// any time, and this cannot be broken off.
const LOOK_UP_MAX: Duration = Duration::from_millis(100);

/// Ids from a cluster of Mintleaf, for async code of any runtime.
///
/// It is cheap to clone; clones share what is held. [`Client::close`], or the end of the last clone, ends its one
/// thread and wastes what is held.
///
/// ```no_run
/// # async fn example() -> Result<(), mintleaf_client::Error> {
/// use mintleaf_client::Client;
///
/// let client = Client::builder().endpoints(["http://a:8080", "http://b:8080"]).build()?;
/// let id: u64 = client.next_id("orders").await?;
/// let ids: Vec<u64> = client.next_ids("orders", 100).await?;
/// let snowflake: u64 = client.next_snowflake().await?;
/// let invoice: String = client.next_text("invoices").await?; // a tag with a format
/// let number: u64 = client.next_id_of("chat", "room-17").await?; // a sequence
/// client.close();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// The engine and its thread. The last owner's end is that of both.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The future of [`Client::next_id`]. It takes an id when it is polled first.
///
/// It is written by hand because the poll of an `async fn` is not inlined into other crates, and costs more than an id.
#[must_use = "futures do nothing unless they are awaited"]
pub struct NextId<'a> {
    client: &'a Client,
    tag: &'a str,
    /// The wait, when no id was held.
    waiting: Option<Waiting<'a>>,
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'a>>;

impl Future for NextId<'_> {
    type Output = Result<u64, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.waiting.is_none()
            && let Some(id) = self.client.inner.engine.held(self.tag)
        {
            return Poll::Ready(Ok(id));
        }
        let (client, tag) = (self.client, self.tag);
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(client.wait_for_one(tag)));
        waiting.as_mut().poll(context)
    }
}

impl fmt::Debug for NextId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextId").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Client {
    /// A client is made in steps; only [`Builder::endpoints`] is needed.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The next id of a tag: one that nobody else gets.
    ///
    /// # Errors
    /// [`Error`] says which there are.
    #[inline]
    pub fn next_id<'a>(&'a self, tag: &'a str) -> NextId<'a> {
        NextId { client: self, tag, waiting: None }
    }

    async fn wait_for_one(&self, tag: &str) -> Result<u64, Error> {
        reply::one(self.wait(|waiter| self.inner.engine.want(tag, 1, Vec::new(), waiter)).await)
    }

    /// So many ids of a tag, 1 to 10,000. They need not follow one another.
    ///
    /// # Errors
    /// As [`Client::next_id`]; what was taken until then is wasted.
    pub async fn next_ids(&self, tag: &str, count: usize) -> Result<Vec<u64>, Error> {
        let wanted = request::check_count(count)?;
        let got: Vec<Range<u64>> = self.inner.engine.held_ids(tag, wanted).into_iter().collect();
        if got.iter().map(|ids| ids.end - ids.start).sum::<u64>() == wanted {
            return Ok(got.into_iter().flatten().collect());
        }
        reply::many(self.wait(|waiter| self.inner.engine.want(tag, wanted, got, waiter)).await)
    }

    /// The next id of a tag as the cluster writes it: `INV-2026-000017` of a tag with a format, the decimal number
    /// of any other.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    pub async fn next_text(&self, tag: &str) -> Result<String, Error> {
        if let Some(id) = self.inner.engine.held(tag) {
            return Ok(id.to_string());
        }
        reply::text(self.wait(|waiter| self.inner.engine.want(tag, 1, Vec::new(), waiter)).await)
    }

    /// The next number of a key of a sequence. Each call asks a node.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    pub async fn next_id_of(&self, tag: &str, key: &str) -> Result<u64, Error> {
        reply::one(self.wait(|waiter| self.inner.engine.want_keyed(tag, key, waiter)).await)
    }

    /// The next snowflake id. It shows a time of the last second.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    #[inline]
    pub async fn next_snowflake(&self) -> Result<u64, Error> {
        if let Some(id) = self.inner.engine.held_snowflake() {
            return Ok(id);
        }
        let want = |waiter| {
            self.inner.engine.want_snowflake(waiter);
            Ok(())
        };
        reply::one(self.wait(want).await)
    }

    /// Wastes what is held. Calls that wait fail with [`Error::Closed`], and so do all later ones. When it
    /// returns, the client's thread and connections are gone.
    pub fn close(&self) {
        self.inner.close();
    }

    async fn wait(&self, want: impl FnOnce(Waiter) -> Result<(), Error>) -> Reply {
        let (waiter, told) = oneshot::channel();
        match want(Waiter::Task(waiter)) {
            // Nobody but the end of the client drops a waiter.
            Ok(()) => told.await.unwrap_or(Reply::Failed(Error::Closed)),
            Err(error) => Reply::Failed(error),
        }
    }

    /// A client whose tasks run on a runtime of the caller's.
    pub(crate) fn over(transport: Box<dyn Transport>, settings: Settings, on: Runtime) -> Self {
        let engine = Engine::new(Network::new(transport, settings, seed()), on);
        Self { inner: Arc::new(Inner { engine, thread: Mutex::new(None) }) }
    }
}

impl Inner {
    fn close(&self) {
        self.engine.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread ends by itself; a panic of it has nothing to tell the caller.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// What a client is made from.
#[derive(Clone, Default)]
#[must_use = "a builder makes nothing until `build`"]
pub struct Builder {
    endpoints: Vec<String>,
    token: Option<String>,
    pem: Pem,
    settings: Settings,
}

impl Builder {
    /// The nodes: `http://HOST:PORT` or `https://HOST:PORT`. Requests go to the first of them, in a random order,
    /// that is well.
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.endpoints.extend(endpoints.into_iter().map(Into::into));
        self
    }

    /// What `mintleaf token new` printed. Over `http://` everybody on the way can read it.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The client's zone: nodes that were started with this `--zone` are asked first.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.settings.zone = Some(zone.into());
        self
    }

    /// The CAs that nodes' certificates must come from, in PEM. The machine's own unless told otherwise.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.pem.cas = Some(pem.into());
        self
    }

    /// What the client proves itself by, for nodes that ask for certificates: its chain and its key, in PEM.
    pub fn identity_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.pem.identity = Some((chain.into(), key.into()));
        self
    }

    /// How long a call waits at most: 10 s unless told otherwise; 1 ms to a day.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How long one node may take over an answer before the next is asked: 2.5 s unless told otherwise; 1 ms to a day.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// Most ids that are leased at once: 1,000,000 unless told otherwise, and no more than that. The end of a
    /// process wastes up to three times as many of each tag.
    pub fn lease_max(mut self, ids: u32) -> Self {
        self.settings.lease_max = ids;
        self
    }

    /// The client. No node is asked yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] names the setting that is not possible.
    pub fn build(self) -> Result<Client, Error> {
        self.settings.check()?;
        let http = Http::new(addresses(&self.endpoints)?, &self.pem, self.token.as_deref())?;
        let thread = |error: std::io::Error| {
            Error::Unavailable(format!("the client's thread cannot be started: {error}"))
        };
        let runtime = RuntimeBuilder::new_current_thread().enable_all().build().map_err(thread)?;
        let client = Client::over(Box::new(http), self.settings, runtime.handle().clone());
        let engine = Arc::clone(&client.inner.engine);
        let run = move || {
            runtime.block_on(engine.closed());
            runtime.shutdown_timeout(LOOK_UP_MAX);
        };
        let running = std::thread::Builder::new().name("mintleaf-client".to_owned()).spawn(run);
        *client.inner.thread.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(running.map_err(thread)?);
        Ok(client)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Token and key are not shown.
        let Self { endpoints, settings, .. } = self;
        f.debug_struct("Builder")
            .field("endpoints", endpoints)
            .field("settings", settings)
            .finish_non_exhaustive()
    }
}

/// A number that differs from client to client: the standard library seeds its hashers so.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("mintleaf")
}
