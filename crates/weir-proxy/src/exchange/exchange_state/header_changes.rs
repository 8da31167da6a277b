//! The changes that a route makes to the fields of a head: which of its rules apply, and the values that they give.

use std::ops::Range;

use weir_config::{Expires, HeaderChanges, HeaderName, HeaderRule, HeaderTemplate};
use weir_http::FieldWriter;

/// The fields that say how long a response may be kept.
pub(in crate::exchange) const CACHE_CONTROL: &[u8] = b"Cache-Control";
const EXPIRES: &[u8] = b"Expires";

/// The changes to one head, once it was decided which of their rules apply.
#[derive(Clone, Copy)]
pub(crate) struct HeadChanges<'a>(Option<(&'a HeaderChanges, &'a RenderedHeaders)>);

impl<'a> HeadChanges<'a> {
    /// None.
    pub(in crate::exchange) const NONE: Self = Self(None);

    /// `acts`: whether there are any, which plans know.
    #[inline(always)]
    pub(in crate::exchange) fn new(
        acts: bool,
        changes: &'a HeaderChanges,
        rendered: &'a RenderedHeaders,
    ) -> Self {
        Self(acts.then_some((changes, rendered)))
    }

    /// Whether nothing is changed.
    #[inline(always)]
    pub(in crate::exchange) fn is_empty(self) -> bool {
        self.0.is_none()
    }

    /// Whether they take a received field away.
    #[inline]
    pub(in crate::exchange) fn is_changed_away(self, name: &[u8]) -> bool {
        self.0.is_some_and(|(changes, rendered)| {
            takes_away(changes, rendered, name)
                || !changes.rules.is_empty() && rendered.replaces_expiry(0, name)
        })
    }

    /// Whether they leave a field of this name that Weir itself adds.
    #[inline]
    pub(in crate::exchange) fn leave(self, name: &[u8]) -> bool {
        self.0.is_none_or(|(changes, rendered)| !takes_away(changes, rendered, name))
    }

    /// Whether a rule that applies takes a received field away; what every message loses is not looked at.
    pub(in crate::exchange) fn is_taken_by_rule(self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        self.0.is_some_and(|(changes, rendered)| {
            let mut rules = rendered.applied(&changes.rules);
            rules.any(|rule| {
                let set = rule.set.iter().map(|(name, _)| name);
                rule.remove.iter().chain(set).any(|name| is_it(name.as_bytes()))
            })
        })
    }

    /// Whether there are rules.
    #[inline(always)]
    pub(in crate::exchange) fn has_rules(self) -> bool {
        self.0.is_some_and(|(changes, _)| !changes.rules.is_empty())
    }

    /// Whether they set this field.
    pub(in crate::exchange) fn sets(self, name: &[u8]) -> bool {
        let is_it = |(other, _): &(HeaderName, HeaderTemplate)| other.as_bytes().eq_ignore_ascii_case(name);
        self.0.is_some_and(|(changes, rendered)| {
            changes.set.iter().any(is_it)
                || rendered.applied(&changes.rules).any(|rule| rule.set.iter().any(is_it))
        })
    }

    /// Adds what is set and added, of the headers that `passes`.
    pub(in crate::exchange) fn write(self, out: &mut impl FieldWriter, passes: impl Fn(&[u8]) -> bool) {
        let Some((changes, rendered)) = self.0 else { return };
        let mut values = rendered.all();
        let mut write = |header: &(HeaderName, HeaderTemplate), is_replaced: bool| {
            let (name, template) = header;
            let value = match template.literal() {
                Some(text) => Some(text.as_bytes()),
                None => values.next().flatten(),
            };
            if let Some(value) = value.filter(|_| !is_replaced && passes(name.as_bytes())) {
                out.field(name.as_written().as_bytes(), value);
            }
        };
        let later = |from: usize, name: &HeaderName| {
            rendered.is_replaced_behind(&changes.rules, from, name.as_bytes())
        };
        for header in changes.set.iter().chain(&changes.add) {
            write(header, later(0, &header.0));
        }
        for (place, rule) in changes.rules.iter().enumerate().filter(|(place, _)| rendered.applies(*place)) {
            for header in rule.given() {
                write(header, later(place + 1, &header.0));
            }
        }
        rendered.write_expiry(&changes.rules, out, passes);
    }
}

fn takes_away(changes: &HeaderChanges, rendered: &RenderedHeaders, name: &[u8]) -> bool {
    let named = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    changes.remove.iter().any(|other| named(other))
        || changes.set.iter().any(|(other, _)| named(other))
        || rendered.applied(&changes.rules).any(|rule| rule.replaces(name))
}

/// The values of the headers that a route sets and adds, of those with values of the exchange, and which of its rules apply: made before a head is
/// written. On the heap once there are such headers, since most exchanges have none.
#[derive(Debug, Default)]
pub(crate) struct RenderedHeaders(Option<Box<RenderedValues>>);

#[derive(Debug, Default)]
struct RenderedValues {
    text: Vec<u8>,
    /// The text of each; `None` where there is nothing to send.
    values: Vec<Option<Range<usize>>>,
    /// A bit for each rule that applies.
    applied: u32,
    /// `Cache-Control` and `Expires`, and the place of the rule that gives them.
    expiry: Option<(usize, Range<usize>, Range<usize>)>,
}

