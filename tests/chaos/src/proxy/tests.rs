use std::time::Instant;

use super::*;

const WITHIN: Duration = Duration::from_secs(5);

/// The first bytes of a node's connection: a handshake of node 1.
const FIRST: &[u8] = b"MLRP\x03\x08\0\0\0\x01crc!\x00\x07\x01";

/// Node 2, which echoes what it receives.
struct Echo {
    proxies: Proxies,
    _server: JoinSet<()>,
}

impl Echo {
    async fn start() -> Self {
        let proxies = Proxies::start(&[1, 2], 7).await.unwrap();
        let listener = TcpListener::bind(proxies.addresses(2).raft).await.unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        Self { proxies, _server: server }
    }

    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.proxies.addresses(2).advertised).await.unwrap()
    }

    /// Opens a connection as node 1.
    async fn open(&self) -> TcpStream {
        let mut stream = self.dial().await;
        assert_eq!(said(&mut stream, FIRST, WITHIN).await.unwrap(), FIRST);
        stream
    }
}

/// Sends bytes, and returns what comes back in time.
async fn said(stream: &mut TcpStream, what: &[u8], within: Duration) -> Option<Vec<u8>> {
    stream.write_all(what).await.ok()?;
    heard(stream, what.len(), within).await
}

async fn heard(stream: &mut TcpStream, bytes: usize, within: Duration) -> Option<Vec<u8>> {
    let mut back = vec![0; bytes];
    timeout(within, stream.read_exact(&mut back)).await.ok()?.ok()?;
    Some(back)
}

#[tokio::test]
async fn a_cut_link_holds_what_is_said_until_it_heals() {
    let echo = Echo::start().await;
    let mut stream = echo.open().await;
    assert_eq!(said(&mut stream, b"one", WITHIN).await.unwrap(), b"one");
    for (from, to) in [(1, 2), (2, 1)] {
        echo.proxies.set(from, to, Weather::CUT);
        let held = said(&mut stream, b"two", Duration::from_millis(200)).await;
        assert_eq!(held, None, "cut from {from} to {to}");
        echo.proxies.set(from, to, Weather::default());
        assert_eq!(heard(&mut stream, 3, WITHIN).await.unwrap(), b"two");
    }
}

#[tokio::test]
async fn a_connection_made_under_a_cut_ends_unanswered() {
    let echo = Echo::start().await;
    echo.proxies.set(2, 1, Weather::CUT);
    let mut stream = echo.dial().await;
    assert_eq!(said(&mut stream, FIRST, WITHIN).await, None);
}

#[tokio::test]
async fn a_slow_link_is_slow_and_a_reset_one_ends() {
    let echo = Echo::start().await;
    let mut stream = echo.open().await;
    echo.proxies.set(1, 2, Weather { delay_ms: 150, ..Weather::default() });
    let began = Instant::now();
    assert_eq!(said(&mut stream, b"one", WITHIN).await.unwrap(), b"one");
    assert!(began.elapsed() >= Duration::from_millis(150));
    echo.proxies.reset(2, 1);
    let ended = timeout(WITHIN, stream.read_u8()).await.unwrap().unwrap_err();
    assert_eq!(ended.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_link_delays_like_a_wire_in_every_weather_of_its_climate() {
    let echo = Echo::start().await;
    let mut stream = echo.open().await;
    let climate = Weather { delay_ms: 500, ..Weather::default() };
    echo.proxies.settle(1, 2, climate);
    // Weather comes and goes.
    echo.proxies.set(1, 2, Weather::CUT);
    echo.proxies.set(1, 2, Weather::default());
    let began = Instant::now();
    for part in [b"one", b"two", b"six"] {
        stream.write_all(part).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(heard(&mut stream, 9, WITHIN).await.unwrap(), b"onetwosix");
    // Delayed one after another they would take three times as long.
    assert!((500..1_400).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

#[test]
fn a_lost_packet_is_one_that_comes_late() {
    let mut random = Random::new(1, "loss");
    let ms = Duration::from_millis;
    let fine = Weather { delay_ms: 100, ..Weather::default() };
    assert_eq!(travel(fine, 1, &mut random), ms(100));
    // A round trip plus 200 ms, doubled each time.
    let all_lost = Weather { loss_percent: 100, ..fine };
    assert_eq!(travel(all_lost, 1, &mut random), ms(100 + 400 * 31));
    let lossy = Weather { loss_percent: 1, ..fine };
    let late = (0..10_000).filter(|_| travel(lossy, 1, &mut random) > ms(100)).count();
    assert!((50..200).contains(&late), "{late} of 10000");
}

#[tokio::test]
async fn a_spoilt_link_flips_one_bit() {
    let echo = Echo::start().await;
    let mut stream = echo.open().await;
    echo.proxies.set(1, 2, Weather { corrupt_percent: 100, ..Weather::default() });
    let back = said(&mut stream, &[0; 64], WITHIN).await.unwrap();
    assert_eq!(back.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
}

#[tokio::test]
async fn a_stranger_is_not_let_in() {
    let echo = Echo::start().await;
    let mut stream = echo.dial().await;
    let stranger = String::from_utf8_lossy(FIRST).replace("\u{7}\u{1}", "\u{7}\u{9}");
    assert_eq!(said(&mut stream, stranger.as_bytes(), WITHIN).await, None);
}
