//! What routes ask of their clients, ready for use, and the verdicts that are remembered.
//!
//! Computing the hash of a password takes longer than a worker may: `password_checks` is the seam to threads of the control plane.

mod plan;
mod fetched_keys;
pub mod password_checks;
mod decisions;
pub(crate) mod verdicts;
mod digest;

pub(crate) use decisions::{AuthDecision, AuthDecisions};
pub(crate) use digest::{CredentialDigest, DigestKey};
pub(crate) use fetched_keys::all_of;
pub use fetched_keys::{
    FetchedKeys, KeyDocument, KeyFetch, KeyFetchError, KeyFetchFigures, KeyValidators, KeysFetched,
};
pub(crate) use plan::AccessPlans;
pub use plan::{AccessPlan, LiveFile, LiveKeys};
