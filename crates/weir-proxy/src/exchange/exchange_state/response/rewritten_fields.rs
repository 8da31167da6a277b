//! Fields of a response that a route rewrites: which ones they are, and those that were made for the response at hand.

use weir_config::{Feature, Stage};
use weir_http::FieldWriter;

use crate::exchange::acting;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::state::snapshot::RoutePlan;

/// Names and values; `None`: there are none.
pub(crate) type RewrittenFields = Option<Box<Vec<(&'static [u8], Vec<u8>)>>>;

/// The fields that rules may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) enum Rewritable {
    Location,
    Refresh,
    SetCookie,
}

impl Rewritable {
    fn from_name(name: &[u8]) -> Option<Self> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            7 if is("refresh") => Some(Self::Refresh),
            8 if is("location") => Some(Self::Location),
            10 if is("set-cookie") => Some(Self::SetCookie),
            _ => None,
        }
    }

    pub(in crate::exchange) const fn name(self) -> &'static [u8] {
        match self {
            Self::Location => b"Location",
            Self::Refresh => b"Refresh",
            Self::SetCookie => b"Set-Cookie",
        }
    }
}

/// Whether a field of a response does not pass as it is: [`write`] adds it.
pub(in crate::exchange) fn is_rewritten(route: &RoutePlan, name: &[u8]) -> bool {
    rule_for(route, name).is_some()
}

/// What a rule of the route may be for.
pub(in crate::exchange) fn rule_for(route: &RoutePlan, name: &[u8]) -> Option<Rewritable> {
    Rewritable::from_name(name).filter(|field| match field {
        Rewritable::Location | Rewritable::Refresh => route.config.rewrite_location.is_some(),
        Rewritable::SetCookie => !route.config.rewrite_cookies.is_empty(),
    })
}

/// Whether a route has such rules.
pub(in crate::exchange) fn is_wanted(route: &RoutePlan) -> bool {
    route.config.rewrite_location.is_some() || !route.config.rewrite_cookies.is_empty()
}

/// Adds what was made.
pub(in crate::exchange) fn write(
    out: &mut impl FieldWriter,
    rewritten: &RewrittenFields,
    changes: HeadChanges<'_>,
) {
    let Some(rewritten) = rewritten else { return };
    acting::note(Stage::ResponseFields, Feature::Rewriting);
    for (name, value) in rewritten.iter().filter(|(name, _)| changes.leave(name)) {
        out.field(name, value);
    }
}
