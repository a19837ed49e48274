//! `mintleaf cert`: a small CA, for clusters without one.

use std::fs::DirBuilder;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::failure::Failure;
use super::new_file::{SECRET, exists, write_new};
use super::output;
use crate::machine::clock::{Clock, SystemClock};

const DAY_S: u64 = 24 * 3600;
/// How long before it is made a certificate becomes valid: clocks of other machines may be behind.
const BACKDATED_S: u64 = 3600;
/// The end of all nodes' names; a certificate is for one node.
const NODE_DOMAIN: &str = ".mintleaf";

/// What to make.
#[derive(Debug, Subcommand)]
pub enum CertCommand {
    /// Create a CA: ca.pem, which anyone may read, and ca.key, which signs
    #[command(after_help = "Example:\n  mintleaf cert ca --out ca\n\nWhoever has ca.key can \
                            impersonate any node and any client. Keep it off the nodes.")]
    Ca(CaArgs),
    /// Create the certificate that a node shows to other nodes (--raft-cert): node-N.pem and node-N.key
    #[command(
        after_help = "Example:\n  mintleaf cert node 1 --ca ca --out node-1\n\nWhoever has its key can \
                            impersonate this node. Give clients a certificate with another key: mintleaf cert server."
    )]
    Node(NodeArgs),
    /// Create the certificate that a node shows to clients (--tls-cert): NAME.pem and NAME.key
    #[command(
        after_help = "Example:\n  mintleaf cert server node-1 --ca ca --out node-1 --name a.example \
                            --name 10.0.0.1\n\nOther nodes do not accept it, neither as a node's nor as a client's."
    )]
    Server(ServerArgs),
    /// Create a client's certificate for nodes with --tls-client-ca: NAME.pem and NAME.key
    #[command(after_help = "Example:\n  mintleaf cert client shop --ca ca --out shop")]
    Client(ClientArgs),
}

/// A CA.
#[derive(Args, Debug)]
pub struct CaArgs {
    /// The directory to write to; existing files are not overwritten
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What the CA is called
    #[arg(long, default_value = "Mintleaf CA", value_parser = common_name)]
    name: String,
    /// Days that it is valid for
    #[arg(long, value_name = "N", default_value_t = 3650)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=36_500))]
    days: u64,
}

/// Where a certificate is signed and written.
#[derive(Args, Debug)]
pub(super) struct SigningArgs {
    /// The directory with ca.pem and ca.key
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The directory to write to; existing files are not overwritten
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Days that it is valid for, but no longer than the CA
    #[arg(long, value_name = "N", default_value_t = 365)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=36_500))]
    days: u64,
}

impl SigningArgs {
    /// The path of the CA's certificate.
    fn ca_path(&self) -> String {
        self.ca.join("ca.pem").display().to_string()
    }
}

/// A node's certificate.
#[derive(Args, Debug)]
pub struct NodeArgs {
    /// The node's id, as in --node-id
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    id: u64,
    /// Host name or IP address that clients use for the node; may be given several times
    #[arg(long = "name", value_name = "HOST", value_parser = host)]
    names: Vec<String>,
    /// The CA, and the directory to write to.
    #[command(flatten)]
    signing: SigningArgs,
}

/// A certificate that clients see.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// What the files are called: letters, digits and - _ . @; and the host, without --name
    #[arg(value_parser = file_name)]
    name: String,
    /// Host name or IP address that clients use for the node; may be given several times
    #[arg(long = "name", value_name = "HOST", value_parser = host)]
    names: Vec<String>,
    /// The CA, and the directory to write to.
    #[command(flatten)]
    signing: SigningArgs,
}

/// A client's certificate.
#[derive(Args, Debug)]
pub struct ClientArgs {
    /// What the client is called: letters, digits and - _ . @
    #[arg(value_parser = file_name)]
    name: String,
    /// The CA, and the directory to write to.
    #[command(flatten)]
    signing: SigningArgs,
}

/// A certificate that was made.
struct Made {
    /// The paths of the certificate and its key.
    files: [String; 2],
    /// The path of the CA that signed it, unless it is a CA itself.
    ca: Option<String>,
    /// Where each file belongs, for people.
    hint: String,
}

impl Made {
    fn to_json(&self) -> Value {
        let [certificate, key] = &self.files;
        match &self.ca {
            None => json!({ "certificate": certificate, "key": key }),
            Some(ca) => json!({ "certificate": certificate, "key": key, "ca": ca }),
        }
    }
}

