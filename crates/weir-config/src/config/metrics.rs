//! `[metrics]`: the form of the metrics at `/metrics`.

use crate::key::{Bounds, ChoiceWord, ConfigValue, TextFormat, TreeReader, ValueKind, section};
use crate::source::{Tree, TreeNode};
use crate::value::{ValueError, parse_bucket, print_bucket};

/// Buckets of one histogram at most: each is a series for every server.
const BUCKETS_MAX: usize = 64;

/// The largest bound: longer times are not distinguished.
const BOUND_MICROS_MAX: u64 = 15 * 60_000_000;

section! {
    /// The metrics for Prometheus, at `/metrics` of the admin listener.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Metrics at "metrics" {
        /// The upper bounds of the buckets of all histograms, in ascending order, at most 64, from `"1us"` to `"15m"`, such as `["1ms",
        /// "5ms", "25ms", "100ms", "1s"]`; the last bucket, `+Inf`, is always added. `"auto"` is `"128us"` to `"33.554432s"`, each twice
        /// the previous one. Each bound is a time series for every server and upstream with requests. Times are recorded in eight buckets
        /// for each power of two: a count is exact at bounds that are an eighth of a power of two of microseconds, and interpolated between
        /// those, so a value less than 12.5 % from the bound may count on its other side.
        buckets: HistogramBuckets = "auto", like "Envoy `histogram_bucket_settings`, Traefik `metrics.prometheus.buckets`";
    }
}

/// The upper bounds of the buckets of histograms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistogramBuckets {
    /// 128 µs to 33.6 s, each twice the one before.
    Auto,
    /// These, in microseconds; ascending.
    Micros(Box<[u64]>),
}

const AUTO: &[ChoiceWord] =
    &[ChoiceWord { name: "auto", meaning: "128 µs to 33.6 s, each twice the one before" }];

static BOUND: TextFormat = TextFormat {
    name: "bound",
    article: "a bound",
    examples: &["5ms", "250us", "1.5s"],
    pattern: r"^[0-9]+(\.[0-9]+)?(us|ms|s|m)$",
    about: "A time as a number with its unit: `us` (microseconds), `ms`, `s` or `m`. At most `15m`.",
};

fn bound_kind() -> ValueKind {
    ValueKind::Text(&BOUND, Bounds::NONE)
}

impl ConfigValue for HistogramBuckets {
    fn kind(_: Bounds) -> ValueKind {
        ValueKind::Either(vec![ValueKind::Choice(AUTO), ValueKind::List(Box::new(bound_kind()))])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Text(text) if text.value == AUTO[0].name => Some(Self::Auto),
            Tree::Text(text) => {
                reader.report_word(node, &text.value, &Self::kind(bounds));
                None
            }
            Tree::List(list) => read_bounds(node, list, reader).map(|bounds| Self::Micros(bounds.into())),
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Auto => Box::<str>::from(AUTO[0].name).write(),
            Self::Micros(bounds) => {
                let bounds: Vec<String> =
                    bounds.iter().map(|micros| Box::<str>::from(print_bucket(*micros)).write()).collect();
                format!("[{}]", bounds.join(", "))
            }
        }
    }
}

/// Reads all bounds, and reports each that cannot be one or is not above the one before.
fn read_bounds(node: &TreeNode, list: &[TreeNode], reader: &mut TreeReader<'_>) -> Option<Vec<u64>> {
    let found = reader.found();
    if list.is_empty() {
        reader.report_empty(node);
    }
    if list.len() > BUCKETS_MAX {
        let error =
            ValueError::new(format!("{} buckets are too many: there may be {BUCKETS_MAX}", list.len()));
        reader.report_value(node, error.help("each is a series for every server and every upstream"));
    }
    let mut bounds: Vec<u64> = Vec::new();
    for item in list {
        let Some(micros) = reader.parsed(item, &bound_kind(), parse_bucket) else { continue };
        if let Some(message) = misplaced(micros, bounds.last().copied()) {
            reader.report_value(item, message);
        }
        bounds.push(micros);
    }
    (reader.found() == found).then_some(bounds)
}

/// The error in a bound that follows another.
fn misplaced(micros: u64, before: Option<u64>) -> Option<ValueError> {
    let bound = print_bucket(micros);
    if micros == 0 || micros > BOUND_MICROS_MAX {
        return Some(ValueError::new(format!("a bound has to be from 1us to 15m; this is {bound}")));
    }
    let before = before.filter(|before| *before >= micros)?;
    let message = format!("the bound {bound} comes after {}", print_bucket(before));
    Some(ValueError::new(message).help("write the bounds in ascending order, each once"))
}
