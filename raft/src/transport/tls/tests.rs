use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;
use crate::runtime::Pending;
use crate::transport::{FrameHandler, Plain, TcpTransport, Transport, TransportError};

mod operator_ca;
mod rogues;

const OLD: &[u8] = b"the secret of before, in 32 bytes";
const NEW: &[u8] = b"the present secret, in some bytes";
const WITHIN: Duration = Duration::from_secs(5);

/// Answers with the id and the store that the caller has proved, after a wait if asked to wait.
#[derive(Default)]
struct WhoCalls {
    frames: AtomicUsize,
}

impl FrameHandler for WhoCalls {
    fn handle<'a>(&'a self, caller: Peer, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
        self.frames.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if frame == b"wait" {
                sleep(Duration::from_millis(300)).await;
            }
            Ok(format!("{caller:?}").into_bytes())
        })
    }
}

/// A node that listens, and whose credentials can be replaced.
struct Listening {
    address: String,
    credentials: watch::Sender<Arc<Credentials>>,
    calls: Arc<WhoCalls>,
    _serving: JoinSet<()>,
}

fn secrets(secrets: &[&[u8]]) -> Arc<Credentials> {
    Arc::new(Credentials::from_secrets(secrets).unwrap())
}

fn layer(node_id: u64, credentials: &watch::Sender<Arc<Credentials>>) -> Tls {
    layer_at(node_id, credentials, 1_700_000_000_000)
}

fn layer_at(node_id: u64, credentials: &watch::Sender<Arc<Credentials>>, now_ms: u64) -> Tls {
    let store = u128::from(node_id) << 100;
    Tls::new((node_id, store), credentials.subscribe(), Arc::new(move || now_ms)).unwrap()
}

async fn listen(node_id: u64, credentials: Arc<Credentials>) -> Listening {
    let credentials = watch::Sender::new(credentials);
    let layer = layer(node_id, &credentials);
    let transport = TcpTransport::bind("127.0.0.1:0".parse().ok(), 384, layer).unwrap();
    let address = transport.listens_on().unwrap().to_string();
    let (calls, mut serving) = (Arc::new(WhoCalls::default()), JoinSet::new());
    serving.spawn(Arc::new(transport).serve(Arc::clone(&calls) as _).unwrap());
    Listening { address, credentials, calls, _serving: serving }
}

/// A node that calls, and whose credentials can be replaced.
struct Calling(TcpTransport<Tls>, watch::Sender<Arc<Credentials>>);

async fn calling(node_id: u64, credentials: Arc<Credentials>) -> Calling {
    let credentials = watch::Sender::new(credentials);
    let layer = layer(node_id, &credentials);
    Calling(TcpTransport::bind(None, 0, layer).unwrap(), credentials)
}

impl Calling {
    async fn ask(&self, to: &Listening, node_id: Option<u64>) -> Result<(Peer, String), String> {
        self.ask_for(b"who am I?", to, node_id).await
    }

    async fn ask_for(
        &self,
        frame: &[u8],
        to: &Listening,
        node_id: Option<u64>,
    ) -> Result<(Peer, String), String> {
        let target = Target { address: &to.address, node_id };
        let answered = timeout(WITHIN, self.0.call(target, frame.to_vec())).await.unwrap();
        match answered {
            Ok(reply) => Ok((reply.from, String::from_utf8(reply.bytes.to_vec()).unwrap())),
            Err(TransportError::Unreachable(why)) => Err(why),
            Err(other) => panic!("the frame may have had its effect: {other:?}"),
        }
    }
}

fn proven(node_id: u64) -> Peer {
    Peer::Proven { node_id, store: Some(u128::from(node_id) << 100) }
}

#[tokio::test]
async fn both_ends_know_who_the_other_is() {
    let (two, one) = (listen(2, secrets(&[NEW])).await, calling(1, secrets(&[NEW])).await);
    for wanted in [Some(2), None, Some(2)] {
        assert_eq!(one.ask(&two, wanted).await.unwrap(), (proven(2), format!("{:?}", proven(1))));
    }
    assert_eq!(one.0.kept_count(&two.address), 1, "the connection is used again");
}

