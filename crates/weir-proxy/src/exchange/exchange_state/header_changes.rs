//! The changes that a route makes to the fields of a head.

use std::ops::Range;

use weir_config::{HeaderChanges, HeaderName, HeaderTemplate};
use weir_http::FieldWriter;

/// Whether the changes of a route take this field out.
pub(in crate::exchange) fn is_changed_away(changes: &HeaderChanges, name: &[u8]) -> bool {
    let named = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    changes.remove.iter().any(|other| named(other)) || changes.set.iter().any(|(other, _)| named(other))
}

/// Whether the changes of a route leave a field of this name that Weir itself adds.
#[inline]
pub(in crate::exchange) fn leave(changes: &HeaderChanges, name: &[u8]) -> bool {
    changes.is_empty() || !is_changed_away(changes, name)
}

/// The values of the headers that a route sets and adds, of those with values of the exchange: made before a head is written.
/// On the heap once there are such headers, since most exchanges have none.
#[derive(Debug, Default)]
pub(crate) struct RenderedHeaders(Option<Box<RenderedValues>>);

#[derive(Debug, Default)]
struct RenderedValues {
    text: Vec<u8>,
    /// The text of each; `None` where there is nothing to send.
    values: Vec<Option<Range<usize>>>,
}

impl RenderedHeaders {
    /// Makes the values for these changes, in place of earlier ones. `write` appends a text, and says whether there is any.
    pub(in crate::exchange) fn render(
        &mut self,
        changes: &HeaderChanges,
        write: impl Fn(&HeaderTemplate, &mut Vec<u8>) -> bool,
    ) {
        let RenderedValues { text, values } = &mut **self.0.get_or_insert_default();
        text.clear();
        values.clear();
        for (_, template) in of_exchange(changes) {
            let start = text.len();
            let has_value = write(template, text);
            values.push(has_value.then_some(start..text.len()));
        }
    }

    fn all(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let rendered = self.0.iter();
        rendered.flat_map(|all| all.values.iter().map(|range| Some(&all.text[range.clone()?])))
    }
}

/// Whether some of the headers have values of the exchange.
#[inline]
pub(in crate::exchange) fn has_values(changes: &HeaderChanges) -> bool {
    !changes.is_empty() && of_exchange(changes).next().is_some()
}

/// The headers with values of the exchange.
fn of_exchange(changes: &HeaderChanges) -> impl Iterator<Item = &(HeaderName, HeaderTemplate)> {
    changes.set.iter().chain(&changes.add).filter(|(_, template)| template.literal().is_none())
}

/// Adds what a route sets and adds, of the headers that `passes`.
pub(crate) fn write_changes(
    out: &mut impl FieldWriter,
    changes: &HeaderChanges,
    rendered: &RenderedHeaders,
    passes: impl Fn(&[u8]) -> bool,
) {
    if changes.is_empty() {
        return;
    }
    let mut rendered = rendered.all();
    for (name, template) in changes.set.iter().chain(&changes.add) {
        let value = match template.literal() {
            Some(text) => Some(text.as_bytes()),
            None => rendered.next().flatten(),
        };
        if let Some(value) = value.filter(|_| passes(name.as_bytes())) {
            out.field(name.as_bytes(), value);
        }
    }
}
