//! Ports that stay reserved for a test while its processes come and go.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// This lies below the range that the kernel gives to outgoing connections. From that range, a client that
/// retries a dead port could be given that very port, and connect to itself.
const FIRST: u16 = 12_000;
const COUNT: u16 = 16_000;

/// A TCP port of 127.0.0.1 that no other test uses, in this process or another.
///
/// The UDP port of the same number is the claim. It holds while the TCP port is free, so that a node can be
/// restarted on that port.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UdpSocket,
}

impl Port {
    /// An unused port.
    ///
    /// # Panics
    /// When there is none.
    pub fn claim() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let offset = (process::id() % 97) as u16 * 157;
        for _ in 0..COUNT {
            let next = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(offset);
            if let Some(port) = Self::claim_this(FIRST + next % COUNT) {
                return port;
            }
        }
        panic!("no free port from {FIRST} on");
    }

    /// `count` consecutive ports. The ports 1,000 above them are free, too.
    ///
    /// # Panics
    /// When there are no such ports.
    pub fn claim_row(count: u16) -> Vec<Self> {
        for _ in 0..COUNT {
            let first = Self::claim();
            let rest = (1..count).map(|n| first.number + n);
            let raft = (0..count).map(|n| first.number + 1_000 + n);
            let others: Option<Vec<_>> = rest.chain(raft).map(Self::claim_this).collect();
            if let Some(others) = others {
                return std::iter::once(first).chain(others).collect();
            }
        }
        panic!("no {count} free ports in a row");
    }

    fn claim_this(number: u16) -> Option<Self> {
        let address = (Ipv4Addr::LOCALHOST, number);
        let claim = UdpSocket::bind(address).ok()?;
        TcpListener::bind(address).ok()?;
        Some(Self { number, _claim: claim })
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}
