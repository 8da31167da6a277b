//! Heads as the cache sees them: the fields of a message that is being handled, and those of a stored response.

use weir_http::{Field, FieldRun, FieldWriter, Fields};

/// The fields of a request or a response, with the text that their spans refer to.
#[derive(Debug, Clone, Copy)]
pub struct HeadView<'a> {
    /// The fields.
    pub fields: &'a Fields,
    /// Their text.
    pub text: &'a [u8],
}

impl<'a> HeadView<'a> {
    /// The values of all fields of this name, in the order received.
    pub fn all<'n>(self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n>
    where
        'a: 'n,
    {
        self.fields.all_by_name(self.text, name).map(move |field| field.value.of(self.text))
    }

    /// The value of the first field of this name.
    pub fn first(self, name: &str) -> Option<&'a [u8]> {
        self.fields.get_by_name(self.text, name).map(|field| field.value.of(self.text))
    }

    /// Whether there is a field of this name.
    pub fn contains(self, name: &str) -> bool {
        self.fields.get_by_name(self.text, name).is_some()
    }
}

/// The fields of a stored response, with a text of their own.
#[derive(Debug, Clone, Default)]
pub struct StoredHead {
    text: Vec<u8>,
    fields: Fields,
}

impl StoredHead {
    /// A copy of the fields that `keeps` chooses.
    pub fn copy(head: HeadView<'_>, mut keeps: impl FnMut(&Field) -> bool) -> Self {
        let mut copy = Self::default();
        for field in head.fields {
            if keeps(field) {
                copy.append(field.name.of(head.text), field.value.of(head.text));
            }
        }
        copy.shrink();
        copy
    }

    /// Adds a field; name and value must be valid ones.
    pub fn append(&mut self, name: &[u8], value: &[u8]) {
        self.fields.append(&mut self.text, name, value);
    }

    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.fields.shrink_to_fit();
    }

    /// The fields, to be read by name.
    pub fn view(&self) -> HeadView<'_> {
        HeadView { fields: &self.fields, text: &self.text }
    }

    /// All fields, to be handed to a [`FieldWriter`]; `None` when there are none.
    pub fn run(&self) -> Option<FieldRun<'_>> {
        let fields = self.fields.as_slice();
        (!fields.is_empty()).then_some(FieldRun { text: &self.text, fields, end: self.text.len() })
    }

    /// Writes all fields.
    pub fn write(&self, writer: &mut impl FieldWriter) {
        if let Some(run) = self.run() {
            writer.copy(run);
        }
    }

    /// The lines of the fields.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.text.capacity() + self.fields.len() * size_of::<Field>()
    }
}
