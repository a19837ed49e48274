//! A server that behaves as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How the server behaves towards one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// 200 with this body.
    Whole(String),
    /// The server sends nothing.
    Silence,
}

type Acts = dyn Fn(&str) -> Reply + Send + Sync;

struct Shared {
    act: Box<Acts>,
    heads: Mutex<Vec<String>>,
    streams: Mutex<Vec<TcpStream>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    has_ended: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
}

/// A server on its own port. It ends when it is dropped.
pub(crate) struct Server {
    at: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts a server that answers each request as `act` says; `act` gets the request's first line.
    pub(crate) fn start(act: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(Box::new(act), None)
    }

    /// Starts a server that answers like a node, with ids from 1 on.
    pub(crate) fn counting() -> Self {
        Self::start_with(counter(), None)
    }

    /// Starts a server that answers like a node, over TLS.
    pub(crate) fn with_tls(authority: &Authority) -> Self {
        Self::start_with(counter(), Some(authority.server()))
    }

    fn start_with(act: Box<Acts>, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            act,
            heads: Mutex::default(),
            streams: Mutex::default(),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
            tls,
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                accepting.accepted.fetch_add(1, Ordering::SeqCst);
                accepting.open.fetch_add(1, Ordering::SeqCst);
                accepting.streams.lock().unwrap().push(stream.try_clone().unwrap());
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    shared.serve(stream);
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { at, shared }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://localhost:{}", self.at.port())
    }

    /// The heads of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }

    /// How many connections it has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Ends every open connection.
    pub(crate) fn close_connections(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns when no client is connected any more.
    pub(crate) fn await_no_connection(&self) {
        let began = Instant::now();
        while self.shared.open.load(Ordering::SeqCst) > 0 {
            assert!(began.elapsed() < Duration::from_secs(10), "a connection is left");
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        self.close_connections();
        // This wakes the acceptor, which then releases the port.
        let _ = TcpStream::connect(self.at);
        while TcpStream::connect(self.at).is_ok() {
            std::thread::yield_now();
        }
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        match &self.tls {
            None => self.converse(&mut stream),
            Some(config) => {
                let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                self.converse(&mut StreamOwned::new(connection, stream));
            }
        }
    }

    /// Answers until the connection ends.
    fn converse<S: Read + Write>(&self, stream: &mut S) {
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                match reader.read_line(&mut head) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
            let first = head.lines().next().unwrap().to_owned();
            self.heads.lock().unwrap().push(head);
            if self.reply(reader.get_mut(), (self.act)(&first)).is_none() {
                return;
            }
        }
    }

    /// Sends the reply; `None` when the connection must end.
    fn reply(&self, stream: &mut impl Write, reply: Reply) -> Option<()> {
        let answer = match reply {
            Reply::Whole(body) => {
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            }
            Reply::Silence => {
                while !self.has_ended.load(Ordering::SeqCst) {
                    wait(Duration::from_millis(5));
                    // The write of an interim response fails once the client has gone.
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
                }
                return None;
            }
        };
        stream.write_all(answer.as_bytes()).ok()
    }
}

/// Sleeps by waiting on a channel that has no sender.
fn wait(duration: Duration) {
    let (_kept, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(duration);
}

/// How many ids a request wants.
fn count(request: &str) -> u64 {
    let (_, rest) = request.split_once("count=").unwrap();
    rest.split(['&', ' ']).next().unwrap().parse().unwrap()
}

/// An answer that lists as many ids as the request wants.
pub(crate) fn ids(request: &str, start: u64) -> Reply {
    let ids: Vec<_> = (start..start + count(request)).map(|id| format!("\"{id}\"")).collect();
    Reply::Whole(format!(r#"{{"ids":[{}]}}"#, ids.join(",")))
}

/// An answer with those ids as one range.
pub(crate) fn ranges(request: &str, start: u64) -> Reply {
    let end = start + count(request);
    Reply::Whole(format!(r#"{{"ranges":[{{"start":"{start}","end":"{end}"}}],"more":0}}"#))
}

fn counter() -> Box<Acts> {
    let next = AtomicU64::new(1);
    Box::new(move |request| {
        let start = next.fetch_add(count(request), Ordering::SeqCst);
        if request.contains("ranges") { ranges(request, start) } else { ids(request, start) }
    })
}

/// A CA.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Its certificate.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// The TLS settings of a server at localhost, with a certificate from this CA.
    fn server(&self) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }
}
