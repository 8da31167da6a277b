//! Fields of a head that is kept as names and values.

use weir_http::{FieldRun, FieldWriter};

/// The fields of a head, in their order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct FieldList(pub(super) Vec<(Vec<u8>, Vec<u8>)>);

impl FieldList {
    /// The value of the first field of this name.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        let named = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        named.map(|(_, value)| &value[..])
    }

    /// Adds them as lines of HTTP/1.
    pub(super) fn write_lines(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            out.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
        }
    }
}

impl FieldWriter for FieldList {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.0.push((name.to_vec(), value.to_vec()));
    }

    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.0.push((name.to_vec(), value));
    }

    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        if !value.is_empty() {
            self.0.push((name.to_vec(), value));
        }
    }

    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.field(name, value.to_string().as_bytes());
    }

    fn copy(&mut self, run: FieldRun<'_>) {
        for field in run.fields {
            self.field(field.name.of(run.text), field.value.of(run.text));
        }
    }
}