/// What is known of the message whose head is written.
pub(in crate::exchange) trait MessageFacts {
    /// Whether a rule applies, `expires` aside.
    fn applies(&self, place: usize, rule: &HeaderRule) -> bool;

    /// Appends the value of a header, and says whether there is any.
    fn write_value(&self, template: &HeaderTemplate, out: &mut Vec<u8>) -> bool;

    /// Appends the value of `Cache-Control`, and behind it that of `Expires`, if the rule is for this response.
    fn write_expiry(&self, expires: &Expires, out: &mut Vec<u8>) -> ExpiryDecision;
}

/// What a rule of `expires` says of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) enum ExpiryDecision {
    /// It is not for this response: the next one is asked.
    NotFor,
    /// The response stays as it is.
    Stays,
    /// Both values have been written; `Expires` has as many bytes.
    Written(usize),
}

impl RenderedHeaders {
    /// Decides which rules apply and makes the values for these changes, in place of earlier ones.
    pub(in crate::exchange) fn render(&mut self, changes: &HeaderChanges, facts: &impl MessageFacts) {
        let RenderedValues { text, values, applied, expiry } = &mut **self.0.get_or_insert_default();
        text.clear();
        values.clear();
        (*applied, *expiry) = (0, None);
        let mut is_decided = false;
        for (place, rule) in changes.rules.iter().enumerate() {
            let Some(expires) = &rule.expires else {
                *applied |= if facts.applies(place, rule) { rule_bit(place) } else { 0 };
                continue;
            };
            if is_decided || !facts.applies(place, rule) {
                continue;
            }
            let start = text.len();
            match facts.write_expiry(expires, text) {
                ExpiryDecision::NotFor => text.truncate(start),
                ExpiryDecision::Stays => {
                    text.truncate(start);
                    is_decided = true;
                }
                ExpiryDecision::Written(date) => {
                    let middle = text.len() - date;
                    (*expiry, is_decided) = (Some((place, start..middle, middle..text.len())), true);
                }
            }
        }
        let in_rules = changes.rules.iter().enumerate().filter(|(place, _)| *applied & rule_bit(*place) != 0);
        let in_rules = in_rules.flat_map(|(_, rule)| rule.given());
        for (_, template) in changes.set.iter().chain(&changes.add).chain(in_rules) {
            if template.literal().is_none() {
                let start = text.len();
                let has_value = facts.write_value(template, text);
                values.push(has_value.then_some(start..text.len()));
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let rendered = self.0.iter();
        rendered.flat_map(|all| all.values.iter().map(|range| Some(&all.text[range.clone()?])))
    }

    fn applies(&self, place: usize) -> bool {
        self.0.as_ref().is_some_and(|all| all.applied & rule_bit(place) != 0)
    }

    fn applied<'a>(&self, rules: &'a [HeaderRule]) -> impl Iterator<Item = &'a HeaderRule> {
        let applied = self.0.as_ref().map_or(0, |all| all.applied);
        rules
            .iter()
            .enumerate()
            .filter(move |(place, _)| applied & rule_bit(*place) != 0)
            .map(|(_, rule)| rule)
    }

    /// Whether a rule from this place on takes the header away.
    fn is_replaced_behind(&self, rules: &[HeaderRule], from: usize, name: &[u8]) -> bool {
        let later = rules.iter().enumerate().skip(from);
        let is_taken = later.filter(|(place, _)| self.applies(*place)).any(|(_, rule)| rule.replaces(name));
        is_taken || !rules.is_empty() && self.replaces_expiry(from, name)
    }

    /// Whether a rule of `expires` from this place on gives this field. Of changes without rules nothing is rendered, and what is here is of others.
    fn replaces_expiry(&self, from: usize, name: &[u8]) -> bool {
        let expiry = self.0.as_ref().and_then(|all| all.expiry.as_ref());
        expiry.is_some_and(|(place, ..)| *place >= from)
            && (name.eq_ignore_ascii_case(CACHE_CONTROL) || name.eq_ignore_ascii_case(EXPIRES))
    }

    fn write_expiry(&self, rules: &[HeaderRule], out: &mut impl FieldWriter, passes: impl Fn(&[u8]) -> bool) {
        let Some(all) = self.0.as_ref().filter(|_| !rules.is_empty()) else { return };
        let Some((place, control, date)) = &all.expiry else { return };
        for (name, value) in [(CACHE_CONTROL, control), (EXPIRES, date)] {
            let value = &all.text[value.clone()];
            if !value.is_empty() && passes(name) && !self.is_replaced_behind(rules, place + 1, name) {
                out.field(name, value);
            }
        }
    }
}

/// The bit of the rule at a place, of the 32 that there may be.
pub(in crate::exchange) fn rule_bit(place: usize) -> u32 {
    u32::try_from(place).ok().and_then(|place| 1_u32.checked_shl(place)).unwrap_or_default()
}

/// Whether rules have to be asked, or values made, before a head with these changes is written.
#[inline]
pub(in crate::exchange) fn has_values(changes: &HeaderChanges) -> bool {
    let mut always = changes.set.iter().chain(&changes.add);
    !changes.rules.is_empty() || always.any(|(_, template)| template.literal().is_none())
}
