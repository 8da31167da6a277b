//! `request_headers` and `response_headers` in the text: one table, or several in the order in which they apply.

use crate::config::ResponseOrigin;
use crate::key::{
    Bounds, ConfigSection as _, ConfigValue, Map, OneOrMany, Spanned, SpannedTable, TextFormat, TreeReader,
    ValueKind, section,
};
use crate::source::{Tree, TreeNode};
use crate::text::ConditionText;
use crate::value::{HeaderName, HeaderTemplate, StatusRange, ValueError};

section! {
    /// Changes to headers, in this order: remove, set, add. `Host`, `Connection` and the headers of framing cannot be changed. Of several
    /// tables in a list, each applies on top of those before it.
    #[derive(Debug, Clone)]
    pub(crate) struct HeaderChangesText at "headers" {
        /// A condition: the changes are made only if it holds. See [Conditions](#conditions).
        when: ConditionText = optional, like "HAProxy `http-request set-header ... if`, nginx `map` with an empty value, Envoy `append_action`";
        /// Of responses: the statuses that have these changes: `404`, `"2xx"`, `"200-299"`, a list of these; `"success"` (200, 201, 204,
        /// 206, 301 to 304, 307, 308, as nginx); or `"always"`. Without it, all statuses have them, except that `Cache-Control`, `Expires`
        /// and their like never go to 4xx and 5xx, unless their value forbids to keep the response.
        status: OneOrMany<RuleStatus> = optional, like "nginx `add_header ... always`, Apache httpd `Header always`";
        /// Of responses: where they come from: `"server"`, `"file"`, `"cache"`, `"weir"`, or a list. Without it, anywhere.
        from: OneOrMany<ResponseOrigin> = optional, like "HAProxy `http-response` and `http-after-response`";
        /// Headers that are removed.
        remove: Vec<Spanned<HeaderName>> = [], like "HAProxy `del-header`";
        /// Headers that get this value, replacing any received value and any of Weir's own.
        set: Map<HeaderTemplate> = {}, like "HAProxy `set-header`";
        /// Headers that are added to those present.
        add: Map<HeaderTemplate> = {}, like "HAProxy `add-header`";
    }
}

/// The tables of `request_headers` or `response_headers`.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeadersText(pub(crate) Vec<SpannedTable<HeaderChangesText>>);

impl HeadersText {
    /// What is set and added, in all of them.
    pub(crate) fn given(&self) -> impl Iterator<Item = &(Spanned<Box<str>>, HeaderTemplate)> {
        self.0.iter().flat_map(|table| table.value.set.0.iter().chain(&table.value.add.0))
    }

    /// What is removed, in all of them.
    pub(crate) fn removed(&self) -> impl Iterator<Item = &Spanned<HeaderName>> {
        self.0.iter().flat_map(|table| &table.value.remove)
    }
}

impl ConfigValue for HeadersText {
    fn kind(bounds: Bounds) -> ValueKind {
        OneOrMany::<SpannedTable<HeaderChangesText>>::kind(bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let tables = OneOrMany::<SpannedTable<HeaderChangesText>>::read(node, bounds, reader)?;
        // One table that says nothing is as none.
        let is_none =
            matches!(&tables.0[..], [only] if only.value.entries() == HeaderChangesText::default().entries());
        Some(if is_none { Self::default() } else { Self(tables.0) })
    }

    fn write(&self) -> String {
        match &self.0[..] {
            [] => "{}".to_owned(),
            [only] => only.value.inline(),
            several => several.to_vec().write(),
        }
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        match &self.0[..] {
            [] => HeaderChangesText::default().lines(path, lines),
            [only] => only.value.lines(path, lines),
            _ => lines.push(format!("{path} = {}", self.write())),
        }
    }
}

/// Statuses of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleStatus {
    /// Those to which nginx adds headers.
    Success,
    /// All.
    Always,
    /// One, or a range.
    Range(StatusRange),
}

/// The statuses of success, as nginx's `add_header` and `expires` know them.
pub(crate) const SUCCESS: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

impl RuleStatus {
    /// The ranges; none: all.
    pub(crate) fn ranges(statuses: &[RuleStatus]) -> Vec<StatusRange> {
        if statuses.contains(&RuleStatus::Always) {
            return Vec::new();
        }
        let ranges = statuses.iter().flat_map(|status| match status {
            RuleStatus::Success => SUCCESS.iter().filter_map(|status| StatusRange::only(*status)).collect(),
            RuleStatus::Range(range) => vec![*range],
            RuleStatus::Always => Vec::new(),
        });
        ranges.collect()
    }
}

static RULE_STATUS: TextFormat = TextFormat {
    name: "statuses",
    article: "`success`, `always`, or a range of status codes",
    examples: &["success", "always", "2xx", "200-299"],
    pattern: r"^(success|always|[2-5]xx|[2-5][0-9][0-9](-[2-5][0-9][0-9])?)$",
    about: "`success`: 200, 201, 204, 206, 301 to 304, 307 and 308; `always`: all; `2xx`: all of a class; or two status codes and all between them.",
};

impl ConfigValue for RuleStatus {
    fn kind(bounds: Bounds) -> ValueKind {
        let ValueKind::Either(kinds) = StatusRange::kind(bounds) else { return StatusRange::kind(bounds) };
        let number = kinds.into_iter().filter(|kind| matches!(kind, ValueKind::Integer(_)));
        ValueKind::Either(number.chain([ValueKind::Text(&RULE_STATUS, Bounds::NONE)]).collect())
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let parse = |text: &str| match text {
            "success" => Ok(Self::Success),
            "always" => Ok(Self::Always),
            range => range.parse().map(Self::Range).map_err(|error: ValueError| {
                error.help("write `success`, `always`, a status, `2xx`, or a range")
            }),
        };
        match &node.tree {
            Tree::Text(_) => reader.parsed(node, &Self::kind(bounds), parse),
            _ => StatusRange::read(node, bounds, reader).map(Self::Range),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Success => Box::<str>::from("success").write(),
            Self::Always => Box::<str>::from("always").write(),
            Self::Range(range) => range.write(),
        }
    }
}
