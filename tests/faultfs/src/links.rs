//! Networks of nodes whose links fail packet by packet.
//!
//! Every node gets a separate network namespace, with one address on a bridge. This process is on the bridge
//! too, at `.254`. For each sender, a rule of nftables in the namespace of the receiving node decides what
//! happens to packets. So each direction of each pair has a separate rule, and packets from the bridge's own
//! address, where clients are, are never affected.
//!
//! There is no delay and no jitter, because not every kernel has `netem`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use parking_lot::Mutex;

/// The most networks on one machine at a time.
const NETWORKS_MAX: u8 = 16;
/// The bridge's last byte in every network. Those of nodes are lower.
const OUTSIDE: u8 = 254;

/// Why networks do not work here; `None` if they do.
pub fn why_not() -> Option<&'static str> {
    if !crate::mount::is_root() {
        return Some("not root");
    }
    let missing = |tool: &str, flag| run(Command::new(tool).arg(flag)).is_err();
    if missing("ip", "-V") {
        return Some("no ip (iproute2)");
    }
    missing("nft", "-v").then_some("no nft (nftables)")
}

/// What happens to the packets in one direction between two nodes. By default, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// All packets arrive.
    #[default]
    Open,
    /// No packet arrives, and the sender gets no error.
    Cut,
    /// This percentage of the packets is lost, at random.
    Lossy(u8),
    /// Packets beyond this many bytes a second are lost.
    Narrow(u64),
    /// TCP connections are reset as soon as they carry a packet.
    Reset,
}

impl Link {
    /// The rule for packets from an address, if one is needed.
    fn rule(self, from: Ipv4Addr) -> Option<String> {
        let what = match self {
            Link::Open => return None,
            Link::Cut => "drop".to_owned(),
            Link::Lossy(percent) => format!("numgen random mod 100 < {percent} drop"),
            Link::Narrow(bytes) => format!("limit rate over {bytes} bytes/second drop"),
            Link::Reset => "meta l4proto tcp reject with tcp reset".to_owned(),
        };
        Some(format!("ip saddr {from} {what}"))
    }
}

/// A network of nodes. Dropping it removes it. Remains of a killed process are removed when the next process
/// makes a network.
#[derive(Debug)]
pub struct Network {
    number: u8,
    nodes: u8,
    /// The links that are not open, by receiver and sender.
    links: Mutex<BTreeMap<(u8, u8), Link>>,
    /// Held while the number is in use.
    _lock: File,
}

impl Network {
    /// Makes a network of nodes 1 to `nodes`, with all links open.
    ///
    /// # Errors
    /// When [`why_not`] names a reason, there are too many networks, or the kernel refuses.
    ///
    /// # Panics
    /// When there are more than 100 nodes.
    pub fn new(nodes: u8) -> io::Result<Self> {
        assert!(nodes <= 100, "100 nodes at most");
        let (number, lock) = claim_number()?;
        remove_leftovers(number);
        // From here on, dropping it cleans up.
        let network = Self { number, nodes, links: Mutex::default(), _lock: lock };
        network.make_bridge()?;
        (1..=nodes).try_for_each(|node| network.make_node(node))?;
        Ok(network)
    }

    /// A node's address.
    pub fn address(&self, node: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number, node)
    }

    /// The start of a command line that runs the rest of it as a process of a node.
    pub fn enter(&self, node: u8) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace(node)].map(str::to_owned).to_vec()
    }

    /// Sets what happens to packets from `from` to `to`.
    ///
    /// # Errors
    /// When the kernel refuses the rule.
    pub fn set(&self, from: u8, to: u8, link: Link) -> io::Result<()> {
        let mut links = self.links.lock();
        links.insert((to, from), link);
        self.apply(to, &links)
    }

    /// Opens all links.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn heal(&self) -> io::Result<()> {
        let mut links = self.links.lock();
        links.clear();
        (1..=self.nodes).try_for_each(|node| self.apply(node, &links))
    }

    /// Replaces all rules of one node atomically.
    fn apply(&self, to: u8, links: &BTreeMap<(u8, u8), Link>) -> io::Result<()> {
        let rules = links.range((to, 0)..=(to, u8::MAX));
        let rules = rules.filter_map(|(&(_, from), link)| link.rule(self.address(from)));
        let rules: Vec<String> = rules.collect();
        let table = format!(
            "table inet mintleaf {{}}\ndelete table inet mintleaf\ntable inet mintleaf {{\n\
             chain input {{\ntype filter hook input priority 0;\n{}\n}}\n}}\n",
            rules.join("\n")
        );
        run_with(
            Command::new("ip").args(["netns", "exec", &self.namespace(to), "nft", "-f", "-"]),
            &table,
        )
    }

    fn make_bridge(&self) -> io::Result<()> {
        let (bridge, address) = (bridge(self.number), self.address(OUTSIDE));
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("address add {address}/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))
    }

    fn make_node(&self, node: u8) -> io::Result<()> {
        let (space, bridge, address) =
            (self.namespace(node), bridge(self.number), self.address(node));
        let cable = format!("ml{}-v{node}", self.number);
        ip(&format!("netns add {space}"))?;
        ip(&format!("link add {cable} type veth peer name eth0 netns {space}"))?;
        ip(&format!("link set {cable} master {bridge} up"))?;
        ip(&format!("-n {space} address add {address}/24 dev eth0"))?;
        ip(&format!("-n {space} link set eth0 up"))?;
        ip(&format!("-n {space} link set lo up"))
    }

    fn namespace(&self, node: u8) -> String {
        format!("{}{node}", namespace_prefix(self.number))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove_leftovers(self.number);
    }
}

fn bridge(number: u8) -> String {
    format!("ml{number}-br")
}

fn namespace_prefix(number: u8) -> String {
    format!("mintleaf-{number}-")
}

/// The first number that no living process uses.
fn claim_number() -> io::Result<(u8, File)> {
    for number in 0..NETWORKS_MAX {
        let path = std::env::temp_dir().join(format!("mintleaf-network-{number}.lock"));
        let lock = File::options().create(true).truncate(false).write(true).open(path)?;
        if lock.try_lock().is_ok() {
            return Ok((number, lock));
        }
    }
    Err(io::Error::other(format!("there are {NETWORKS_MAX} networks already")))
}

/// Removes the remains of a network. When a namespace without processes is removed, its end of the cable
/// disappears, and so does the cable.
fn remove_leftovers(number: u8) {
    let prefix = namespace_prefix(number);
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(node) = name.strip_prefix(&prefix) {
            // Both may be gone already.
            let _ = ip(&format!("link delete ml{number}-v{node}"));
            let _ = ip(&format!("netns delete {name}"));
        }
    }
    // Usually there is none.
    let _ = ip(&format!("link delete {}", bridge(number)));
}

fn ip(words: &str) -> io::Result<()> {
    run(Command::new("ip").args(words.split(' ')))
}

fn run(command: &mut Command) -> io::Result<()> {
    run_with(command, "")
}

/// Runs a command to its end. The error of a failure contains its output.
fn run_with(command: &mut Command, input: &str) -> io::Result<()> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // If the command ended without reading its input, its exit code says why it failed.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?} failed: {}", said.trim())))
}
