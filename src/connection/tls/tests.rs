use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use super::*;
use crate::connection::watchdog::{CloseReason, Progress};
use crate::metrics::Protocol;

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn ca() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, key()).unwrap()
}

fn files() -> PemContents {
    files_of(&ca())
}

fn files_of(ca: &CertifiedIssuer<'_, KeyPair>) -> PemContents {
    let key = key();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let made = params.signed_by(&key, ca).unwrap();
    PemContents {
        certificate: made.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        client_ca: None,
    }
}

#[test]
fn files_that_fit_are_taken() {
    let made = ClientTls::from_pem(&files()).unwrap();
    assert!(made.expires_at_s() > 4_000_000_000 / 2, "{}", made.expires_at_s());
    let with_clients = PemContents { client_ca: Some(ca().pem().into_bytes()), ..files() };
    let made = ClientTls::from_pem(&with_clients).unwrap();
    let config = made.of(Protocol::Http);
    assert_eq!(config.send_tls13_tickets, 0, "clients with certificates resume nothing");
    assert!(!config.ticketer.enabled());
}

#[test]
fn a_certificate_that_bears_the_name_of_a_node_is_known() {
    let bears = |names: &[&str]| {
        let key = key();
        let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let made = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let (certificate, key) = (made.pem().into_bytes(), key.serialize_pem().into_bytes());
        ClientTls::from_pem(&PemContents { certificate, key, client_ca: None })
            .unwrap()
            .names_a_node()
    };
    assert!(bears(&["a.example", "node-1.mintleaf"]) && bears(&["NODE-7.Mintleaf"]));
    assert!(!bears(&["localhost", "10.0.0.1"]) && !bears(&["node-1.example"]) && !bears(&[]));
}

#[test]
fn files_that_do_not_are_refused_with_the_flag() {
    let (good, other) = (files(), files());
    let cut = good.certificate[..good.certificate.len() / 2].to_vec();
    for (broken, why) in [
        (PemContents { certificate: cut, ..good.clone() }, "--tls-cert"),
        (PemContents { certificate: vec![], ..good.clone() }, "--tls-cert holds no certificate"),
        (PemContents { key: vec![], ..good.clone() }, "--tls-key holds no private key"),
        (PemContents { key: other.key, ..good.clone() }, "--tls-key is not the key of --tls-cert"),
        (PemContents { client_ca: Some(vec![]), ..good }, "--tls-client-ca holds no certificate"),
    ] {
        let refused = ClientTls::from_pem(&broken).unwrap_err().to_string();
        assert!(refused.starts_with(why), "{why}: {refused}");
    }
}

/// The outcome of a connection that `client` drives, at a node with these files.
async fn begun(files: &PemContents, client: impl AsyncFnOnce(TcpStream)) -> Handshake {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let tls = watch::Sender::new(Arc::new(ClientTls::from_pem(files).unwrap())).subscribe();
    let (progress, (_node, drain)) = (Progress::default(), crate::connection::drain::drain());
    let (handshakes, without_tls) = (Handshakes::default(), &b"speak TLS"[..]);
    let terms = Terms { tls: &tls, handshakes: &handshakes, protocol: Protocol::Http, without_tls };
    let node = begin(accepted, terms, &progress, drain);
    let (outcome, ()) = tokio::join!(node, client(dialled));
    outcome
}

/// Shakes hands with a node of this CA, and shows a certificate if there is one.
async fn shake_hands(
    stream: TcpStream,
    ca: &CertifiedIssuer<'_, KeyPair>,
    shown: Option<&CertifiedIssuer<'_, KeyPair>>,
) {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        Some(signer) => {
            let own = key();
            let made = CertificateParams::default().signed_by(&own, signer).unwrap();
            let der = PrivateKeyDer::try_from(own.serialize_der()).unwrap();
            config.with_client_auth_cert(vec![made.der().clone()], der).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    // In version 1.3 a client learns that it is refused only after its own end has finished.
    if let Ok(mut stream) = connector.connect(name, stream).await {
        let _ = stream.write_all(b"x").await;
    }
}

#[tokio::test]
async fn clients_show_a_certificate_where_they_have_to_and_no_other_will_do() {
    let (own, clients) = (ca(), ca());
    let open = files_of(&own);
    let asks = PemContents { client_ca: Some(clients.pem().into_bytes()), ..open.clone() };
    for (files, shown, is_let_in) in [
        (&open, None, true),
        (&asks, None, false),
        (&asks, Some(&own), false),
        (&asks, Some(&clients), true),
    ] {
        let outcome = begun(files, async |stream| shake_hands(stream, &own, shown).await).await;
        assert_eq!(matches!(outcome, Handshake::Done(..)), is_let_in, "{}", shown.is_some());
        assert_eq!(matches!(outcome, Handshake::Failed), !is_let_in);
    }
}

#[test]
fn a_client_is_believed_for_as_long_as_its_ca_is_in_the_file() {
    let [first, second] = [ca(), ca()];
    let signed = |ca: &CertifiedIssuer<'_, KeyPair>| {
        vec![CertificateParams::default().signed_by(&key(), ca).unwrap().der().clone()]
    };
    let [of_first, of_second] = [signed(&first), signed(&second)];
    let own = files();
    let node = |cas: &[&CertifiedIssuer<'_, KeyPair>]| {
        let client_ca = Some(cas.iter().flat_map(|ca| ca.pem().into_bytes()).collect());
        ClientTls::from_pem(&PemContents { client_ca, ..own.clone() }).unwrap()
    };
    let [alone, both, other] = [node(&[&first]), node(&[&first, &second]), node(&[&second])];
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
    let believes = |tls: &ClientTls| [&of_first, &of_second].map(|chain| tls.believes(chain, now));
    assert_eq!(believes(&alone), [true, false]);
    assert_eq!(believes(&both), [true, true]);
    assert_eq!(believes(&other), [false, true]);
    assert!(!alone.believes(&of_first, UnixTime::since_unix_epoch(Duration::ZERO)));
    assert!(alone.has_the_client_ca_of(&node(&[&first])) && !alone.has_the_client_ca_of(&both));
}

#[tokio::test]
async fn a_client_without_tls_is_told_so() {
    let files = files();
    let outcome = begun(&files, async |mut stream: TcpStream| {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"speak TLS");
    });
    assert!(matches!(outcome.await, Handshake::Failed));
}

#[tokio::test]
async fn a_client_that_leaves_is_gone() {
    let files = files();
    let outcome = begun(&files, async |stream: TcpStream| drop(stream));
    assert!(matches!(outcome.await, Handshake::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_has_ten_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let tls = watch::Sender::new(Arc::new(ClientTls::from_pem(&files()).unwrap())).subscribe();
    let (progress, (_node, drain)) = (Progress::default(), crate::connection::drain::drain());
    let began = tokio::time::Instant::now();
    let handshakes = Handshakes::default();
    let terms =
        Terms { tls: &tls, handshakes: &handshakes, protocol: Protocol::Resp, without_tls: b"" };
    let outcome = begin(accepted, terms, &progress, drain).await;
    assert!(matches!(outcome, Handshake::Watchdog(CloseReason::Stalled)));
    assert_eq!(began.elapsed().as_secs(), 10);
    drop(silent);
}
