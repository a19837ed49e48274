//! The client for async code, and its builder.

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
use crate::registration::Registration;
use crate::reply::{self, Fallible};
use crate::request;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::transport::http::{Http, addresses};
use crate::transport::tls::Pem;

/// How long closing a client waits for a name that the operating system is still looking up. A lookup cannot be
/// cancelled; everything else ends at once.
const LOOK_UP_MAX: Duration = Duration::from_millis(100);

/// Ids from a Mintleaf cluster, for async code on any runtime.
///
/// It is cheap to clone, and clones share the ids that they hold. [`Client::close`], or dropping the last clone,
/// ends its one thread and wastes what is held.
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

/// The engine and its thread. Both end when the last owner is dropped.
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The future of [`Client::next_id`]. It takes an id when it is first polled.
///
/// It is written by hand because the poll of an `async fn` is not inlined into other crates, and costs more than an id.
#[must_use = "futures do nothing unless they are awaited"]
pub struct NextId<'a> {
    client: &'a Client,
    tag: &'a str,
    /// The pending call, when no id was held.
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
    /// Starts building a client. Only [`Builder::endpoints`] is required.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The next id of a tag. No other caller gets this id.
    ///
    /// # Errors
    /// [`Error`] lists them.
    #[inline]
    pub fn next_id<'a>(&'a self, tag: &'a str) -> NextId<'a> {
        NextId { client: self, tag, waiting: None }
    }

    async fn wait_for_one(&self, tag: &str) -> Result<u64, Error> {
        reply::one(self.wait(|waiter| self.inner.engine.want(tag, 1, Vec::new(), waiter)).await)
    }

    /// `count` ids of a tag, 1 to 10,000. They need not be consecutive.
    ///
    /// # Errors
    /// As [`Client::next_id`]; ids taken before the error are wasted.
    pub async fn next_ids(&self, tag: &str, count: usize) -> Result<Vec<u64>, Error> {
        let wanted = request::check_count(count)?;
        let got: Vec<Range<u64>> = self.inner.engine.held_ids(tag, wanted).into_iter().collect();
        if got.iter().map(|ids| ids.end - ids.start).sum::<u64>() == wanted {
            return Ok(got.into_iter().flatten().collect());
        }
        reply::many(self.wait(|waiter| self.inner.engine.want(tag, wanted, got, waiter)).await)
    }

    /// The next id of a tag as the cluster writes it: `INV-2026-000017` for a tag with a format, the decimal
    /// number for any other tag.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    pub async fn next_text(&self, tag: &str) -> Result<String, Error> {
        if let Some(id) = self.inner.engine.held(tag) {
            return Ok(id.to_string());
        }
        reply::text(self.wait(|waiter| self.inner.engine.want(tag, 1, Vec::new(), waiter)).await)
    }

    /// The next number of a key of a sequence. Each call sends a request to a node.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    pub async fn next_id_of(&self, tag: &str, key: &str) -> Result<u64, Error> {
        reply::one(self.wait(|waiter| self.inner.engine.want_keyed(tag, key, waiter)).await)
    }

    /// The number that a key of a register has for ever. The first call with a key gives it the next number; the same
    /// key gets the same number again, however often it is asked for.
    ///
    /// # Errors
    /// As [`Client::next_id`].
    pub async fn register(&self, tag: &str, key: &str) -> Result<Registration, Error> {
        self.wait(|waiter| self.inner.engine.want_registered(tag, key, waiter)).await
    }

    /// The next snowflake id. The time in it is at most a second old.
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

    /// Wastes what is held, and gives leases of worker ids back. It waits for that, one attempt at most.
    /// Calls that are waiting fail with [`Error::Closed`], and so do all later ones. When
    /// this returns, the client's thread and connections are gone.
    pub fn close(&self) {
        self.inner.close();
    }

    pub(crate) async fn wait<R: Fallible>(
        &self,
        want: impl FnOnce(Waiter<R>) -> Result<(), Error>,
    ) -> R {
        let (waiter, told) = oneshot::channel();
        match want(Waiter::Task(waiter)) {
            // A waiter is dropped only when the client ends.
            Ok(()) => told.await.unwrap_or_else(|_| R::failed(Error::Closed)),
            Err(error) => R::failed(error),
        }
    }

    /// A client whose tasks run on the caller's runtime.
    pub(crate) fn over(transport: Box<dyn Transport>, settings: Settings, on: Runtime) -> Self {
        let engine = Engine::new(Network::new(transport, settings, seed()), on);
        Self { inner: Arc::new(Inner { engine, thread: Mutex::new(None) }) }
    }
}

impl Inner {
    fn close(&self) {
        // A second close waits here for the first.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        self.engine.close();
        if let Some(thread) = thread.take() {
            // The thread ends by itself. If it panicked, the caller has no use for the panic.
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

/// The settings that a client is made from.
#[derive(Clone, Default)]
#[must_use = "a builder makes nothing until `build`"]
pub struct Builder {
    endpoints: Vec<String>,
    token: Option<String>,
    pem: Pem,
    settings: Settings,
}

impl Builder {
    /// The nodes: `http://HOST:PORT` or `https://HOST:PORT`. The client orders them at random and sends each
    /// request to the first one that works.
    pub fn endpoints(mut self, endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.endpoints.extend(endpoints.into_iter().map(Into::into));
        self
    }

    /// The token that `mintleaf token new` printed. Over `http://` everyone on the network path can read it.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The client's zone. Nodes that were started with the same `--zone` are asked first.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.settings.zone = Some(zone.into());
        self
    }

    /// The CAs that must have signed the nodes' certificates, in PEM. Default: the machine's own CAs.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.pem.cas = Some(pem.into());
        self
    }

    /// The certificate chain and key, in PEM, that the client presents to nodes that require client certificates.
    pub fn identity_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.pem.identity = Some((chain.into(), key.into()));
        self
    }

    /// How long a call may wait. Default 10 s; 1 ms to a day.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How long one node may take to answer before the next is asked. Default 2.5 s; 1 ms to a day.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// The largest number of ids in one lease. Default, and maximum: 1,000,000. When a process ends, up to
    /// three times this number of ids is wasted for each tag.
    pub fn lease_max(mut self, ids: u32) -> Self {
        self.settings.lease_max = ids;
        self
    }

    /// Makes the client. It sends no request yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] names the invalid setting.
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
        // The token and the key stay out of the output.
        let Self { endpoints, settings, .. } = self;
        f.debug_struct("Builder")
            .field("endpoints", endpoints)
            .field("settings", settings)
            .finish_non_exhaustive()
    }
}

/// A number that differs between clients, because the standard library seeds its hashers at random.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("mintleaf")
}
