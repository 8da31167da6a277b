//! A network for one proof, and the files that it needs. The namespaces are made and the copy of the file system is entered; what is written here
//! is gone with the process.
//!
//! Every name leads to an address of 10.0.0.0/8, every address that the file names leads to a second network, in which all addresses are local:
//! so servers can listen on ports that the program itself listens on, and no file has to be changed.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::clock::wait_until;
use crate::file_system::run;
use crate::names::KnownNames;
use crate::original::{IngredientKind, OriginalFacts, WantedFile};
use crate::servers::ProofServers;

/// What all names are certified by.
const CERTIFICATE: &str = "/run/weir-proof/site.pem";
/// User `proof`, password `proof`.
const PASSWORDS: &str = "proof:{SHA}72Q2PSOzJVbL2GtwV4D/2YKrYIs=\n";

/// As many files as a config may ask for, where that is allowed.
pub(crate) fn raise_limits() {
    let all = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
    // Who is not root keeps what there is.
    let _ = setrlimit(Resource::Nofile, all);
}

/// Writes the files that the original wants, and starts its servers.
pub(crate) fn prepare(facts: &OriginalFacts) -> anyhow::Result<ProofServers> {
    write_files(facts)?;
    let servers = ProofServers::new(KnownNames::default(), server_settings()?);
    join_networks(facts, &servers)?;
    for port in &facts.local_ports {
        let is_own = facts.endpoints.iter().any(|endpoint| endpoint.port == *port);
        if !is_own {
            servers.listen(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port));
        }
    }
    servers.keep_messages();
    for path in &facts.sockets {
        if path.starts_with('/') {
            fs::create_dir_all(Path::new(path).parent().unwrap_or(Path::new("/")))?;
            let _ = fs::remove_file(path);
            servers.listen_unix(path);
            open_to_all(Path::new(path));
        }
    }
    Ok(servers)
}

/// A second network behind this one. The thread that serves there lives as long as the process.
fn join_networks(facts: &OriginalFacts, servers: &ProofServers) -> anyhow::Result<()> {
    run("ip", &["link", "set", "lo", "up"])?;
    let own = fs::read_link("/proc/self/ns/net")?;
    let mut holder = Command::new("unshare").args(["--net", "sleep", "600"]).stdin(Stdio::null()).spawn()?;
    let path = format!("/proc/{}/ns/net", holder.id());
    let is_there = wait_until(Duration::from_secs(5), || fs::read_link(&path).is_ok_and(|link| link != own));
    ensure!(is_there, "no second network");
    run(
        "ip",
        &[
            "link",
            "add",
            "proof0",
            "type",
            "veth",
            "peer",
            "name",
            "proof1",
            "netns",
            &holder.id().to_string(),
        ],
    )?;
    let link = fs::File::open(&path)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (facts_there, servers_there) = (facts.clone(), servers.clone());
    std::thread::spawn(move || {
        let entered = move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network));
        let all = entered.map_err(anyhow::Error::from).and_then(|()| there(&facts_there, &servers_there));
        let _ = sender.send(all);
        loop {
            std::thread::park();
        }
    });
    receiver.recv().context("no second network")??;
    // The thread is in it now.
    holder.kill()?;
    holder.wait()?;
    run("ip", &["address", "add", "100.64.77.1/30", "dev", "proof0"])?;
    run("ip", &["link", "set", "proof0", "up"])?;
    run("ip", &["route", "add", "default", "via", "100.64.77.2"])?;
    let sources = facts.ingredients.iter().filter(|one| one.kind == IngredientKind::Source);
    for source in sources {
        run("ip", &["address", "add", &format!("{}/32", source.value), "dev", "lo"]).ok();
    }
    for endpoint in facts.endpoints.iter().filter(|endpoint| !endpoint.address.is_loopback()) {
        let bits = if endpoint.address.is_ipv4() { 32 } else { 128 };
        run("ip", &["address", "add", &format!("{}/{bits}", endpoint.address), "dev", "lo"]).ok();
    }
    for resolver in facts.resolvers.iter().chain(&[IpAddr::V4(Ipv4Addr::LOCALHOST)]) {
        if resolver.is_loopback() {
            servers.names.serve(*resolver);
        }
    }
    Ok(())
}

/// In the second network.
fn there(facts: &OriginalFacts, servers: &ProofServers) -> anyhow::Result<()> {
    run("ip", &["link", "set", "lo", "up"])?;
    run("ip", &["address", "add", "100.64.77.2/30", "dev", "proof1"])?;
    run("ip", &["link", "set", "proof1", "up"])?;
    run("ip", &["route", "add", "local", "0.0.0.0/0", "dev", "lo"])?;
    // Answers to the first network leave by the link.
    run("ip", &["route", "add", "100.64.77.0/30", "dev", "proof1", "table", "local"]).ok();
    let known = [80, 443].into_iter();
    for port in facts.ports.iter().copied().chain(known).collect::<std::collections::BTreeSet<u16>>() {
        servers.listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
    }
    for resolver in facts.resolvers.iter().filter(|resolver| !resolver.is_loopback()) {
        servers.names.serve(*resolver);
    }
    Ok(())
}

