//! An authority of Weir's own, for development: its root in a folder, and certificates for the listeners with `tls.internal`.
//!
//! The root can sign only names and addresses that are not public, so that its key is of little use to a thief. Certificates are made before
//! a listener takes its first handshake, and stay in memory. Must not decide who uses them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PublicKeyData as _, SanType,
};
use rustix::fs::{FlockOperation, flock};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use weir_config::{
    CertificateFiles, CertificateSource, INTERNAL_DOMAINS, INTERNAL_NETWORKS, InternalAuthority,
    InternalSource, ListenerCertificate, LoadedCertificate,
};
use weir_http::WallTime;
use weir_proxy::net::clock;
use weir_proxy::net::tls::certificates::Certificates;
use weir_proxy::state::snapshot::Snapshot;

use crate::start_error::InternalError;
use crate::system::atomic_file;

const KEY_MODE: u32 = 0o600;
/// Others may read it: they are to trust it.
const ROOT_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// How long a root is valid, and how long before its end it is replaced.
const ROOT_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);
const ROOT_LEFT_MIN: Duration = Duration::from_secs(30 * 86_400);

/// The clock of a client, such as a virtual machine, may be behind.
const BACKDATED: Duration = Duration::from_secs(3600);

/// Characters of the digest of its key in the name of a root.
const NAME_CHARACTERS: usize = 8;

impl From<rcgen::Error> for InternalError {
    fn from(error: rcgen::Error) -> Self {
        Self::Make(error.to_string())
    }
}

/// Makes the certificates of all listeners that have none yet.
///
/// # Errors
/// When one cannot be made.
pub(crate) fn prepare(snapshot: &Snapshot) -> Result<(), InternalError> {
    for plan in &snapshot.listeners {
        let Some(tls) = &plan.tls else { continue };
        for source in tls.certificates.sources() {
            let CertificateSource::Internal(InternalSource { authority, certificate: None, .. }) = source
            else {
                continue;
            };
            let made = make(&authority)?;
            let root = authority.folder().join("root.pem");
            let (listener, root) = (&*plan.config.name, root.display());
            tracing::info!(
                listener, %root,
                "certificates are of the internal authority, for development; to trust it on this machine: \
                 `sudo cp {root} /usr/local/share/ca-certificates/weir-internal.crt && sudo update-ca-certificates` (Debian), \
                 `sudo trust anchor {root}` (Fedora, Arch), or `curl --cacert {root}`"
            );
            install(&tls.certificates, &Ok(made));
        }
    }
    Ok(())
}

/// Renews the certificate of a listener when it is due; how long until then.
pub(crate) fn renew(listener: &str, certificates: &Certificates) -> Option<Duration> {
    let internal = certificates.sources().into_iter().find_map(|source| match source {
        CertificateSource::Internal(internal) => Some(internal),
        CertificateSource::Files(_) | CertificateSource::Directory(_) => None,
    })?;
    let now = clock::date();
    let due = renewal_at(&internal);
    if let Some(left) = due.checked_since(now)
        && !left.is_zero()
    {
        return Some(left);
    }
    let made = make(&internal.authority).map_err(|error| Box::<str>::from(error.to_string()));
    let lifetime = internal.authority.lifetime;
    let pause = made.as_ref().map_or(lifetime / 30, |_| renewed_after(lifetime));
    install(certificates, &made);
    if let Err(error) = made
        && internal.last_error.as_ref() != Some(&error)
    {
        tracing::error!(listener, %error, "a certificate could not be renewed; the one of before stays in use");
    }
    Some(pause.max(Duration::from_millis(100)))
}

/// When the certificate is renewed.
pub(crate) fn renewal_at(internal: &InternalSource) -> WallTime {
    let left = internal.authority.lifetime - renewed_after(internal.authority.lifetime);
    internal.certificate.as_ref().map_or(WallTime::EPOCH, |shown| shown.certificate.not_after - left)
}

fn renewed_after(lifetime: Duration) -> Duration {
    lifetime * 2 / 3
}

/// Shows it from the next handshake on.
fn install(certificates: &Certificates, made: &Result<Arc<LoadedCertificate>, Box<str>>) {
    let mut sources = certificates.sources();
    for source in &mut sources {
        let CertificateSource::Internal(internal) = source else { continue };
        match made {
            Ok(made) => {
                internal.certificate = Some(ListenerCertificate::new(Arc::clone(made), None));
                internal.last_error = None;
            }
            Err(error) => internal.last_error = Some(error.clone()),
        }
    }
    if let Err(error) = certificates.replace(sources) {
        tracing::error!(%error, "a certificate of the internal authority cannot be used");
    }
}

/// A certificate for all that a listener wants.
fn make(authority: &InternalAuthority) -> Result<Arc<LoadedCertificate>, InternalError> {
    let folder = authority.folder();
    let root = root(&folder)?;
    let now = clock::date();
    let mut params = CertificateParams::default();
    params.distinguished_name = name("Weir internal certificate");
    for name in &authority.names {
        params.subject_alt_names.push(SanType::DnsName(name.to_string().try_into()?));
    }
    params.subject_alt_names.extend(authority.addresses.iter().map(|address| SanType::IpAddress(*address)));
    let (not_before, not_after) = (now - BACKDATED, now + authority.lifetime);
    set_validity(&mut params, not_before, not_after);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &root)?;
    let file = folder.join("root.pem");
    Ok(Arc::new(LoadedCertificate::new(
        CertificateFiles::new(file.clone(), file),
        vec![certificate.der().clone()],
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        authority.names.clone(),
        not_before..=not_after,
    )))
}

