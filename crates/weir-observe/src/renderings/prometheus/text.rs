//! The lines of the text format: the head of a family, and its samples.

use super::BucketBounds;
use crate::counters::histogram::HistogramSnapshot;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

/// Appends the head of a family, before its samples.
pub(super) fn write_head(out: &mut String, name: &str, kind: MetricType, help: &str) {
    let kind = match kind {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
    };
    for part in ["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"] {
        out.push_str(part);
    }
}

/// Appends a label with its value escaped: backslash, quote and newline, as the format asks.
pub(super) fn write_label(out: &mut String, name: &str, value: &str) {
    for part in [name, "=\""] {
        out.push_str(part);
    }
    for char in value.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            _ => out.push(char),
        }
    }
    out.push('"');
}

/// Takes the samples of one part of a family: of a server, say.
pub(super) struct Samples<'a> {
    pub(super) out: &'a mut String,
    /// Name of the family.
    pub(super) name: &'static str,
    /// The labels of the part, ready to be written.
    pub(super) labels: &'a str,
    pub(super) buckets: &'a BucketBounds,
}

impl Samples<'_> {
    /// The one sample of the part.
    pub(super) fn value(&mut self, value: impl itoa::Integer) {
        self.labelled(&[], value);
    }

    /// A sample with labels of its own; they need no escaping.
    pub(super) fn labelled(&mut self, more: &[(&str, &str)], value: impl itoa::Integer) {
        self.line_begins("", more);
        self.line_ends(value);
    }

    /// A sample with a label of its own that may hold anything.
    pub(super) fn named(&mut self, label: &str, name: &str, value: impl itoa::Integer) {
        self.out.push_str(self.name);
        self.out.push('{');
        self.out.push_str(self.labels);
        self.out.push(',');
        write_label(self.out, label, name);
        self.out.push_str("} ");
        self.line_ends(value);
    }

    /// The one sample of the part, microseconds in seconds.
    pub(super) fn seconds(&mut self, micros: u64) {
        self.line_begins("", &[]);
        self.push_seconds(micros);
    }

    /// All samples of a histogram; none while it has no value.
    pub(super) fn histogram(&mut self, snapshot: &HistogramSnapshot) {
        if snapshot.count() == 0 {
            return;
        }
        for (bound, count) in self.buckets.labels().zip(snapshot.counts_below(self.buckets.micros())) {
            self.line_begins("_bucket", &[("le", bound)]);
            self.line_ends(count);
        }
        self.line_begins("_bucket", &[("le", "+Inf")]);
        self.line_ends(snapshot.count());
        self.line_begins("_sum", &[]);
        self.push_seconds(snapshot.sum());
        self.line_begins("_count", &[]);
        self.line_ends(snapshot.count());
    }

    /// Appends name and labels and the space before the value.
    fn line_begins(&mut self, suffix: &str, more: &[(&str, &str)]) {
        let Self { out, name, labels, .. } = self;
        out.push_str(name);
        out.push_str(suffix);
        if labels.is_empty() && more.is_empty() {
            out.push(' ');
            return;
        }
        out.push('{');
        out.push_str(labels);
        let mut comma = if labels.is_empty() { "" } else { "," };
        for (label, value) in more {
            for part in [comma, label, "=\"", value, "\""] {
                out.push_str(part);
            }
            comma = ",";
        }
        out.push_str("} ");
    }

    fn line_ends(&mut self, value: impl itoa::Integer) {
        self.out.push_str(itoa::Buffer::new().format(value));
        self.out.push('\n');
    }

    /// Appends microseconds as seconds with six digits after the point, and ends the line.
    fn push_seconds(&mut self, micros: u64) {
        let mut digits = itoa::Buffer::new();
        self.out.push_str(digits.format(micros / 1_000_000));
        // A leading 1 keeps the zeros; it is where the dot goes.
        self.out.push('.');
        self.out.push_str(&digits.format(1_000_000 + micros % 1_000_000)[1..]);
        self.out.push('\n');
    }
}
