//! The fields of one head, in the order received.
//!
//! The list is cleared, never freed, so a warm session parses without allocating. Which known names occur is kept
//! in one word, so asking for an absent field costs one test. Names and values are spans into the text of the head.

use super::name::FieldName;
use super::span::TextSpan;

/// One field line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name as received.
    pub name: TextSpan,
    /// The value without the white space around it.
    pub value: TextSpan,
    /// The name if it is one Weir knows.
    pub known: FieldName,
}

/// All fields of a head.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    list: Vec<Field>,
    present: u64,
}

impl Fields {
    /// No fields, nothing allocated.
    pub const fn new() -> Fields {
        Fields { list: Vec::new(), present: 0 }
    }

    /// Number of field lines.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no fields.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The fields in the order received.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    /// The fields in the order received, as a slice.
    #[inline]
    pub fn as_slice(&self) -> &[Field] {
        &self.list
    }

    /// Whether a field occurs whose name Weir does not know, in constant time: only such a name can contain an underscore.
    #[inline]
    pub fn has_unknown_names(&self) -> bool {
        const UNKNOWN: u64 =
            FieldName::Underscored.bit() | FieldName::XForwardedOther.bit() | FieldName::Other.bit();
        self.present & UNKNOWN != 0
    }

    /// Whether a field of this name occurs, in constant time.
    #[inline]
    pub fn contains(&self, name: FieldName) -> bool {
        self.present & name.bit() != 0
    }

    /// The first field of this name.
    #[inline]
    pub fn first(&self, name: FieldName) -> Option<&Field> {
        if !self.contains(name) {
            return None;
        }
        self.list.iter().find(|field| field.known == name)
    }

    /// Every field of this name, in the order received.
    #[inline]
    pub fn all(&self, name: FieldName) -> impl DoubleEndedIterator<Item = &Field> {
        let list = if self.contains(name) { self.list.as_slice() } else { &[] };
        list.iter().filter(move |field| field.known == name)
    }

    /// The first field called `name`, in any mixture of upper and lower case; `text` is the text of the head.
    pub fn get_by_name<'f>(&'f self, text: &[u8], name: &str) -> Option<&'f Field> {
        self.all_by_name(text, name).next()
    }

    /// Every field called `name`, in any mixture of upper and lower case; `text` is the text of the head.
    pub fn all_by_name<'f, 't, 'n>(
        &'f self,
        text: &'t [u8],
        name: &'n str,
    ) -> impl DoubleEndedIterator<Item = &'f Field> + use<'f, 't, 'n> {
        let known = FieldName::recognise(name.as_bytes());
        let list = if self.contains(known) { self.list.as_slice() } else { &[] };
        list.iter().filter(move |field| {
            field.known == known
                && (!matches!(known, FieldName::Other | FieldName::Underscored | FieldName::XForwardedOther)
                    || field.name.of(text).eq_ignore_ascii_case(name.as_bytes()))
        })
    }

    /// Adds a field whose line is appended to `text`, the text of this head, as a received one has it; the span of its value. Name and value must
    /// be valid ones: they are not looked at.
    pub fn append(&mut self, text: &mut Vec<u8>, name: &[u8], value: &[u8]) -> TextSpan {
        let known = FieldName::recognise(name);
        let mut add = |bytes: &[u8]| {
            let start = text.len();
            text.extend_from_slice(bytes);
            TextSpan::new(start, text.len())
        };
        let name = add(name);
        add(b": ");
        let value = add(value);
        add(b"\r\n");
        self.push(Field { name, value, known });
        value
    }

    /// Gives memory back that no field needs.
    pub fn shrink_to_fit(&mut self) {
        self.list.shrink_to_fit();
    }

    /// Forgets the fields and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.present = 0;
    }

    /// The fields, whose names must stay the same.
    pub(super) fn list_mut(&mut self) -> &mut [Field] {
        &mut self.list
    }

    /// Takes the field at a place out.
    pub(super) fn remove(&mut self, at: usize) {
        self.list.remove(at);
        self.present = self.list.iter().fold(0, |present, field| present | field.known.bit());
    }

    /// The last field. Its name must stay the same.
    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut Field> {
        self.list.last_mut()
    }

    #[inline]
    pub(crate) fn push(&mut self, field: Field) {
        self.present |= field.known.bit();
        self.list.push(field);
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a Field;
    type IntoIter = std::slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use crate::http1::ParsedRequest;
    use crate::{FieldName, HeadLimits};

    #[test]
    fn fields_are_found_by_name() {
        let text =
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Foo: 1\r\nvia: 2\r\nx-foo: 3\r\nVIA: 4\r\nx_foo: 5\r\n\r\n";
        let mut head = ParsedRequest::new();
        head.parse(text, &HeadLimits::default()).expect("the head is valid");
        let fields = head.fields();
        let value =
            |field: &crate::Field| std::str::from_utf8(field.value.of(text)).expect("the text is ASCII");
        assert_eq!(fields.len(), 6);
        assert!(fields.contains(FieldName::Via) && fields.contains(FieldName::Other));
        assert!(fields.has_unknown_names());
        assert!(!fields.contains(FieldName::Cookie) && fields.first(FieldName::Cookie).is_none());
        assert_eq!(fields.first(FieldName::Via).map(value), Some("2"));
        assert_eq!(fields.all(FieldName::Via).map(value).collect::<Vec<_>>(), ["2", "4"]);
        assert_eq!(fields.all(FieldName::Via).rev().map(value).collect::<Vec<_>>(), ["4", "2"]);
        assert_eq!(fields.get_by_name(text, "Via").map(value), Some("2"));
        assert_eq!(fields.all_by_name(text, "X-FOO").map(value).collect::<Vec<_>>(), ["1", "3"]);
        assert_eq!(fields.get_by_name(text, "x_foo").map(value), Some("5"));
        assert!(fields.get_by_name(text, "x-bar").is_none() && fields.get_by_name(text, "cookie").is_none());
        assert_eq!(fields.into_iter().map(value).collect::<String>(), "a12345");
    }
}