#[tokio::test]
async fn nothing_is_sent_to_another_node_than_the_one_that_is_wanted() {
    let (two, one) = (listen(2, secrets(&[NEW])).await, calling(1, secrets(&[NEW])).await);
    one.ask(&two, None).await.unwrap();
    let why = one.ask(&two, Some(3)).await.unwrap_err();
    assert!(why.contains("node-2.mintleaf listens there"), "{why}");
    assert_eq!(two.calls.frames.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_node_with_another_secret_is_refused_at_either_end_and_told_the_flag() {
    let two = listen(2, secrets(&[NEW])).await;
    let why = calling(1, secrets(&[OLD])).await.ask(&two, None).await.unwrap_err();
    assert!(why.contains("--cluster-secret-file"), "{why}");
    assert_eq!(two.calls.frames.load(Ordering::Relaxed), 0);
}

/// A caller that believes every certificate, and shows its own.
#[derive(Debug)]
struct BelievesAll(Arc<verifier::NodeVerifier>);

impl rustls::client::danger::ServerCertVerifier for BelievesAll {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        use rustls::client::danger::ServerCertVerifier;
        ServerCertVerifier::supported_verify_schemes(&*self.0)
    }
}

/// The certificates that a caller tries.
fn client(keys: Option<Keys>) -> TlsConnector {
    let provider = Arc::new(default_provider());
    let roots = Credentials::from_secrets(&[NEW]).unwrap().roots();
    let believes = BelievesAll(Arc::new(verifier::NodeVerifier::new(roots, &provider).unwrap()));
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(believes));
    let mut config = match keys {
        Some(keys) => config.with_client_cert_resolver(Arc::new(keys)),
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol_name()];
    Arc::new(config).into()
}

