//! One scrape of Weir's Prometheus page, and the questions tests ask of it.
//!
//! A small reader of the text format of its own; it knows no metric by name.

use std::net::SocketAddr;

use super::client::{Client, Response};
use super::message::latin1;

/// The label of the server `name`.
pub(crate) fn of_server(name: &str) -> String {
    format!("server=\"{name}\"")
}

/// The samples of one scrape.
#[derive(Debug)]
pub(crate) struct Metrics {
    samples: Vec<(String, f64)>,
}

impl Metrics {
    /// Scrapes `/metrics` at `admin`.
    pub(crate) fn scrape(admin: SocketAddr) -> Metrics {
        Metrics::new(&Client::get_by_address(admin, "/metrics"))
    }

    /// What a scrape has brought.
    pub(crate) fn new(response: &Response) -> Metrics {
        assert_eq!(response.status, 200, "{response:?}");
        let text = response.text();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line:?}"));
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line:?}"));
            (series.to_owned(), value)
        });
        Metrics { samples: samples.collect() }
    }

    /// The sum of the samples of the metric `name` alone, for frequent queries: the rest of the page is skipped.
    pub(crate) fn scrape_sum(admin: SocketAddr, name: &str) -> f64 {
        let response = Client::get_by_address(admin, "/metrics");
        let of_it =
            |line: &&[u8]| line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"{"));
        let samples = response.body.bytes.split(|byte| *byte == b'\n').filter(of_it);
        let value = |line: &[u8]| latin1(line).rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        samples.map(|line| value(line).unwrap_or_else(|| panic!("no number: {:?}", latin1(line)))).sum()
    }

    /// All samples of the metric `name` whose labels hold every one of `labels`, given as `key="value"`.
    pub(crate) fn all(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        self.samples
            .iter()
            .filter(|(series, _)| series.split('{').next() == Some(name))
            .filter(|(series, _)| labels.iter().all(|label| series.contains(label)))
            .map(|(_, value)| *value)
            .collect()
    }

    /// The sum of those samples; panics when the metric does not exist.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let all = self.all(name, labels);
        assert!(!all.is_empty(), "no metric {name} with {labels:?} among {:#?}", self.samples);
        all.iter().sum()
    }
}
