//! Processes that pass themselves off as a node, and connections whose proof no longer counts.

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// A listener that asks its callers for nothing, and shows a certificate for node 2 from another secret.
fn rogue() -> TlsAcceptor {
    let keys = Keys(Credentials::from_secrets(&[OLD]).unwrap().certify(2, 2 << 100).unwrap());
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(keys));
    config.alpn_protocols = vec![protocol_name()];
    Arc::new(config).into()
}

#[tokio::test]
async fn a_listener_that_does_not_know_the_secret_is_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (rogue, one) = (rogue(), calling(1, secrets(&[NEW])).await);
    for node_id in [Some(2), None] {
        let target = Target { address: &address, node_id };
        let called = timeout(WITHIN, one.0.call(target, b"abc".to_vec()));
        let accepted = async {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut stream = rogue.accept(tcp).await?;
            stream.read_u8().await
        };
        let (called, accepted) = tokio::join!(called, accepted);
        let unreachable = called.unwrap();
        assert!(
            matches!(&unreachable, Err(TransportError::Unreachable(why)) if why.contains("--cluster-secret-file")),
            "{unreachable:?}"
        );
        assert!(accepted.is_err(), "it was sent {accepted:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_kept_is_not_used_again_once_this_node_accepts_others() {
    let (two, one) = (listen(2, secrets(&[OLD])).await, calling(1, secrets(&[OLD])).await);
    one.ask(&two, Some(2)).await.unwrap();
    assert_eq!(one.0.kept_count(&two.address), 1);
    one.1.send_replace(secrets(&[NEW]));
    let why = one.ask(&two, Some(2)).await.unwrap_err();
    assert!(why.contains("--cluster-secret-file"), "{why}");
    assert_eq!(two.calls.frames.load(Ordering::Relaxed), 1);
}
