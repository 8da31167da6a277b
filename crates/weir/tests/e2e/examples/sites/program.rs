//! A site that runs: its servers, its files, the program that the project uses, and Weir.

use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use super::client::accepts;
use super::script::Script;
use super::servers::Servers;
use crate::harness::foreign_program::{foreign_command, free_address, nginx_folders};
use crate::harness::php::Php;
use crate::harness::tls::ECDSA;
use crate::harness::{CertificateAuthority, ForeignProgram, Weir, temporary_folder};

/// Where the configs have the certificate and its key, in one file.
const CERTIFICATE: &str = "/etc/ssl/site.pem";

pub(super) struct Site {
    pub(super) script: Script,
    pub(super) servers: Servers,
    authority: CertificateAuthority,
    /// Listeners by name: the address of the other program.
    addresses: Vec<(String, SocketAddr)>,
    /// The listeners with TLS.
    with_tls: Vec<String>,
    weir: Weir,
    _peer: ForeignProgram,
    _php: Option<Php>,
    _folder: TempDir,
}

impl Site {
    /// Starts all of it from the folder of an example.
    pub(super) fn start(example: &Path) -> Site {
        let script = Script::read(&example.join("requests"));
        let servers = Servers::start(&script);
        let folder = temporary_folder();
        let root = folder.path().to_str().expect("temporary paths are UTF-8").to_owned();
        write_files(&script, folder.path());
        let authority = CertificateAuthority::new();
        authority.issue(folder.path(), "site", &[&script.host, "other.test"], ECDSA);
        let both = ["site.pem", "site.key"].map(|name| std::fs::read_to_string(folder.path().join(name)));
        let both: String = both.into_iter().map(|text| text.expect("it was just written")).collect();
        std::fs::write(folder.path().join("both.pem"), both).expect("the folder takes a file");
        let php = script.replacements.iter().any(|(_, to)| to == "{php}");
        let php = php.then(|| Php::start(folder.path(), 2));
        let adapted = |text: String| {
            let mut text = text.replace(CERTIFICATE, &format!("{root}/both.pem"));
            for (from, to) in &servers.replacements {
                text = text.replace(from, to);
            }
            for (from, to) in &script.replacements {
                let socket = php.as_ref().map(|php| php.entry.trim_matches('"')).unwrap_or_default();
                text = text.replace(from, &to.replace("{dir}", &root).replace("{php}", socket));
            }
            text
        };
        let read = |name: &str| std::fs::read_to_string(example.join(name)).ok();
        let mut text = adapted(read("weir.toml").expect("every site has a config of Weir"));
        for (port, _) in &script.listeners {
            text = text.replace(&format!("\":{port}\""), "\"127.0.0.1:0\"");
        }
        let addresses: Vec<_> =
            script.listeners.iter().map(|(_, name)| (name.clone(), free_address())).collect();
        let with_tls = with_tls(&text);
        let peer = if let Some(text) = read("nginx.conf") {
            nginx(&adapted(text), &script, &addresses)
        } else if let Some(text) = read("haproxy.cfg") {
            haproxy(&adapted(text), &script, &addresses)
        } else {
            caddy(&adapted(read("Caddyfile").expect("a config of another program")), &script, &addresses)
        };
        let weir = Weir::start_in(temporary_folder(), &text);
        Site {
            script,
            servers,
            authority,
            addresses,
            with_tls,
            weir,
            _peer: peer,
            _php: php,
            _folder: folder,
        }
    }

    /// Where the listener `name` of a program is: 0 is the other one, 1 is Weir.
    pub(super) fn address(&self, program: usize, name: &str) -> SocketAddr {
        if program == 1 {
            return self.weir.address(name);
        }
        let found = self.addresses.iter().find(|(listener, _)| listener == name);
        found.unwrap_or_else(|| panic!("no listener {name}")).1
    }

    /// What signs the certificate of a listener with TLS.
    pub(super) fn authority_of(&self, listener: &str) -> Option<&CertificateAuthority> {
        self.with_tls.iter().any(|name| name == listener).then_some(&self.authority)
    }
}

/// Writes the files of a site.
fn write_files(script: &Script, folder: &Path) {
    for (path, text) in &script.files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .expect("the folder takes a folder");
        std::fs::write(path, text).expect("the folder takes a file");
    }
    for (path, text) in &script.compressed {
        let mut out = vec![0; text.len() + 100];
        let config = zlib_rs::DeflateConfig { window_bits: 31, ..zlib_rs::DeflateConfig::default() };
        let (made, _) = zlib_rs::compress_slice(&mut out, text.as_bytes(), config);
        std::fs::write(folder.join(format!("{path}.gz")), made).expect("the folder takes a file");
    }
}

/// The listeners of Weir's config with TLS.
fn with_tls(text: &str) -> Vec<String> {
    let mut listener = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("[listener.").and_then(|rest| rest.strip_suffix(']')) {
            listener = name;
        }
        if line.starts_with("tls ") || line.starts_with("tls.") {
            found.push(listener.to_owned());
        }
    }
    found
}

fn nginx(text: &str, script: &Script, addresses: &[(String, SocketAddr)]) -> ForeignProgram {
    let mut text = text.replace("events {}", "");
    for ((port, _), (_, address)) in script.listeners.iter().zip(addresses) {
        for end in [" ", ";"] {
            text = text.replace(&format!("listen {port}{end}"), &format!("listen {address}{end}"));
        }
    }
    let own = format!("http {{\naccess_log off;\n{}", nginx_folders());
    ForeignProgram::nginx("", &text.replacen("http {", &own, 1), addresses[0].1)
}

fn haproxy(text: &str, script: &Script, addresses: &[(String, SocketAddr)]) -> ForeignProgram {
    let mut text = text.to_owned();
    for ((port, _), (_, address)) in script.listeners.iter().zip(addresses) {
        for end in [" ", "\n"] {
            text = text.replace(&format!("bind :{port}{end}"), &format!("bind {address}{end}"));
        }
    }
    ForeignProgram::haproxy(&text, addresses[0].1)
}

fn caddy(text: &str, script: &Script, addresses: &[(String, SocketAddr)]) -> ForeignProgram {
    let mut text = text.to_owned();
    for ((port, _), (_, address)) in script.listeners.iter().zip(addresses) {
        let scheme = if port == "443" { "https" } else { "http" };
        let own = format!("{scheme}://:{} {{\nbind {}", address.port(), address.ip());
        text = text.replace(&format!(":{port} {{"), &own);
    }
    let folder = temporary_folder();
    let options = "{\nadmin off\nauto_https off\nservers {\nprotocols h1 h2\n}\n}\n";
    std::fs::write(folder.path().join("Caddyfile"), format!("{options}{text}"))
        .expect("the folder takes a file");
    let mut command = foreign_command("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config", "Caddyfile"]);
    command
        .env("HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path());
    let address = addresses[0].1;
    ForeignProgram::start(command, folder, move |_| accepts(address))
}
