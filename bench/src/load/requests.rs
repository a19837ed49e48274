//! The bytes of all requests, prepared before the first is sent.

use std::net::SocketAddr;

use super::Load;
use super::grpc;
use super::protocol::Protocol;

/// One request for each key, one after the other, all of the same length.
pub(super) struct Requests {
    bytes: Vec<u8>,
    length: usize,
    keys: u64,
}

impl Requests {
    /// The requests of a load. After the last key they start over with the first.
    pub(super) fn new(load: &Load) -> Self {
        let one = |key: u64| {
            let request = load.request.replace("{key}", &format!("{key:07}"));
            match load.protocol {
                Protocol::Http => http(&request, load.target, &load.headers),
                Protocol::Resp => resp(&request),
                Protocol::Etcd => grpc::put(&request, load.target),
                Protocol::EtcdRead => grpc::read(&request, load.target),
            }
        };
        let (length, keys) = (one(0).len(), load.keys);
        let bytes = (0..keys + load.depth).flat_map(|at| one(at % keys)).collect();
        Self { bytes, length, keys }
    }

    /// The requests `first` up to `first + count`, counted from 0. `count` is at most the load's depth.
    pub(super) fn batch(&self, first: u64, count: u64) -> &[u8] {
        let first = (first % self.keys) as usize * self.length;
        &self.bytes[first..first + count as usize * self.length]
    }
}

fn http(request: &str, target: SocketAddr, headers: &str) -> Vec<u8> {
    let mut words = request.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, path, body) = (word(), word(), word());
    let about_body = match body.len() {
        0 => String::new(),
        length => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
    };
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {target}\r\n{headers}{about_body}");
    format!("{head}\r\n{body}").into_bytes()
}

/// A Redis command.
pub(super) fn resp(command: &str) -> Vec<u8> {
    let words: Vec<&str> = command.split(' ').collect();
    let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulks.collect::<String>()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_turns() {
        let load = Load {
            target: "127.0.0.1:1".parse().unwrap(),
            protocol: Protocol::Resp,
            request: "INCR k{key}".to_owned(),
            headers: String::new(),
            login: String::new(),
            ca: None,
            servers: Vec::new(),
            keys: 3,
            connections: 1,
            depth: 2,
            time: std::time::Duration::ZERO,
            requests: None,
            rate: None,
        };
        let requests = Requests::new(&load);
        let batch = String::from_utf8(requests.batch(5, 2).to_vec()).unwrap();
        let incr = |key| format!("*2\r\n$4\r\nINCR\r\n$8\r\nk000000{key}\r\n");
        assert_eq!(batch, incr(2) + &incr(0));
    }

    #[test]
    fn bodies_have_their_length() {
        let target = "127.0.0.1:1".parse().unwrap();
        let bytes = http("PATCH /v1/tags/a {\"step\":1, \"x\":2}", target, "");
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("PATCH /v1/tags/a HTTP/1.1\r\nhost: 127.0.0.1:1\r\n"), "{text}");
        assert!(text.ends_with("content-length: 17\r\n\r\n{\"step\":1, \"x\":2}"), "{text}");
    }
}
