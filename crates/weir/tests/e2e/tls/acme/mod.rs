//! Certificates by ACME, from Pebble: the test authority of Let's Encrypt, with its faults turned on.
//!
//! Weir is started first, since Pebble has to know its ports: until Pebble is there, the authority cannot be reached. Pebble is a program
//! in Go, which `cargo xtask setup` installs where there is Go; without it these tests report that they were left out. Authorities that misbehave
//! are `scripted`, in this process.

mod accounts;
mod delegation;
mod dns_update;
mod hostile_authority;
mod issuance;
mod on_demand;
mod limits;
mod renewal;
mod scripted;
mod waiting;

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::foreign_program::{ForeignProgram, foreign_command, free_address};
use crate::harness::tls::{ECDSA, connect, try_connect_stream};
use crate::harness::{CertificateAuthority, Origin, Weir, eventually, temporary_folder};

/// Whether Pebble is there.
fn has_pebble() -> bool {
    let found = Command::new("pebble").arg("-version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: there is no `pebble` (cargo xtask setup installs it where there is Go)");
    }
    found
}

/// How long certificates of the profile `short` are valid.
const SHORT_VALIDITY_S: u64 = 3600;

/// Where Pebble will be, and what Weir knows of it before it is there.
struct Authority {
    address: SocketAddr,
    management: SocketAddr,
    /// Where names are looked up, while Pebble runs.
    dns: SocketAddr,
    /// Of the certificate of Pebble's own server.
    tls: CertificateAuthority,
    /// With the root of that.
    folder: TempDir,
}

/// What Pebble is like.
struct PebbleSettings {
    /// Where it proves hosts: by HTTP, by TLS.
    ports: [u16; 2],
    /// How long its certificates are valid.
    validity_s: u64,
    /// How many of a hundred nonces it refuses.
    nonces_refused: u32,
    /// The id and the key of the account that it requires.
    account: Option<[&'static str; 2]>,
    /// The name server that it asks; without it, one that knows every name.
    name_server: Option<SocketAddr>,
    /// Whether it offers the profile `short` beside its default.
    has_short_profile: bool,
}

impl Authority {
    fn new() -> Authority {
        let tls = CertificateAuthority::new();
        let folder = temporary_folder();
        let (address, management) = (free_address(), free_address());
        let names = [address, management].map(|address| address.ip().to_string());
        tls.issue(folder.path(), "pebble", &names.each_ref().map(String::as_str), ECDSA);
        tls.write(folder.path(), "root");
        Authority { address, management, dns: free_address(), tls, folder }
    }

    /// The URL of its directory.
    fn url(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// Keys of `acme` for it, with a folder for certificates in `store`.
    fn keys(&self, store: &Path, more: &str) -> String {
        let root = self.folder.path().join("root.pem");
        let (root, store) = (root.display(), store.display());
        let keys =
            format!("ca = [\"{}\"]\nca_root = \"{root}\"\ndirectory = \"{store}\"\n{more}", self.url());
        keys.lines().map(|key| format!("listener.web.tls.acme.{}\n", key.trim_start())).collect()
    }

    /// Starts it.
    fn start(&self, settings: &PebbleSettings) -> Pebble {
        self.start_with(settings, |_| {})
    }

    /// Starts it once `prepare` has made its name server ready, whose records are set at the address that it is given.
    fn start_with(&self, settings: &PebbleSettings, prepare: impl FnOnce(SocketAddr)) -> Pebble {
        let asked = settings.name_server.unwrap_or(self.dns);
        let challenges = {
            let mut command = foreign_command("pebble-challtestsrv");
            let management = free_address();
            command.args(["-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "", "-defaultIPv6", ""]);
            command.args(["-dnsserver", &self.dns.to_string(), "-management", &management.to_string()]);
            let is_ready = move |_: &Path| TcpStream::connect(management).is_ok();
            (ForeignProgram::start(command, temporary_folder(), is_ready), management)
        };
        prepare(challenges.1);
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut config = json!({
            "listenAddress": self.address.to_string(),
            "managementListenAddress": self.management.to_string(),
            "certificate": path("pebble.pem"),
            "privateKey": path("pebble.key"),
            "httpPort": settings.ports[0],
            "tlsPort": settings.ports[1],
            "ocspResponderURL": "",
            "externalAccountBindingRequired": settings.account.is_some(),
            "profiles": {"default": {"description": "of the test", "validityPeriod": settings.validity_s}},
            "retryAfter": {"authz": 1, "order": 1},
        });
        // Pebble takes any of its profiles for an order that names none.
        if settings.has_short_profile {
            config["profiles"]["short"] =
                json!({ "description": "of the test", "validityPeriod": SHORT_VALIDITY_S });
        }
        if let Some([id, key]) = settings.account {
            config["externalAccountMACKeys"] = json!({ id: key });
        }
        let folder = temporary_folder();
        std::fs::write(folder.path().join("config.json"), json!({ "pebble": config }).to_string())
            .expect("the folder takes a file");
        let mut command = foreign_command("pebble");
        command.args(["-strict", "-config", "config.json", "-dnsserver", &asked.to_string()]);
        command.env("PEBBLE_WFE_NONCEREJECT", settings.nonces_refused.to_string());
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
        let places = [self.address, self.management];
        let is_ready = |_: &Path| places.iter().all(|place| TcpStream::connect(place).is_ok());
        let program = ForeignProgram::start(command, folder, is_ready);
        let name = self.management.ip().to_string();
        let root = connect(self.management, self.tls.client(), &name).fetch("/roots/0").text();
        let (management, tls_client) = (self.management, self.tls.client());
        Pebble { program, _challenges: challenges.0, records: challenges.1, root, management, tls_client }
    }
}

/// A running Pebble, and the name server that it asks: every name is on 127.0.0.1.
struct Pebble {
    program: ForeignProgram,
    _challenges: ForeignProgram,
    /// Where TXT records and CNAMEs are set.
    records: SocketAddr,
    /// The root of the certificates that it issues.
    root: String,
    management: SocketAddr,
    /// A client that trusts its own server.
    tls_client: ClientConfig,
}

impl Pebble {
    /// A client that trusts its certificates.
    fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.root.as_bytes()) {
            roots.add(root.expect("Pebble writes PEM")).expect("the root is sound");
        }
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites of these versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// The certificate that clients are shown for `name`, if it is one of Pebble's for that name.
    fn shown(&self, to: SocketAddr, name: &str) -> Option<CertificateDer<'static>> {
        let mut tls = try_connect_stream(to, self.client(), name).ok()?;
        let chain = tls.session().peer_certificates()?;
        Some(chain.first()?.clone().into_owned())
    }

    /// Waits until clients are shown a certificate of Pebble's for `name`.
    fn wait_for(&self, to: SocketAddr, name: &str) -> CertificateDer<'static> {
        let mut shown = None;
        eventually(&format!("there is a certificate for {name}"), || {
            shown = self.shown(to, name);
            shown.is_some()
        });
        shown.expect("it was just there")
    }

