//! The certificate for hosts that have none of their own: `--default-certificate`.

use std::sync::Arc;

use weir_config::LoadedCertificate;

use super::servers::IngressScope;
use crate::options::settings::{GatewaySettings, IngressSettings};
use crate::store::{ObjectKey, ObjectStore};

/// The default certificate. Once there is one, it stays until the Secret has another.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DefaultCertificate {
    /// Its Secret; `None`: the process was given none.
    secret: Option<ObjectKey>,
    pub(super) loaded: Option<Arc<LoadedCertificate>>,
    /// Why the Secret has none now.
    problem: Option<Box<str>>,
}

impl DefaultCertificate {
    /// As the Secret is now; `before` is what was in use.
    pub(super) fn load(
        store: &ObjectStore,
        settings: &GatewaySettings,
        ours: &IngressSettings,
        before: &Self,
    ) -> Self {
        let Some(key) = &ours.default_certificate else { return Self::default() };
        let scope = IngressScope { store, settings, key };
        let secret = Some(key.clone());
        match scope.certificate_of(key) {
            Ok(certificate) => Self { secret, loaded: Some(certificate), problem: None },
            Err(why) => {
                let kept = before.loaded.clone().filter(|_| before.secret == secret);
                Self { secret, loaded: kept, problem: Some(why.into()) }
            }
        }
    }

    /// Why the Secret cannot be used, although the process was given one.
    pub(super) fn problem(&self) -> Option<String> {
        let why = self.problem.as_deref()?;
        Some(match &self.loaded {
            Some(_) => format!("{why}; the certificate that it had last stays in use"),
            None => format!("{why}; hosts without a certificate of their own have none"),
        })
    }

    /// What becomes of a host without a certificate of its own, after its name.
    pub(super) fn sentence(&self) -> String {
        match (&self.secret, &self.loaded, &self.problem) {
            (Some(secret), Some(_), _) => format!("has the default certificate, the Secret {secret}"),
            (Some(_), None, Some(why)) => {
                format!("has no certificate: the default certificate cannot be used, {why}")
            }
            _ => "has no certificate: there is no default certificate".to_owned(),
        }
    }
}
