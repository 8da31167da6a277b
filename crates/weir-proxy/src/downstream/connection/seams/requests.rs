//! Requests, from every client by way of every reader to every server.

use std::time::Duration;

use super::client::{Ask, Reading, Speech};
use super::script::Content;
use super::server::{self, Plan, Received};
use super::tls::TlsSides;
use super::{Failures, NO_TIME, Rig, SHAPES, Shape, TLS_SHAPES, in_event_loop, same};

/// How long the rest of a request may take that was answered early.
const EARLY_TIME: Duration = Duration::from_secs(5);

/// What reads or holds a body between its client and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Nothing.
    Relay,
    /// Memory, before a server is chosen.
    Gather,
    /// A temporary file, before a server is chosen.
    GatherInFile,
    /// Memory, until a server has answered: the first answer is no success.
    Again,
    /// Memory, for the copy of a mirror.
    Mirror,
    /// The same, before a server is chosen, where a temporary file has what comes behind.
    MirrorGathered,
}

impl Reader {
    const ALL: [Self; 6] =
        [Self::Relay, Self::Gather, Self::GatherInFile, Self::Again, Self::Mirror, Self::MirrorGathered];

    fn path(self) -> &'static str {
        match self {
            Self::Relay => "/relay",
            Self::Gather => "/gather",
            Self::GatherInFile => "/gather-in-file",
            Self::Again => "/again",
            Self::Mirror => "/mirror",
            Self::MirrorGathered => "/mirror-gathered",
        }
    }
}

/// One case.
#[derive(Debug, Clone, Copy)]
struct Case {
    reader: Reader,
    shape: Shape,
    server: server::Speech,
    client: Speech,
    /// Whether the length of the body is announced.
    is_known: bool,
    /// How the server reads.
    reading: Reading,
}

impl Case {
    /// Whether there is such a thing.
    fn exists(&self) -> bool {
        // FastCGI has to be told the length.
        let is_gathered =
            matches!(self.reader, Reader::Gather | Reader::GatherInFile | Reader::MirrorGathered);
        let is_possible = self.server != server::Speech::Fastcgi || self.is_known || is_gathered;
        // A message of a known length has no trailers in HTTP/1.
        let has_trailers = self.shape.has_trailers() && self.is_known && self.client == Speech::Http1;
        // A server of HTTP/1 answers behind the last byte: a request of HTTP/2 that ends later is not known to be whole, and is not copied.
        let ends_late = self.shape.ends_alone() && self.is_known && self.client == Speech::Http2;
        let is_copied = self.reader != Reader::Mirror || self.server != server::Speech::Length || !ends_late;
        is_possible && !has_trailers && is_copied
    }

    async fn run(&self, rig: &mut Rig) -> Result<(), String> {
        let content = Content::Salted(0);
        let answer = |status| Plan { status, fields: &[], shape: SHAPES[2], content, is_early: false };
        let statuses: &[u16] = if self.reader == Reader::Again { &[503, 200] } else { &[200] };
        let plans: Vec<Plan> = statuses.iter().map(|status| answer(*status)).collect();
        rig.begin(self.reading, &plans);
        let body = Some((self.shape, self.is_known));
        let ask = Ask { method: "POST", path: self.reader.path(), number: rig.number, body, is_call: false };
        let got = rig.fetch(self.client, Reading::AtOnce, ask, NO_TIME).await?;
        if self.shape.is_cut() {
            let whole = rig.server.received.iter().filter(|request| request.is_whole).count();
            return if whole == 0 { Ok(()) } else { Err("what is cut passes for whole".to_owned()) };
        }
        if (got.status, got.is_whole) != (200, true) {
            return Err(format!("{} {}", got.status, got.is_whole));
        }
        same(&got.body, &SHAPES[2].body(0))?;
        self.check(&rig.server.received, plans.len())?;
        if matches!(self.reader, Reader::Mirror | Reader::MirrorGathered) {
            self.check(&rig.copies.received, 1).map_err(|failure| format!("the copy: {failure}"))?;
        }
        Ok(())
    }

    fn check(&self, received: &[Received], count: usize) -> Result<(), String> {
        if received.len() != count {
            return Err(format!("{} requests in place of {count}", received.len()));
        }
        let sent = self.shape.body(0);
        received.iter().try_for_each(|request| match request.is_whole {
            true => same(&request.body, &sent),
            false => Err("the request has no end".to_owned()),
        })
    }
}

