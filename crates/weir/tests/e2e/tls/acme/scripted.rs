//! An authority that does what a test says, in this process: it proves nothing, signs what it is asked to, and lies where it is told to.
//!
//! Pebble is the authority for what an honest one does; this one is for the others, and needs no program.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use rcgen::{CertificateParams, PublicKeyData, SignatureAlgorithm};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::origin::{Connection, Request};
use crate::harness::tls::ECDSA;
use crate::harness::{CertificateAuthority, Origin, temporary_folder};

/// What a key of ECDSA with P-256 has before its point (RFC 5480).
const P256_KEY: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P256_POINT_LEN: usize = 65;

/// What the authority does beside what it should.
#[derive(Debug, Clone, Default)]
pub(super) struct Misbehaviour {
    /// `Retry-After` of all responses, one after the other, again from the first.
    pub(super) retry_after: Vec<String>,
    /// Begin and end of the windows that it suggests, in the same way.
    pub(super) windows: Vec<[String; 2]>,
    /// Resources that it refuses with this status.
    pub(super) refused: Option<(&'static str, u16)>,
    /// The reason that it gives for that.
    pub(super) reason: &'static str,
    /// When its certificates begin and end, in seconds from now.
    pub(super) validity: Option<[i64; 2]>,
    /// The names of its certificates, in place of those that were ordered.
    pub(super) names: Option<Vec<String>>,
    /// Members of its directory, in place of its own.
    pub(super) directory: Vec<(&'static str, Value)>,
    /// Certificates in its chains beside that of the host.
    pub(super) more_certificates: usize,
    /// How many of the accounts that were made first it does not know when they order.
    pub(super) unknown_accounts: usize,
    /// Proofs that it wants of a host.
    pub(super) proofs: Option<usize>,
}

struct State {
    misbehaviour: Misbehaviour,
    /// Hosts of orders, one for each order.
    ordered: Vec<String>,
    chains: Vec<String>,
    accounts: usize,
    answered: usize,
}

/// A running authority.
pub(super) struct ScriptedAuthority {
    origin: Origin,
    tls: Arc<CertificateAuthority>,
    folder: TempDir,
    state: Arc<Mutex<State>>,
}

/// The key of a request for a certificate.
struct RequestedKey(Vec<u8>);

impl PublicKeyData for RequestedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        ECDSA
    }
}

impl ScriptedAuthority {
    pub(super) fn start(misbehaviour: Misbehaviour) -> Self {
        let (tls, folder) = (Arc::new(CertificateAuthority::new()), temporary_folder());
        tls.write(folder.path(), "root");
        let state = State { misbehaviour, ordered: Vec::new(), chains: Vec::new(), accounts: 0, answered: 0 };
        let state = Arc::new(Mutex::new(state));
        let config = tls.server(&["127.0.0.1"]);
        let (shared, signer) = (Arc::clone(&state), Arc::clone(&tls));
        let origin = Origin::start_tls(config, move |connection| {
            loop {
                let request = connection.request()?;
                answer(connection, &request, &signer, &shared)?;
            }
        });
        Self { origin, tls, folder, state }
    }

    /// Keys of `acme` for it, with a folder for certificates in `store`.
    pub(super) fn keys(&self, store: &std::path::Path, more: &str) -> String {
        let (root, store) = (self.folder.path().join("root.pem"), store.display());
        let keys = format!(
            "ca = [\"https://{}/dir\"]\nca_root = \"{}\"\ndirectory = \"{store}\"\n{more}",
            self.origin.address(),
            root.display()
        );
        keys.lines().map(|key| format!("listener.web.tls.acme.{}\n", key.trim_start())).collect()
    }

    /// A client that trusts its certificates.
    pub(super) fn client(&self) -> ClientConfig {
        self.tls.client()
    }

    /// What it does from now on.
    pub(super) fn set(&self, misbehaviour: Misbehaviour) {
        lock(&self.state).misbehaviour = misbehaviour;
    }

    /// The hosts of all orders so far.
    pub(super) fn ordered(&self) -> Vec<String> {
        lock(&self.state).ordered.clone()
    }

    /// How many accounts were made.
    pub(super) fn accounts(&self) -> usize {
        lock(&self.state).accounts
    }