pub(super) fn run(command: &CertCommand, json: bool) -> Result<(), Failure> {
    let now_s = SystemClock::default().now_ms() / 1_000;
    let made = match command {
        CertCommand::Ca(args) => make_ca(args, now_s)?,
        CertCommand::Node(args) => make_node(args, now_s)?,
        CertCommand::Server(args) => make_server(args, now_s)?,
        CertCommand::Client(args) => make_client(args, now_s)?,
    };
    if json { output::print_json(&made.to_json()) } else { output::print(&made.hint) }
}

fn make_ca(args: &CaArgs, now_s: u64) -> Result<Made, Failure> {
    let mut params = named(&args.name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, now_s, now_s + args.days * DAY_S);
    let key = new_key()?;
    let made = params.self_signed(&key).map_err(unmade)?;
    let files = write(&args.out, "ca", &made, &key)?;
    let [certificate, key] = &files;
    let hint = format!(
        "{certificate}   for everyone: --raft-ca, --tls-client-ca, and --cacert of clients\n\
         {key}   signs certificates: keep it secret, and off the nodes\n"
    );
    Ok(Made { files, ca: None, hint })
}

fn make_node(args: &NodeArgs, now_s: u64) -> Result<Made, Failure> {
    let own_name = format!("node-{}{NODE_DOMAIN}", args.id);
    let mut names = vec![own_name.clone()];
    names.extend(args.names.iter().cloned());
    let mut params = CertificateParams::new(names).map_err(unmade)?;
    params.distinguished_name = named(&own_name).distinguished_name;
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let files = sign(&args.signing, &format!("node-{}", args.id), params, now_s)?;
    let ([certificate, key], ca) = (&files, args.signing.ca_path());
    let mut hint =
        format!("between nodes: --raft-cert {certificate} --raft-key {key} --raft-ca {ca}\n");
    if args.names.is_empty() {
        hint += "for clients:   make another: mintleaf cert server\n";
    } else {
        hint += &format!(
            "for clients:   --tls-cert {certificate} --tls-key {key}\nand there:     --cacert {ca}\n"
        );
    }
    Ok(Made { files, ca: Some(ca), hint })
}

fn make_server(args: &ServerArgs, now_s: u64) -> Result<Made, Failure> {
    let names = match &args.names[..] {
        [] => vec![host(&args.name).map_err(|why| Failure::new(format!("the name {why}")))?],
        names => names.to_vec(),
    };
    let mut params = CertificateParams::new(names).map_err(unmade)?;
    params.distinguished_name = named(&args.name).distinguished_name;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let files = sign(&args.signing, &args.name, params, now_s)?;
    let ([certificate, key], ca) = (&files, args.signing.ca_path());
    let hint =
        format!("the node:  --tls-cert {certificate} --tls-key {key}\nclients:   --cacert {ca}\n");
    Ok(Made { files, ca: Some(ca), hint })
}

