//! One Ingress while it is compiled: what it refers to, and what is wrong with it.

use std::collections::BTreeSet;

use weir_config::ConfigFault;

use super::annotations::{IngressDraft, IngressProblem};
use super::servers::IngressScope;
use crate::api::NGINX_PREFIX;
use crate::store::{ObjectKey, ObjectKind};

/// One Ingress while it is compiled.
pub(super) struct Compilation<'a> {
    pub(super) scope: IngressScope<'a>,
    pub(super) draft: &'a IngressDraft,
    pub(super) problems: Vec<IngressProblem>,
    pub(super) uses: BTreeSet<(ObjectKind, ObjectKey)>,
}

impl Compilation<'_> {
    /// Notes that an annotation cannot be applied.
    pub(super) fn refuse(&mut self, annotation: &str, refuses: bool, message: impl Into<String>) {
        self.problems.push(IngressProblem::new(&format!("{NGINX_PREFIX}{annotation}"), refuses, message));
    }

    /// Notes that what an annotation asks for cannot be.
    pub(super) fn refuse_faults(&mut self, annotation: &str, faults: &[ConfigFault]) {
        faults.iter().for_each(|fault| self.refuse(annotation, true, fault.to_string()));
    }

    pub(super) fn note(&mut self, message: impl Into<String>) {
        self.problems.push(IngressProblem::new("", false, message));
    }
}
