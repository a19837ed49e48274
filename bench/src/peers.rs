//! The servers that Mintleaf is compared with, as their packages install them, on one core.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mintleaf_harness::{Api, Port};

use crate::Result;
use crate::bench::Bench;
use crate::doors::Certificates;
use crate::process::Process;

/// A running peer.
pub(crate) struct Peer {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    _port: Port,
}

/// nginx that answers everything with a body as long as an id. It is a single process without workers, so that
/// its whole cost is counted in one place.
pub(crate) fn nginx(bench: &Bench, name: &str) -> Result<Peer> {
    let dir = bench.fresh_dir(name)?;
    nginx_in(bench, name, &dir, "")
}

/// The same with TLS and a certificate of the same kind as a node's. Also returns the CA.
pub(crate) fn nginx_by_tls(bench: &Bench) -> Result<(Peer, PathBuf)> {
    let dir = bench.fresh_dir("nginx-tls")?;
    let made = Certificates::make(&bench.options.binary, &dir)?;
    let [certificate, key] = [made.certificate, made.key].map(|file| file.display().to_string());
    let tls = format!(
        " ssl;\n    ssl_certificate {certificate};\n    ssl_certificate_key {key};\n    \
         ssl_protocols TLSv1.3"
    );
    Ok((nginx_in(bench, "nginx-tls", &dir, &tls)?, made.ca))
}

/// `about_listen` follows the address in the `listen` directive.
fn nginx_in(bench: &Bench, name: &str, dir: &Path, about_listen: &str) -> Result<Peer> {
    let port = Port::claim();
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|part| format!("  {part}_temp_path {}/{part};\n", dir.display()));
    let config = format!(
        "daemon off;\nmaster_process off;\npid {dir}/pid;\nerror_log stderr crit;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n{paths}  access_log off;\n  server_tokens off;\n  tcp_nodelay on;\n  \
         keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n  server {{\n    \
         listen {address}{about_listen};\n    \
         location / {{ default_type text/plain; return 200 \"123456789\\n\"; }}\n  }}\n}}\n",
        dir = dir.display(),
        paths = paths.concat(),
        address = port.addr(),
    );
    let file = dir.join("nginx.conf");
    std::fs::write(&file, config)?;
    let mut command = bench.server("nginx");
    command.arg("-e").arg("stderr").arg("-c").arg(file);
    start(name, command, dir, port)
}

/// Redis that keeps everything in memory and writes nothing.
pub(crate) fn redis(bench: &Bench) -> Result<Peer> {
    let (dir, port) = (bench.fresh_dir("redis")?, Port::claim());
    let mut command = bench.server("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.addr().port().to_string()]);
    command.args(["--save", "", "--appendonly", "no"]).arg("--dir").arg(&dir);
    start("redis", command, &dir, port)
}

/// Bare hyper.
pub(crate) fn hyper(bench: &Bench) -> Result<Peer> {
    let (dir, port) = (bench.fresh_dir("hyper")?, Port::claim());
    let mut command = bench.server_at(&std::env::current_exe()?);
    command.args(["hyper", &port.addr().to_string()]);
    start("hyper", command, &dir, port)
}

fn start(name: &str, command: std::process::Command, dir: &Path, port: Port) -> Result<Peer> {
    let address = port.addr();
    let mut process = Process::start(name, command, dir)?;
    process.await_port(address)?;
    Ok(Peer { process, address, _port: port })
}

/// Three nodes of etcd.
pub(crate) struct Etcd {
    nodes: Vec<Peer>,
    _peer_ports: Vec<Port>,
}

impl Etcd {
    /// Starts them, and waits until one leads.
    pub(crate) fn start(bench: &Bench) -> Result<Self> {
        let mut members = Vec::new();
        for id in 1..=3 {
            let name = format!("etcd-{id}");
            let dir = bench.fresh_dir(&name)?;
            members.push((name, dir, Port::claim(), Port::claim()));
        }
        let list =
            members.iter().map(|(name, _, _, peer)| format!("{name}=http://{}", peer.addr()));
        let list = list.collect::<Vec<_>>().join(",");
        let (mut nodes, mut peer_ports) = (Vec::new(), Vec::new());
        for (name, dir, client, peer) in members {
            let address = client.addr();
            let command = etcd_node(bench, &name, &dir, [address, peer.addr()], &list);
            let process = Process::start(&name, command, &dir)?;
            nodes.push(Peer { process, address, _port: client });
            peer_ports.push(peer);
        }
        for node in &mut nodes {
            node.process.await_port(node.address)?;
        }
        let mut etcd = Self { nodes, _peer_ports: peer_ports };
        let addresses: Vec<_> = etcd.nodes.iter().map(|node| node.address).collect();
        etcd.nodes[0].process.await_until(|| addresses.iter().any(|node| leads(*node)))?;
        Ok(etcd)
    }

    /// The address where the leader serves clients.
    pub(crate) fn leader(&self) -> Result<SocketAddr> {
        let leader = self.nodes.iter().find(|node| leads(node.address));
        Ok(leader.ok_or("etcd has no leader")?.address)
    }

    pub(crate) fn processes(&self) -> Vec<&Process> {
        self.nodes.iter().map(|node| &node.process).collect()
    }
}

fn etcd_node(
    bench: &Bench,
    name: &str,
    dir: &Path,
    [client, peer]: [SocketAddr; 2],
    list: &str,
) -> std::process::Command {
    let mut command = bench.server("etcd");
    let data: PathBuf = dir.join("data");
    let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
    command.args(["--name", name, "--initial-cluster", list, "--initial-cluster-state", "new"]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.arg("--data-dir").arg(data);
    command
}

fn leads(node: SocketAddr) -> bool {
    let page = Api(node).try_get("/metrics").map(|answer| answer.body).unwrap_or_default();
    String::from_utf8_lossy(&page).lines().any(|line| line == "etcd_server_is_leader 1")
}
