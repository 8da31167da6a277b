//! What may be stored and used again, by RFC 9111 as a shared cache, RFC 5861 and RFC 9213, and by what the operator says.
//!
//! Functions of heads and a time. They hold nothing and look nothing up.

mod status_field;
mod invalidation;
mod validation;
mod reuse;
mod storing;
mod vary;
mod lifetime;
mod authority;
mod refusal;

pub use authority::{normal_key, normalize_authority};
pub use invalidation::{invalidated_targets, invalidates};
pub use lifetime::{Lifetime, LifetimeSource};
pub use refusal::NotStored;
pub use reuse::{ClientRules, Reuse, RevalidateCause, is_not_modified, reuse};
pub use status_field::{CacheOutcome, ForwardReason, write_cache_status};
pub use storing::{HeuristicRule, StatusTtl, StorePlan, StoreRules, StoredRequest, plan_storing};
pub use validation::{
    FreshenPlan, Freshened, freshen, is_same_version, plan_freshening, updates_by_head, write_validators,
};
pub(crate) use vary::is_token_byte;
pub use vary::{IgnoredVary, SELECTING_FIELDS_MAX, VaryRule};

#[cfg(test)]
mod tests;
