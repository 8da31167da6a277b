//! The election that a process takes part in, among those that would write the status of the same objects.

use std::hash::{BuildHasher as _, Hasher as _};

use weir_kubernetes::{ElectionSettings, ObjectKey};

use crate::kubernetes::arguments::LeaseChoice;

/// The namespace of a pod, as its service account has it.
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The election that a process takes part in: by default that of a Lease in the namespace of the pod.
pub(crate) fn election(lease: Option<&LeaseChoice>, default_name: &str) -> Option<ElectionSettings> {
    let lease = match lease {
        Some(LeaseChoice::Off) => return None,
        Some(LeaseChoice::At(namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new(&pod_namespace(), default_name),
    };
    Some(ElectionSettings { lease, identity: identity() })
}

/// The namespace of this pod, or `default` outside of a cluster.
fn pod_namespace() -> String {
    let of_account = || std::fs::read_to_string(POD_NAMESPACE_FILE).ok();
    let found = std::env::var("POD_NAMESPACE").ok().or_else(of_account);
    found
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "default".to_owned())
}

/// A name that no other process has: that of the pod or the machine, and a random part.
fn identity() -> Box<str> {
    let machine = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = std::env::var("POD_NAME").ok().or_else(machine).unwrap_or_else(|| "weir".to_owned());
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", name.trim()).into()
}