#[tokio::test]
async fn a_caller_without_a_certificate_of_this_cluster_gets_no_frame_through() {
    let two = listen(2, secrets(&[NEW])).await;
    let other = Keys(Credentials::from_secrets(&[OLD]).unwrap().certify(1, 1).unwrap());
    let unnamed = {
        let params = CertificateParams::new(vec!["node-1.mintleaf".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        let der = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let signed =
            CertifiedKey::from_der(vec![made.der().clone()], der, &default_provider()).unwrap();
        Keys(vec![NodeKey { issuer: None, key: Arc::new(signed) }])
    };
    for keys in [None, Some(other), Some(unnamed)] {
        let tcp = TcpStream::connect(&two.address).await.unwrap();
        let any = ServerName::DnsName(DnsName::try_from(ANY_NODE).unwrap());
        // The listener judges the caller last, so for the caller the handshake looks complete.
        let mut stream = client(keys).connect(any, tcp).await.unwrap();
        let _ = stream.write_all(b"\x03\0\0\0abc").await;
        let mut heard = Vec::new();
        let ended = timeout(WITHIN, stream.read_to_end(&mut heard)).await.unwrap();
        assert!(ended.is_err_and(|error| refusal_of_proof(&error, "").is_some()), "{heard:?}");
    }
    assert_eq!(two.calls.frames.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_node_proves_itself_by_whichever_secret_the_other_end_accepts() {
    let sets: [&[&[u8]]; 4] = [&[OLD], &[NEW, OLD], &[OLD, NEW], &[NEW]];
    for (at, to) in sets.iter().enumerate() {
        let two = listen(2, secrets(to)).await;
        for (from, set) in sets.iter().enumerate() {
            let answered = calling(1, secrets(set)).await.ask(&two, Some(2)).await;
            let share_one = set.iter().any(|secret| to.contains(secret));
            assert_eq!(answered.is_ok(), share_one, "{from} to {at}: {answered:?}");
        }
    }
}

/// The secrets of a node, the current one first.
type Set<'a> = &'a [&'a [u8]];

#[tokio::test]
async fn a_secret_is_replaced_without_losing_a_call() {
    let (two, one) = (listen(2, secrets(&[OLD])).await, calling(1, secrets(&[OLD])).await);
    let steps: [(Set<'_>, Set<'_>); 5] = [
        (&[OLD], &[OLD]),
        (&[NEW, OLD], &[OLD]),
        (&[NEW, OLD], &[NEW, OLD]),
        (&[NEW], &[NEW, OLD]),
        (&[NEW], &[NEW]),
    ];
    for (listens, calls) in steps {
        let waiting = one.ask_for(b"wait", &two, Some(2));
        let changing = async {
            sleep(Duration::from_millis(50)).await;
            two.credentials.send_replace(secrets(listens));
            one.1.send_replace(secrets(calls));
        };
        let (waited, ()) = tokio::join!(waiting, changing);
        waited.unwrap();
        one.ask(&two, Some(2)).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_proven_by_a_secret_that_left_the_file_ends() {
    let two = listen(2, secrets(&[NEW, OLD])).await;
    let one = calling(1, secrets(&[OLD])).await;
    let target = Target { address: &two.address, node_id: Some(2) };
    let mut open = one.0.open(target).await.unwrap();
    two.credentials.send_replace(secrets(&[OLD, NEW]));
    sleep(2 * Duration::from_secs(1)).await;
    assert!(open.channel.is_silent(), "both secrets are still there");
    two.credentials.send_replace(secrets(&[NEW]));
    timeout(WITHIN, open.channel.interrupted()).await.expect("it ends");
    let why = one.ask(&two, Some(2)).await.unwrap_err();
    assert!(why.contains("--cluster-secret-file"), "{why}");
}

#[tokio::test]
async fn a_wrong_clock_shuts_no_member_out_that_knows_the_secret() {
    let two = listen(2, secrets(&[NEW])).await;
    let credentials = watch::Sender::new(secrets(&[NEW]));
    for now_ms in [0, 1, 4_000_000_000_000, 90_000_000_000_000] {
        let transport = TcpTransport::bind(None, 0, layer_at(1, &credentials, now_ms)).unwrap();
        let target = Target { address: &two.address, node_id: Some(2) };
        transport.call(target, b"abc".to_vec()).await.unwrap();
    }
}

#[tokio::test]
async fn plain_and_tls_tell_each_other_what_is_missing() {
    let two = listen(2, secrets(&[NEW])).await;
    let plain = TcpTransport::bind("127.0.0.1:0".parse().ok(), 384, Plain).unwrap();
    let target = Target { address: &two.address, node_id: Some(2) };
    let refused = timeout(WITHIN, plain.call(target, b"abc".to_vec())).await.unwrap();
    assert!(
        matches!(&refused, Err(TransportError::Refused(why)) if why.contains("--cluster-secret-file")),
        "{refused:?}"
    );
    let address = plain.listens_on().unwrap().to_string();
    let mut serving = JoinSet::new();
    serving.spawn(Arc::new(plain).serve(Arc::clone(&two.calls) as _).unwrap());
    let one = calling(1, secrets(&[NEW])).await;
    let target = Target { address: &address, node_id: None };
    let unreachable = timeout(WITHIN, one.0.call(target, b"abc".to_vec())).await.unwrap();
    assert!(
        matches!(&unreachable, Err(TransportError::Unreachable(why)) if why.contains("speaks TLS")),
        "{unreachable:?}"
    );
    assert_eq!(two.calls.frames.load(Ordering::Relaxed), 0);
}

#[test]
fn a_short_secret_is_refused() {
    for refused in [&[][..], &[&b"31 bytes are not enough for it."[..]], &[NEW, OLD, NEW]] {
        assert!(Credentials::from_secrets(refused).is_err(), "{refused:?}");
    }
}

#[test]
fn the_ca_of_a_secret_is_the_same_in_every_release() {
    let roots = Credentials::from_secrets(&[NEW]).unwrap().roots();
    let subject: &[u8] = roots.roots[0].subject.as_ref();
    let name = String::from_utf8_lossy(&subject[subject.len() - 32..]).into_owned();
    let key: String =
        roots.roots[0].subject_public_key_info.iter().map(|byte| format!("{byte:02x}")).collect();
    // As derived by Python's hmac and by OpenSSL.
    assert_eq!(name, "a438902fcbda313c64d7684ff92c6983");
    assert_eq!(
        key[key.len() - 64..],
        *"cf3e9c1b3e606dc02b1d24e92dbe751abd366aae9c6f5535c900e2165ba6469b"
    );
}