    /// Has it suggest a window for the renewal of a certificate (RFC 9773 section 4.2), both ends in seconds from now.
    fn suggest(&self, certificate: &CertificateDer<'_>, window_s: [i64; 2]) {
        let times = window_s.map(|seconds| {
            let output = Command::new("date")
                .args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d", &format!("{seconds} seconds")])
                .output();
            String::from_utf8(output.expect("there is `date`").stdout)
                .expect("it writes ASCII")
                .trim()
                .to_owned()
        });
        let answer = json!({ "suggestedWindow": { "start": times[0], "end": times[1] } }).to_string();
        let body = data_encoding::BASE64.encode(certificate);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let text = json!({ "Certificate": pem, "ARIResponse": answer }).to_string();
        let name = self.management.ip().to_string();
        let mut client = connect(self.management, self.tls_client.clone(), &name);
        let len = text.len();
        client.send(format!(
            "POST /set-renewal-info/ HTTP/1.1\r\nHost: {name}\r\nUser-Agent: test\r\nContent-Length: {len}\r\n\r\n{text}"
        ));
        let response = client.response();
        assert_eq!(response.status, 200, "{}", response.text());
    }

    /// Orders that it has had.
    fn orders(&self) -> usize {
        self.program.output().matches("Added order").count()
    }
}

/// The usual Pebble for this Weir, which has listeners `plain` and `web`.
fn usual(weir: &Weir) -> PebbleSettings {
    PebbleSettings {
        ports: [weir.address("plain").port(), weir.web().port()],
        validity_s: 86_400,
        nonces_refused: 15,
        account: None,
        name_server: None,
        has_short_profile: false,
    }
}

/// A config with a listener `plain` that redirects everything to HTTPS, and `web` with ACME for these hosts.
fn config(origin: &Origin, acme: &str) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.plain.address = \"127.0.0.1:0\"\n\
         listener.plain.route = [{{ redirect = {{ to = \"https://{{host}}{{path}}{{query}}\" }} }}]\n\
         listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n{acme}\n\
         upstream.app.servers = [{}]\n",
        origin.entry()
    )
}

/// The same, which has names looked up at this server.
fn config_asking(server: SocketAddr, origin: &Origin, acme: &str) -> String {
    format!("dns.resolvers = [\"{server}\"]\n{}", config(origin, acme))
}

/// Keys of `acme` for a program that changes the records of Pebble's name server; each line of `log` in the folder has its arguments, and what
/// the authority asks for.
fn dns_command(folder: &Path) -> String {
    let script = folder.join("hook");
    let text = format!(
        "#!/bin/sh\nread -r place < {place}\nlog={log}\necho \"$@ for $WEIR_ACME_CHALLENGE\" >> $log\n\
         case $1 in present) curl -sf -d \"{{\\\"host\\\":\\\"$2\\\",\\\"value\\\":\\\"$3\\\"}}\" http://$place/set-txt;;\n\
         cleanup) curl -sf -d \"{{\\\"host\\\":\\\"$2\\\"}}\" http://$place/clear-txt;; esac\n",
        place = folder.join("place").display(),
        log = folder.join("log").display(),
    );
    std::fs::write(&script, text).expect("the folder takes a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    format!("dns_command = [\"{}\"]\ndns_wait = \"0ms\"", script.display())
}

/// Tells that program where the records are.
fn tell_place(folder: &Path, pebble: &Pebble) {
    std::fs::write(folder.join("place"), format!("{}\n", pebble.records)).expect("the folder takes a file");
}