    /// How many requests it has answered.
    pub(super) fn answered(&self) -> usize {
        lock(&self.state).answered
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no thread panics while it holds it")
}

fn answer(
    connection: &mut Connection,
    request: &Request,
    tls: &CertificateAuthority,
    state: &Mutex<State>,
) -> Option<()> {
    let mut state = lock(state);
    let host = request.field("host").unwrap_or_default().to_owned();
    let resource = request.target().trim_start_matches('/').split('/').next().unwrap_or_default().to_owned();
    let number = request.target().rsplit('/').next().and_then(|last| last.parse::<usize>().ok()).unwrap_or(0);
    state.answered += 1;
    let turn = state.answered;
    let url = |path: String| format!("https://{host}/{path}");
    let (status, location, body) = match state.misbehaviour.refused {
        Some((refused, status)) if refused == resource => {
            let kind = if status == 429 { "rateLimited" } else { "serverInternal" };
            (
                status,
                None,
                json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "status": status, "detail": state.misbehaviour.reason })
                    .to_string(),
            )
        }
        _ => match &*resource {
            "dir" => {
                let mut directory = json!({
                    "newNonce": url("nonce".to_owned()), "newAccount": url("account".to_owned()),
                    "newOrder": url("new-order".to_owned()), "renewalInfo": url("renewal".to_owned()),
                });
                for (name, value) in &state.misbehaviour.directory {
                    directory[*name] = value.clone();
                }
                (200, None, directory.to_string())
            }
            "nonce" => (200, None, String::new()),
            "account" => {
                state.accounts += 1;
                let account = url(format!("account/{}", state.accounts));
                (201, Some(account), json!({ "status": "valid" }).to_string())
            }
            "new-order" if account_of(request) <= state.misbehaviour.unknown_accounts => {
                let kind = "urn:ietf:params:acme:error:accountDoesNotExist";
                (400, None, json!({ "type": kind, "status": 400 }).to_string())
            }
            "new-order" => {
                let host =
                    payload(request)["identifiers"][0]["value"].as_str().unwrap_or_default().to_owned();
                state.ordered.push(host);
                state.chains.push(String::new());
                let number = state.ordered.len() - 1;
                (201, Some(url(format!("order/{number}"))), order(&state, number, &url))
            }
            "order" => (200, None, order(&state, number, &url)),
            "authorization" => {
                let identifier = json!({ "type": "dns", "value": state.ordered[number] });
                (
                    200,
                    None,
                    json!({ "identifier": identifier, "status": "valid", "challenges": [] }).to_string(),
                )
            }
            "finalize" => {
                let csr = payload(request)["csr"].as_str().unwrap_or_default().to_owned();
                let chain = issue(&state, &csr, number, tls);
                state.chains[number] = chain;
                (200, None, order(&state, number, &url))
            }
            "certificate" => (200, None, state.chains[number].clone()),
            "renewal" => match state.misbehaviour.windows.as_slice() {
                [] => (404, None, "{}".to_owned()),
                windows => {
                    let [start, end] = &windows[turn % windows.len()];
                    (200, None, json!({ "suggestedWindow": { "start": start, "end": end } }).to_string())
                }
            },
            other => panic!("there is no resource `{other}`"),
        },
    };
    let mut head =
        format!("HTTP/1.1 {status} X\r\nReplay-Nonce: n{turn}\r\nContent-Type: application/json\r\n");
    if let Some(location) = location {
        head.push_str(&format!("Location: {location}\r\n"));
    }
    let waits = &state.misbehaviour.retry_after;
    if !waits.is_empty() {
        head.push_str(&format!("Retry-After: {}\r\n", waits[turn % waits.len()]));
    }
    drop(state);
    let body = if request.method() == "HEAD" { String::new() } else { body };
    connection.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// What a client has signed.
fn payload(request: &Request) -> Value {
    part(request, "payload")
}

/// The number of the account that has signed it.
fn account_of(request: &Request) -> usize {
    let header = part(request, "protected");
    let number = header["kid"].as_str().and_then(|url| url.rsplit('/').next()?.parse().ok());
    number.expect("orders are signed by an account")
}

fn part(request: &Request, name: &str) -> Value {
    let signed: Value = serde_json::from_str(&request.text()).expect("Weir sends JSON");
    let part = signed[name].as_str().expect("it has this part");
    let part = BASE64URL_NOPAD.decode(part.as_bytes()).expect("it is base64");
    serde_json::from_slice(&part).unwrap_or_default()
}

fn order(state: &State, number: usize, url: &dyn Fn(String) -> String) -> String {
    let is_issued = !state.chains[number].is_empty();
    let proofs = state.misbehaviour.proofs.unwrap_or(1);
    json!({
        "status": if is_issued { "valid" } else { "ready" },
        "authorizations": vec![url(format!("authorization/{number}")); proofs],
        "finalize": url(format!("finalize/{number}")),
        "certificate": is_issued.then(|| url(format!("certificate/{number}"))),
    })
    .to_string()
}

fn issue(state: &State, csr: &str, number: usize, tls: &CertificateAuthority) -> String {
    let csr = BASE64URL_NOPAD.decode(csr.as_bytes()).expect("it is base64");
    let at = csr.windows(P256_KEY.len()).position(|window| window == P256_KEY).expect("its key is for P-256");
    let point = csr[at + P256_KEY.len()..][..P256_POINT_LEN].to_vec();
    let names = state.misbehaviour.names.clone().unwrap_or_else(|| vec![state.ordered[number].clone()]);
    let mut params = CertificateParams::new(names).expect("the test gives host names");
    params.use_authority_key_identifier_extension = true;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970");
    let [from, to] = state.misbehaviour.validity.unwrap_or([-3_600, 90 * 86_400]).map(|seconds| {
        let seconds = now.as_secs().saturating_add_signed(seconds).min(253_402_300_799);
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    });
    (params.not_before, params.not_after) = (from, to);
    let certificate = params.signed_by(&RequestedKey(point), tls.issuer()).expect("the parameters are sound");
    let body = BASE64.encode(certificate.der());
    let one = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    one.repeat(1 + state.misbehaviour.more_certificates)
}
