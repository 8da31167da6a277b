//! The certificate for hosts that have none of their own: `--default-certificate`.

use std::sync::Arc;

use weir_config::LoadedCertificate;

use super::servers::{IngressScope, certificate};
use crate::settings::{GatewaySettings, IngressSettings};
use crate::store::{ObjectKey, ObjectStore};

/// The default certificate, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DefaultCertificate {
    /// Its Secret; `None`: the process was given none.
    secret: Option<ObjectKey>,
    pub(super) loaded: Result<Arc<LoadedCertificate>, Box<str>>,
}

impl Default for DefaultCertificate {
    fn default() -> Self {
        Self { secret: None, loaded: Err("".into()) }
    }
}

impl DefaultCertificate {
    pub(super) fn load(store: &ObjectStore, settings: &GatewaySettings, ours: &IngressSettings) -> Self {
        let Some(key) = &ours.default_certificate else { return Self::default() };
        let scope = IngressScope { store, settings, key };
        let value = |name: &str| {
            let value = scope.secret_value(key, name)?;
            value.ok_or_else(|| format!("the Secret {key} has no `{name}`"))
        };
        let parts = value("tls.crt").and_then(|chain| Ok((chain, value("tls.key")?)));
        let loaded = parts.and_then(|(chain, private)| certificate(key, &chain, &private));
        Self { secret: Some(key.clone()), loaded: loaded.map_err(Into::into) }
    }

    /// Why it cannot be used, although the process was given one.
    pub(super) fn problem(&self) -> Option<&str> {
        self.secret.as_ref()?;
        self.loaded.as_ref().err().map(|why| &**why)
    }

    /// What becomes of a host without a certificate of its own, after its name.
    pub(super) fn sentence(&self) -> String {
        match (&self.secret, &self.loaded) {
            (Some(secret), Ok(_)) => format!("has the default certificate, the Secret {secret}"),
            (Some(_), Err(why)) => {
                format!("has no certificate: the default certificate cannot be used, {why}")
            }
            (None, _) => "has no certificate: there is no default certificate".to_owned(),
        }
    }
}