fn server_settings() -> anyhow::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = vec![CertificateDer::from_pem_file(CERTIFICATE)?];
    let key = PrivateKeyDer::from_pem_file(CERTIFICATE)?;
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_no_client_auth().with_single_cert(chain, key)?)
}

fn write_files(facts: &OriginalFacts) -> anyhow::Result<()> {
    make_certificate(facts)?;
    let both = fs::read_to_string(CERTIFICATE)?;
    fs::write("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1\n").or_else(|_| {
        fs::remove_file("/etc/resolv.conf")
            .and_then(|()| fs::write("/etc/resolv.conf", "nameserver 127.0.0.1\n"))
    })?;
    for (file, end) in
        [("/etc/passwd", ":x:65534:65534::/nonexistent:/bin/false\n"), ("/etc/group", ":x:65534:\n")]
    {
        let mut known = fs::read_to_string(file).unwrap_or_default();
        for account in &facts.accounts {
            if !known.lines().any(|line| line.split(':').next() == Some(account)) {
                known.push_str(&format!("{account}{end}"));
            }
        }
        fs::write(file, known)?;
    }
    for file in &facts.files {
        match file {
            WantedFile::Certificate(path) if path.ends_with('/') => {
                write(&format!("{path}proof.pem"), &both, true)?;
            }
            WantedFile::Certificate(path) => write(path, &both, true)?,
            WantedFile::Passwords(path) => write(path, PASSWORDS, true)?,
            WantedFile::Text(path) => write(path, "", false)?,
            WantedFile::Around(path) if path.ends_with('/') => {
                fill_folder(Path::new(path), &OriginalFacts::default())?;
            }
            WantedFile::Around(path) => write(path, "", false).map(|()| drop(fs::remove_file(path)))?,
            WantedFile::Folder(path) => fill_folder(Path::new(path), facts)?,
        }
    }
    for folder in ["/var/lib/nginx", "/var/log/nginx", "/var/cache/nginx", "/run/haproxy", "/var/lib/haproxy"]
    {
        fs::create_dir_all(folder)?;
        open_to_all(Path::new(folder));
    }
    Ok(())
}

/// Files beside the config of Weir that it names and that are not there, as the report of an import tells to write them: each value that is one word
/// in a folder without a path.
pub(crate) fn write_secrets(config: &Path) -> anyhow::Result<()> {
    let toml = fs::read_to_string(config).with_context(|| format!("{}", config.display()))?;
    for line in toml.lines().filter(|line| !line.trim_start().starts_with('#')) {
        for (key, rest) in line.match_indices("file").filter_map(|(at, _)| line[at..].split_once('=')) {
            let value = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            let Some(value) = value.filter(|value| key.len() < 12 && !value.contains(['/', '{', ':'])) else {
                continue;
            };
            let path = config.with_file_name(value);
            if !path.exists() {
                fs::write(path, "proof-password\n")?;
            }
        }
    }
    Ok(())
}

/// Makes a certificate for all hosts, with its key in the same file.
fn make_certificate(facts: &OriginalFacts) -> anyhow::Result<()> {
    let hosts = facts.ingredients.iter().filter(|one| one.kind == IngredientKind::Host);
    let mut names = vec!["DNS:proof.example".to_owned()];
    let is_name =
        |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    names.extend(hosts.map(|host| host.value.as_str()).filter(is_name).map(|host| format!("DNS:{host}")));
    let (key, certificate) = ("/run/weir-proof/key.pem", "/run/weir-proof/certificate.pem");
    let names = format!("subjectAltName={}", names.join(","));
    run(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "30",
            "-subj",
            "/CN=proof",
            "-addext",
            &names,
            "-keyout",
            key,
            "-out",
            certificate,
        ],
    )?;
    fs::write(CERTIFICATE, fs::read_to_string(certificate)? + &fs::read_to_string(key)?)?;
    Ok(())
}

/// Files of the machine are left as they are where they exist, unless they belong to what is proved.
fn write(path: &str, text: &str, replaces: bool) -> anyhow::Result<()> {
    let path = Path::new(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        open_to_all(parent);
    }
    if path.is_dir() || (path.exists() && !replaces) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Any account may write there: programs give up their rights.
fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    // The folders of the system stay theirs.
    if path.components().count() > 2 {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o777));
    }
}

/// Pages that are commonly asked for.
fn fill_folder(folder: &Path, facts: &OriginalFacts) -> anyhow::Result<()> {
    if fs::create_dir_all(folder).is_err() {
        // It is a file on this machine.
        return Ok(());
    }
    let common =
        ["index.html", "index.php", "404.html", "50x.html", "robots.txt", "app.js", "style.css", "image.png"];
    let paths = facts.ingredients.iter().filter(|one| one.kind == IngredientKind::Path);
    let named = paths.map(|path| path.value.trim_start_matches('/')).filter(|path| {
        let last = path.rsplit('/').next().unwrap_or_default();
        last.contains('.') && !last.starts_with('.') && !path.contains("..") && path.len() < 100
    });
    for name in common.into_iter().chain(named) {
        let path = folder.join(name);
        let Some(parent) = path.parent() else { continue };
        if !path.exists() && fs::create_dir_all(parent).is_ok() {
            // A path may be a folder's.
            let _ = fs::write(&path, format!("file {name} in {}\n", folder.display()));
        }
    }
    Ok(())
}