/// The root of a folder, made if there is none that is valid for long enough.
fn root(folder: &Path) -> Result<Issuer<'static, KeyPair>, InternalError> {
    let unusable = |error| InternalError::Folder { folder: folder.to_owned(), error };
    let files = CertificateFiles::new(folder.join("root.pem"), folder.join("root.key"));
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(unusable)?;
    // Another process may be about to make it.
    let lock = OpenOptions::new().create(true).append(true).mode(KEY_MODE).open(folder.join("lock"));
    let lock = lock.map_err(unusable)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| unusable(error.into()))?;
    if files.certificate.exists() || files.key.exists() {
        let loaded = files.load().map_err(InternalError::Root)?;
        let left = loaded.not_after - clock::date();
        if left > ROOT_LEFT_MIN {
            let text = fs::read_to_string(&files.key).map_err(unusable)?;
            let key = KeyPair::from_pem(&text)?;
            return Ok(Issuer::new(root_params(&key), key));
        }
        let file = files.certificate.display();
        tracing::warn!(%file, "the root of the internal authority expires: a new one is made, which clients have to trust");
    }
    let key = KeyPair::generate()?;
    let params = root_params(&key);
    let certificate = params.self_signed(&key)?;
    // A crash between the two leaves a key alone, or a pair that does not fit: the message says what to do.
    atomic_file::replace(&files.key, key.serialize_pem().as_bytes(), KEY_MODE).map_err(unusable)?;
    atomic_file::replace(&files.certificate, certificate.pem().as_bytes(), ROOT_MODE).map_err(unusable)?;
    Ok(Issuer::new(params, key))
}

/// What a root with this key is; its name is of the key, so that clients never take one root for another.
fn root_params(key: &KeyPair) -> CertificateParams {
    let digest = HEXLOWER.encode(digest::digest(&digest::SHA256, key.der_bytes()).as_ref());
    let now = clock::date();
    let mut params = CertificateParams::default();
    params.distinguished_name = name(&format!("Weir internal root {}", &digest[..NAME_CHARACTERS]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now - BACKDATED, now + ROOT_LIFETIME);
    let domains = INTERNAL_DOMAINS.map(|domain| GeneralSubtree::DnsName(domain.to_owned()));
    let networks = INTERNAL_NETWORKS
        .map(|(address, prefix)| GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, prefix)));
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: domains.into_iter().chain(networks).collect(),
        excluded_subtrees: Vec::new(),
    });
    params
}

fn name(common: &str) -> rcgen::DistinguishedName {
    let mut name = rcgen::DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn set_validity(params: &mut CertificateParams, from: WallTime, to: WallTime) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + from.duration();
    params.not_after = epoch + to.duration();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn authority(folder: &Path, names: &[&str]) -> InternalAuthority {
        InternalAuthority::new(
            names.iter().map(|name| (*name).into()).collect(),
            vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
            Some(folder.join("internal")),
            Duration::from_secs(86_400),
        )
    }

    /// Whether a client that trusts the root of the folder accepts the certificate for this name.
    fn is_accepted(folder: &Path, made: &LoadedCertificate, name: &str) -> bool {
        use rustls::client::danger::ServerCertVerifier as _;
        use rustls::pki_types::pem::PemObject as _;
        use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.join("internal/root.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(clock::unix_now());
        verifier.verify_server_cert(&made.chain[0], &[], &name, &[], now).is_ok()
    }

    #[test]
    fn clients_that_trust_the_root_accept_what_it_makes() {
        let folder = tempfile::tempdir().unwrap();
        let made = make(&authority(folder.path(), &["localhost", "*.app.test"])).unwrap();
        for (name, expected) in [
            ("localhost", true),
            ("a.app.test", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("app.test", false),
            ("192.168.0.1", false),
        ] {
            assert_eq!(is_accepted(folder.path(), &made, name), expected, "{name}");
        }
        let mode = |name: &str| {
            let file = folder.path().join("internal").join(name);
            std::fs::metadata(file).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("root.key"), mode("root.pem")), (0o600, 0o644));
        // The same root signs the next one.
        let next = make(&authority(folder.path(), &["b.test"])).unwrap();
        assert!(
            is_accepted(folder.path(), &next, "b.test") && is_accepted(folder.path(), &made, "localhost")
        );
    }

    #[test]
    fn the_root_cannot_sign_public_names() {
        let folder = tempfile::tempdir().unwrap();
        let made = make(&authority(folder.path(), &["www.example.com", "localhost"])).unwrap();
        assert!(!is_accepted(folder.path(), &made, "www.example.com"));
        assert!(!is_accepted(folder.path(), &made, "localhost"), "the whole certificate is refused");
        let mut public = authority(folder.path(), &["localhost"]);
        public.addresses = vec!["8.8.8.8".parse().unwrap()];
        assert!(!is_accepted(folder.path(), &make(&public).unwrap(), "8.8.8.8"));
    }

    #[test]
    fn a_damaged_root_is_not_replaced_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let authority = authority(folder.path(), &["localhost"]);
        make(&authority).unwrap();
        std::fs::write(folder.path().join("internal/root.key"), "").unwrap();
        let error = make(&authority).unwrap_err().to_string();
        assert!(error.contains("root.key") && error.contains("remove `root.pem`"), "{error}");
        std::fs::remove_dir_all(folder.path().join("internal")).unwrap();
        std::fs::write(folder.path().join("internal"), "").unwrap();
        let error = make(&authority).unwrap_err().to_string();
        assert!(error.contains("tls.internal.directory"), "{error}");
    }
}
