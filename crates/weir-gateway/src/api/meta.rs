//! What every object has: name, place, age.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::shared_text::SharedText;

/// Name and place of an object; the rest of its metadata is passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The namespace; empty for objects of the whole cluster.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: SharedText,
    /// The name, unique in its namespace and kind.
    pub name: SharedText,
    /// Counts changes of what is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// RFC 3339 in UTC: the order of texts is that of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<SharedText>,
    /// The labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<SharedText, SharedText>,
    /// Which write of the object this is.
    #[serde(skip_serializing_if = "ResourceVersion::is_empty")]
    pub resource_version: ResourceVersion,
    /// Who has written its status.
    #[serde(rename = "managedFields", skip_serializing)]
    pub status_owners: StatusOwners,
    /// Why a part of the object cannot be read; that part has its default.
    #[serde(skip)]
    pub unreadable: Option<Box<str>>,
}

/// Which fields of the status of an object belong to which writer, by its managed fields. It is no part of what the object says.
#[derive(Debug, Clone, Default, Eq, Deserialize)]
#[serde(from = "Vec<ManagedEntry>")]
pub struct StatusOwners(Box<[(SharedText, SharedText)]>);

impl StatusOwners {
    /// Whether this writer alone has written a field.
    pub fn is_only(&self, writer: &str, field: &str) -> bool {
        let mut owners = self.0.iter().filter(|(_, owned)| **owned == *field).peekable();
        owners.peek().is_some() && owners.all(|(owner, _)| **owner == *writer)
    }
}

impl PartialEq for StatusOwners {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// What one writer has written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ManagedEntry {
    manager: SharedText,
    subresource: SharedText,
    #[serde(rename = "fieldsV1")]
    fields: ManagedFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManagedFields {
    #[serde(rename = "f:status")]
    status: BTreeMap<SharedText, IgnoredAny>,
}

impl From<Vec<ManagedEntry>> for StatusOwners {
    fn from(entries: Vec<ManagedEntry>) -> Self {
        let of_status = entries.iter().filter(|entry| *entry.subresource == *"status");
        let owned = of_status.flat_map(|entry| {
            let names = entry.fields.status.keys().filter_map(|name| name.strip_prefix("f:"));
            names.map(|name| (entry.manager.clone(), name.into()))
        });
        Self(owned.collect())
    }
}

/// The version of an object. It is no part of what the object says: objects that differ in it alone are equal.
#[derive(Debug, Clone, Default, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct ResourceVersion(SharedText);

impl ResourceVersion {
    /// The text, whose meaning the API server alone knows.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is not known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for ResourceVersion {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}