fn make_client(args: &ClientArgs, now_s: u64) -> Result<Made, Failure> {
    let mut params = named(&args.name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let files = sign(&args.signing, &args.name, params, now_s)?;
    let ([certificate, key], ca) = (&files, args.signing.ca_path());
    let hint = format!(
        "the client:  --cert {certificate} --key {key}\nthe nodes:   --tls-client-ca {ca}\n"
    );
    Ok(Made { files, ca: Some(ca), hint })
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn valid(params: &mut CertificateParams, now_s: u64, until_s: u64) {
    let at = |seconds| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    params.not_before = at(now_s.saturating_sub(BACKDATED_S));
    params.not_after = at(until_s);
}

/// Signs a certificate by the CA in its directory; returns the paths of the certificate and its key.
fn sign(
    signing: &SigningArgs,
    stem: &str,
    mut params: CertificateParams,
    now_s: u64,
) -> Result<[String; 2], Failure> {
    let (ca, ca_ends_s) = open_ca(&signing.ca)?;
    if ca_ends_s <= now_s {
        return Err(Failure::new("the CA has expired: make a new one, in another directory"));
    }
    valid(&mut params, now_s, ca_ends_s.min(now_s + signing.days * DAY_S));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = new_key()?;
    let made = params.signed_by(&key, &ca).map_err(unmade)?;
    write(&signing.out, stem, &made, &key)
}

/// The CA in a directory, and when it expires, in Unix seconds.
fn open_ca(dir: &Path) -> Result<(Issuer<'static, KeyPair>, u64), Failure> {
    let [certificate, key] = [dir.join("ca.pem"), dir.join("ca.key")];
    let unusable = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot use {}: {why}", path.display()))
    };
    let key_pem = std::fs::read_to_string(&key).map_err(|error| unusable(&key, &error))?;
    let signs = KeyPair::from_pem(&key_pem).map_err(|error| unusable(&key, &error))?;
    let der = CertificateDer::from_pem_file(&certificate);
    let der = der.map_err(|error| unusable(&certificate, &error))?;
    let (_, parsed) =
        X509Certificate::from_der(&der).map_err(|error| unusable(&certificate, &error))?;
    if parsed.public_key().raw != signs.subject_public_key_info() {
        return Err(unusable(&key, &"it is not the key of ca.pem"));
    }
    let ends_s = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
    let issuer = Issuer::from_ca_cert_der(&der, signs);
    Ok((issuer.map_err(|error| unusable(&certificate, &error))?, ends_s))
}

fn new_key() -> Result<KeyPair, Failure> {
    KeyPair::generate().map_err(unmade)
}

fn unmade(error: rcgen::Error) -> Failure {
    Failure::new(format!("cannot make the certificate: {error}"))
}

/// Writes a certificate and its key, which only its owner may read; returns their paths.
fn write(
    dir: &Path,
    stem: &str,
    made: &Certificate,
    key: &KeyPair,
) -> Result<[String; 2], Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::new(format!("cannot write {}: {error}", path.display()))
    };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| failed(dir, e))?;
    let mode = dir.metadata().map_err(|e| failed(dir, e))?.permissions().mode() & 0o7777;
    // In a directory like /tmp, which has the sticky bit, only the owner of a file can put another in its place.
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let why = format!(
            "other users can write to {} (mode {mode:o}), and could replace a key that is written there",
            dir.display()
        );
        return Err(Failure::hinting(
            why,
            format!("chmod go-w {}, or give another --out", dir.display()),
        ));
    }
    let [certificate_path, key_path] = ["pem", "key"].map(|end| dir.join(format!("{stem}.{end}")));
    for path in [&certificate_path, &key_path] {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
    }
    write_new(&key_path, SECRET, &key.serialize_pem())?;
    write_new(&certificate_path, 0o644, &made.pem())?;
    Ok([certificate_path, key_path].map(|path| path.display().to_string()))
}

fn common_name(text: &str) -> Result<String, &'static str> {
    let is_sound = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    is_sound.then(|| text.to_owned()).ok_or("must have 1 to 64 characters")
}

/// A name that is also the name of a file.
fn file_name(text: &str) -> Result<String, &'static str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let is_sound = (1..=64).contains(&text.len()) && text.chars().all(is_allowed);
    match is_sound && !text.starts_with(['.', '-']) && text != "ca" {
        true => Ok(text.to_owned()),
        false => Err("must have 1 to 64 letters, digits and - _ . @, and not be `ca`"),
    }
}

/// A host's name or address. A second name of a node would make the certificate useless between nodes.
fn host(text: &str) -> Result<String, &'static str> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let name = text.strip_prefix("*.").unwrap_or(text);
    if text.to_ascii_lowercase().ends_with(NODE_DOMAIN) {
        return Err(
            "may not be a name of nodes: mintleaf cert node N makes certificates for those",
        );
    }
    let is_sound =
        text.parse::<IpAddr>().is_ok() || (name.len() <= 253 && name.split('.').all(label));
    is_sound.then(|| text.to_owned()).ok_or("must be a host name or an IP address, without a port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hosts_and_addresses_and_never_those_of_nodes() {
        for good in ["a.example", "localhost", "10.0.0.1", "::1", "*.a.example", "x-1.b_2"] {
            assert!(host(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a:80", "[::1]", "node-2.mintleaf", "x.MINTLEAF", "a..b", "/a"] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn clients_names_are_file_names() {
        assert!(["shop", "a.b@c-d_1"].iter().all(|name| file_name(name).is_ok()));
        for bad in ["", "ca", "../a", "-x", ".x", "a/b", "a b", &"x".repeat(65)] {
            assert!(file_name(bad).is_err(), "{bad}");
        }
    }
}