/// Answers that begin before the server has read the body of the request, which may never end: the client has them whole.
fn every_early_answer_of(server: server::Speech, tls: TlsSides) {
    in_event_loop(async {
        let mut failures = Failures::default();
        let mut rig = Rig::open(server, tls);
        let clients =
            [(Speech::Http1, true), (Speech::Http1, false), (Speech::Http2, true), (Speech::Http2, false)];
        let readings = [Reading::AtOnce, Reading::Slowly];
        for (client, is_known) in clients {
            if server == server::Speech::Fastcgi && !is_known {
                continue;
            }
            for (reading, slow) in readings.into_iter().flat_map(|one| readings.map(|other| (one, other))) {
                for request in [SHAPES[0], SHAPES[5], SHAPES[7], SHAPES[10], SHAPES[12], SHAPES[14]] {
                    // A message of a known length has no trailers in HTTP/1.
                    if request.has_trailers() && is_known && client == Speech::Http1 {
                        continue;
                    }
                    for shape in [SHAPES[0], SHAPES[9], SHAPES[12], SHAPES[18]] {
                        rig.begin(
                            reading,
                            &[Plan {
                                status: 413,
                                fields: &[],
                                shape,
                                content: Content::Salted(3),
                                is_early: true,
                            }],
                        );
                        let (number, body) = (rig.number, Some((request, is_known)));
                        let ask = Ask { method: "POST", path: "/relay", number, body, is_call: false };
                        let outcome = early_answer(&mut rig, (client, slow), ask, shape).await;
                        let label =
                            || format!("{client:?} {is_known} {reading:?} {slow:?} {request:?} {shape:?}");
                        if failures.note(label, outcome) {
                            rig = Rig::open(server, tls);
                        }
                    }
                }
            }
        }
        failures.check();
    });
}

async fn early_answer(
    rig: &mut Rig,
    (client, reading): (Speech, Reading),
    ask: Ask,
    shape: Shape,
) -> Result<(), String> {
    // The rest of the request is taken in for a moment, so that the answer is not lost with a reset.
    let got = rig.fetch(client, reading, ask, EARLY_TIME).await?;
    let sent = shape.body(3);
    match (got.status, got.is_whole) {
        (413, true) if !shape.is_cut() => same(&got.body, &sent),
        (502, true) if shape.is_cut() => Ok(()),
        (413, false) if shape.is_cut() && sent.starts_with(&got.body) => Ok(()),
        (status, is_whole) => Err(format!("{status} {is_whole}, {} bytes", got.body.len())),
    }
}

#[test]
fn early_answers_with_a_length_reach_all() {
    every_early_answer_of(server::Speech::Length, TlsSides::NEITHER);
}

#[test]
fn early_answers_in_chunks_reach_all() {
    every_early_answer_of(server::Speech::Chunked, TlsSides::NEITHER);
}

#[test]
fn early_answers_of_http2_reach_all() {
    every_early_answer_of(server::Speech::Http2, TlsSides::NEITHER);
}

#[test]
fn early_answers_of_fastcgi_reach_all() {
    every_early_answer_of(server::Speech::Fastcgi, TlsSides::NEITHER);
}

#[test]
fn early_answers_of_http1_reach_all_over_tls() {
    every_early_answer_of(server::Speech::Length, TlsSides::BOTH);
}

#[test]
fn early_answers_of_http2_reach_all_over_tls() {
    every_early_answer_of(server::Speech::Http2, TlsSides::BOTH);
}

fn every_shape_to(server: server::Speech) {
    run(server, TlsSides::NEITHER, &Reader::ALL, &SHAPES);
}

/// The rows with TLS: on either side and on both where nothing holds the body, since what relays it differs.
fn every_shape_over_tls_to(server: server::Speech) {
    let shapes = TLS_SHAPES.map(|shape| SHAPES[shape]);
    for tls in TlsSides::WITH_TLS {
        run(server, tls, &[Reader::Relay], &shapes);
    }
    run(server, TlsSides::BOTH, &[Reader::GatherInFile, Reader::Again], &shapes);
}

fn run(server: server::Speech, tls: TlsSides, readers: &[Reader], shapes: &[Shape]) {
    in_event_loop(async {
        let mut failures = Failures::default();
        let mut rig = Rig::open(server, tls);
        for reader in readers.iter().copied() {
            for (client, is_known) in
                [(Speech::Http1, true), (Speech::Http1, false), (Speech::Http2, true), (Speech::Http2, false)]
            {
                for reading in [Reading::AtOnce, Reading::Slowly] {
                    for shape in shapes.iter().copied() {
                        let case = Case { reader, shape, server, client, is_known, reading };
                        if case.exists() {
                            let outcome = case.run(&mut rig).await;
                            if failures.note(|| format!("{case:?}"), outcome) {
                                rig = Rig::open(server, tls);
                            }
                        }
                    }
                }
            }
        }
        failures.check();
    });
}

#[test]
fn requests_to_http1_are_the_same_from_all() {
    every_shape_to(server::Speech::Length);
}

#[test]
fn requests_to_http2_are_the_same_from_all() {
    every_shape_to(server::Speech::Http2);
}

#[test]
fn requests_to_fastcgi_are_the_same_from_all() {
    every_shape_to(server::Speech::Fastcgi);
}

#[test]
fn requests_to_http1_are_the_same_over_tls() {
    every_shape_over_tls_to(server::Speech::Length);
}

#[test]
fn requests_to_http2_are_the_same_over_tls() {
    every_shape_over_tls_to(server::Speech::Http2);
}
