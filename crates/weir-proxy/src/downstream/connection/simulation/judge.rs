//! What the records of both peers have to be, by a reader that shares nothing with Weir: exactly the messages that were meant, each response with the
//! id of its own request.

use std::collections::{BTreeMap, BTreeSet};

use weir_wire::http1::{self, StartLine};
use weir_wire::http2::{self, FRAME_MAX, FrameSender};

use super::browser::{BrowserStream, StreamKind};
use super::peer::LIMITED_LEN;

/// The body of the response on a stream.
fn meant_body(stream: &BrowserStream) -> Vec<u8> {
    match stream.kind {
        StreamKind::Short => b"short".to_vec(),
        StreamKind::ExchangeLimits => vec![b'x'; LIMITED_LEN as usize],
        StreamKind::Tunnel => stream.sent.clone(),
    }
}

/// The streams that are answered.
fn answered(streams: &[BrowserStream]) -> impl Iterator<Item = &BrowserStream> {
    streams.iter().filter(|stream| !stream.is_beyond_end)
}

/// Judges all that a client has received.
pub(super) fn responses(record: &[u8], streams: &[BrowserStream]) -> Result<(), String> {
    let mut reading = http2::read(record, FrameSender::Server, &BTreeSet::new(), FRAME_MAX);
    if let Some(fault) = &reading.fault {
        return Err(format!("no frames of a server: {fault}"));
    }
    for stream in answered(streams) {
        let id = stream.id;
        let Some(got) = reading.streams.remove(&id) else { return Err(format!("nothing on stream {id}")) };
        let ids = got.head.all("x-id");
        if (got.status(), ids.as_slice()) != (200, &[&*id.to_string()]) || !got.interim.is_empty() {
            return Err(format!("another head on stream {id}: {:?}", got.head));
        }
        if (got.has_ended, got.reset, &got.trailers) != (true, None, &None) {
            return Err(format!("another end of stream {id}: {:?} {:?}", got.reset, got.trailers));
        }
        if got.body != meant_body(stream) {
            return Err(format!("another body on stream {id}, {} bytes", got.body.len()));
        }
    }
    // A stream that was opened too late may be refused.
    match reading.streams.iter().find(|(_, stream)| !stream.head.0.is_empty()) {
        Some((id, _)) => Err(format!("a response on stream {id}")),
        None => Ok(()),
    }
}

/// Judges all that a server has received, connection by connection.
pub(super) fn requests(records: &[Vec<u8>], streams: &[BrowserStream]) -> Result<(), String> {
    let mut meant: BTreeMap<String, &BrowserStream> =
        answered(streams).map(|stream| (stream.id.to_string(), stream)).collect();
    for record in records {
        let reading = http1::requests(record);
        if let Some(fault) = &reading.fault {
            return Err(format!("no requests: {fault}"));
        }
        if reading.unfinished_head.is_some() || !reading.messages.iter().all(|message| message.is_complete) {
            return Err("a request that is cut off".to_owned());
        }
        let mut last = None;
        for message in &reading.messages {
            let id = message.fields.first("x-id").unwrap_or_default();
            let Some(stream) = meant.remove(id) else { return Err(format!("a request of {id:?}")) };
            let is_meant = matches!(&message.start, StartLine::Request { method, target }
                if method == "GET" && target == stream.kind.path());
            if !is_meant || !message.body.is_empty() {
                return Err(format!("another request of stream {id}: {:?}", message.start));
            }
            last = Some(stream);
        }
        let tunnel = &record[reading.tunnel.unwrap_or(record.len())..];
        let sent = last.filter(|stream| stream.kind == StreamKind::Tunnel);
        if tunnel != sent.map_or(&b""[..], |stream| &stream.sent) {
            return Err(format!("{} bytes of a tunnel of {sent:?}", tunnel.len()));
        }
    }
    match meant.first_key_value() {
        Some((id, _)) => Err(format!("the request of stream {id} has not come")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulate;
    use super::*;

    const DATA: u8 = 0;
    const HEADERS: u8 = 1;

    /// The frames of a record.
    fn frames(mut record: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(header) = record.first_chunk::<9>() {
            let len =
                9 + (usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]));
            frames.push(record[..len].to_vec());
            record = &record[len..];
        }
        frames
    }

    fn find(frames: &[Vec<u8>], kind: u8, is_meant: impl Fn(&[u8]) -> bool) -> Option<usize> {
        frames.iter().position(|frame| frame[3] == kind && is_meant(frame))
    }

    /// The record with each fault that can be planted into it.
    fn planted(record: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let frames = frames(record);
        let mut planted = Vec::new();
        let mut plant = |name, at: Option<usize>, change: fn(Vec<Vec<u8>>, usize) -> Vec<Vec<u8>>| {
            planted.extend(at.map(|at| (name, change(frames.clone(), at).concat())));
        };
        let ends = |frame: &[u8]| frame[4] & 1 != 0;
        let (head, data, last) = (
            find(&frames, HEADERS, |_| true),
            find(&frames, DATA, |frame| frame.len() > 9),
            find(&frames, DATA, ends),
        );
        plant("another byte", data, |mut frames, at| {
            frames[at][9] ^= 1;
            frames
        });
        plant("a frame is lost", data, |mut frames, at| {
            frames.remove(at);
            frames
        });
        plant("a frame is there twice", data, |mut frames, at| {
            frames.insert(at, frames[at].clone());
            frames
        });
        plant("the end is lost", last, |mut frames, at| {
            frames[at][4] = 0;
            frames
        });
        plant("DATA behind the end", last, |mut frames, at| {
            frames.insert(at + 1, frames[at].clone());
            frames
        });
        plant("a head twice", head, |mut frames, at| {
            frames.insert(at, frames[at].clone());
            frames
        });
        // Of two heads in turn, each is that of the other stream.
        let second = head.and_then(|head| Some(head + 1 + find(&frames[head + 1..], HEADERS, |_| true)?));
        if let (Some(one), Some(other)) = (head, second) {
            let mut frames = frames.clone();
            let stream = frames[one][8];
            frames[one][8] = frames[other][8];
            frames[other][8] = stream;
            planted.push(("two responses change places", frames.concat()));
        }
        planted
    }

    #[test]
    fn faults_in_records_are_found() {
        let mut count = BTreeMap::<&str, usize>::new();
        for seed in 1..20 {
            simulate(seed, |rig| {
                let streams = &rig.client.streams;
                for (name, record) in planted(&rig.client.received) {
                    *count.entry(name).or_default() += 1;
                    assert!(responses(&record, streams).is_err(), "{name} of seed {seed} was not found");
                }
                let records = rig.server.records();
                for at in 0..records.len() {
                    let mut cut = records.clone();
                    cut[at].pop();
                    let mut longer = records.clone();
                    longer[at].extend_from_slice(b"x");
                    let mut lost = records.clone();
                    lost.remove(at);
                    let mut twice = records.clone();
                    twice.push(records[at].clone());
                    for records in [cut, longer, lost, twice] {
                        assert!(requests(&records, streams).is_err(), "connection {at} of seed {seed}");
                    }
                }
            });
        }
        assert!(count.len() == 7 && count.values().all(|count| *count > 5), "{count:?}");
    }
}
