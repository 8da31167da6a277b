//! One scrape: where it stands, and the next piece of its text.

use super::families::{Family, Write};
use super::filter::FamilyFilter;
use super::source::MetricSource;
use super::text::{Samples, write_head, write_label};

/// A piece of the text is ended by the first part that makes it longer than this.
pub const PIECE_BYTES: usize = 64 * 1024;

/// Parts that are passed for one piece: most have no sample in the families of failures, and other requests wait meanwhile.
const PIECE_PARTS: usize = 4_096;

/// The text of all metrics, piece by piece.
#[derive(Debug)]
pub struct Scrape<S> {
    source: S,
    families: Vec<&'static Family>,
    at: ScrapePosition,
    /// The labels of the part that is written.
    labels: String,
}

/// The position of a scrape.
#[derive(Debug, Clone, Copy, Default)]
struct ScrapePosition {
    family: usize,
    /// Whether the head of the family is written.
    is_begun: bool,
    /// The listener or upstream, or another part.
    outer: usize,
    /// The route or server in it.
    inner: usize,
}

impl<S: MetricSource> Scrape<S> {
    /// A scrape of the families that the filter accepts.
    pub fn new(source: S, filter: &FamilyFilter) -> Scrape<S> {
        let families = filter.families();
        Scrape { source, families, at: ScrapePosition::default(), labels: String::new() }
    }

    /// Appends the next piece, which may be empty; false: it was the last one.
    pub fn write_piece(&mut self, out: &mut String) -> bool {
        let end = out.len() + PIECE_BYTES;
        for _ in 0..PIECE_PARTS {
            let Some(family) = self.families.get(self.at.family).copied() else { return false };
            if !self.at.is_begun {
                write_head(out, family.name, family.kind, family.help);
                self.at.is_begun = true;
            }
            if !self.write_part(family, out) {
                self.at = ScrapePosition { family: self.at.family + 1, ..ScrapePosition::default() };
            }
            if out.len() >= end {
                break;
            }
        }
        true
    }

    /// Appends the samples of the next part of a family; false: there is none.
    fn write_part(&mut self, family: &'static Family, out: &mut String) -> bool {
        let Self { source, at, labels, .. } = self;
        let (index, inner) = (at.outer, at.inner);
        labels.clear();
        at.outer += 1;
        macro_rules! samples {
            () => {
                &mut Samples { out, name: family.name, labels, buckets: source.buckets() }
            };
        }
        match family.write {
            Write::Process(write) if index == 0 => write(samples!(), source.general()),
            Write::Worker(write) if index < source.general().workers.len() => {
                write_label(labels, "worker", itoa::Buffer::new().format(index));
                write(samples!(), &source.general().workers[index]);
            }
            Write::Listener(write) if index < source.listeners() => {
                let listener = source.listener(index);
                write_label(labels, "listener", listener.name());
                write(samples!(), listener);
            }
            Write::Map(write) if index < source.maps() => {
                let map = source.map(index);
                write_label(labels, "map", map.name());
                write(samples!(), map);
            }
            Write::Limit(write) if index < source.limits() => {
                let limit = source.limit(index);
                write_label(labels, "limit", limit.name());
                write(samples!(), limit);
            }
            Write::Table(write) if index < source.tables() => {
                let table = source.table(index);
                write_label(labels, "table", table.name());
                write(samples!(), table);
            }
            Write::Cache(write) if index < source.caches() => {
                let cache = source.cache(index);
                write_label(labels, "cache", cache.name());
                write(samples!(), cache);
            }
            Write::Upstream(write) if index < source.upstreams() => {
                let upstream = source.upstream(index);
                write_label(labels, "upstream", upstream.name());
                write(samples!(), upstream);
            }
            Write::Route(write) if index < source.listeners() => {
                let listener = source.listener(index);
                if inner < listener.routes() {
                    (at.outer, at.inner) = (index, inner + 1);
                    write_label(labels, "listener", listener.name());
                    labels.push(',');
                    write_label(labels, "route", listener.route_name(inner));
                    write(samples!(), listener.route_shards(inner));
                } else {
                    at.inner = 0;
                }
            }
            Write::Server(write) if index < source.upstreams() => {
                let upstream = source.upstream(index);
                if let Some(&server) = source.servers(index).get(inner) {
                    (at.outer, at.inner) = (index, inner + 1);
                    write_label(labels, "upstream", upstream.name());
                    labels.push(',');
                    write_label(labels, "server", upstream.server_name(server));
                    write(samples!(), upstream, server);
                } else {
                    at.inner = 0;
                }
            }
            _ => return false,
        }
        true
    }
}
