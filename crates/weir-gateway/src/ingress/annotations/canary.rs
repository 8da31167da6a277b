//! Annotations about canary releases: some requests of another Ingress go to the servers of this one.

use weir_traffic::route::{BoundedRegexes, FieldMatch, ValueMatch};

use super::values::{boolean, number, positive};
use super::{IngressAnnotation, IngressDraft, IngressProblem};
use crate::api::NGINX_PREFIX;
use crate::refusal::excerpt;

/// The longest regular expression of a header.
const PATTERN_BYTES_MAX: usize = 4096;

pub(super) const ROWS: &[IngressAnnotation] = &[
    IngressAnnotation::translated(
        "canary",
        "whether this Ingress takes some requests of another with the same host and path",
        "further routes of the host and path, and `split`. Of the other annotations of this Ingress only those about servers count",
        |draft, value| {
            draft.canary.is_canary = boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated("canary-weight", "its share of the requests", "`split`", |draft, value| {
        draft.canary.weight = number(value)?;
        Ok(())
    }),
    IngressAnnotation::translated(
        "canary-weight-total",
        "what `canary-weight` is a part of, 100",
        "the sum of the weights of `split`",
        |draft, value| {
            let total = positive(value)?;
            if total > weir_traffic::split::SPLIT_WEIGHT_MAX {
                return Err("the sum of the weights is at most 1000000".to_owned());
            }
            draft.canary.weight_total = total;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "canary-by-header",
        "the header that decides: `always` or `never`",
        "routes with `header`, which precede those with the cookie and the share",
        |draft, value| {
            FieldMatch::new(value, ValueMatch::Present).map_err(|error| error.to_string())?;
            draft.canary.header = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "canary-by-header-value",
        "the value of that header, instead of `always`",
        "a route with `header`; other values decide nothing",
        |draft, value| {
            draft.canary.header_value = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "canary-by-header-pattern",
        "a regular expression for that value",
        "a route with `header`; without lookaround and references to groups",
        |draft, value| {
            if value.len() > PATTERN_BYTES_MAX {
                return Err(format!("the regular expression has more than {PATTERN_BYTES_MAX} bytes"));
            }
            BoundedRegexes::check_part(value).map_err(|error| format!("`{}`: {error}", excerpt(value)))?;
            draft.canary.header_pattern = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "canary-by-cookie",
        "the cookie that decides: `always` or `never`",
        "routes with a regular expression for `header.cookie`",
        |draft, value| {
            FieldMatch::new(value, ValueMatch::Present).map_err(|error| error.to_string())?;
            draft.canary.cookie = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::left_out(
        "affinity-canary-behavior",
        "whether sessions stay with the canary",
        "each request is drawn anew: `affinity` decides among the servers of one Service",
    ),
];

impl IngressDraft {
    pub(super) fn finish_canary(&mut self, problems: &mut Vec<IngressProblem>) {
        let canary = &mut self.canary;
        if canary.is_canary && canary.weight > canary.weight_total {
            let message = format!("it is above the whole, {}", canary.weight_total);
            problems.push(IngressProblem::new(&format!("{NGINX_PREFIX}canary-weight"), false, message));
            canary.weight = canary.weight_total;
        }
        if canary.header.is_none() && (canary.header_value.is_some() || canary.header_pattern.is_some()) {
            let message = "the value of a header needs `canary-by-header`, which names it";
            problems.push(IngressProblem::new(&format!("{NGINX_PREFIX}canary"), false, message));
        }
    }
}
