//! A client of HTTP/3: `link` is a connection of QUIC that records what passes through it, `sections` writes field sections, and this the frames.

mod link;
mod sections;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use quinn_proto::{Dir, StreamId};
use rustls::ClientConfig;
use weir_wire::http3::{AnnouncedByClient, Http3Reading, NO_ERROR, read_server};

pub(crate) use link::{QuicCut, RecordedQuic};
use sections::ClientSections;

use super::link::{LinkEnd, Tapes};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// A reserved type, which means nothing (RFC 9114 section 7.2.8).
const RESERVED: u8 = 0x21;
const CONTROL_STREAM: u8 = 0;
const ENCODER_STREAM: u8 = 2;
const DECODER_STREAM: u8 = 3;
const REQUEST_CANCELLED: u32 = 0x10c;
/// What a client with tables announces, and what it uses of Weir's table at most.
const TABLE_BYTES: usize = 4_096;

/// One connection.
pub(crate) struct Http3 {
    pub(super) link: RecordedQuic,
    /// Whether both directions may use their dynamic tables.
    has_tables: bool,
    encoder: ClientSections,
    encoder_stream: StreamId,
    decoder_stream: StreamId,
    /// Insertions and sections of Weir that were acknowledged.
    acknowledged: (u64, usize),
    /// Streams that were given up.
    cancelled: BTreeSet<u64>,
    /// Streams whose responses have no body.
    pub(super) heads: BTreeSet<u64>,
}

/// How many bytes of Weir's table there may be, for the reader of a record.
pub(crate) fn table_bytes_max(has_tables: bool) -> usize {
    if has_tables { TABLE_BYTES } else { 0 }
}

/// An integer of variable length (RFC 9000 section 16).
fn varint(number: usize) -> Vec<u8> {
    let number = number as u64;
    match number {
        0..64 => vec![number as u8],
        64..16_384 => (number as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => (number as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    }
}

/// A frame (RFC 9114 section 7.1).
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &varint(payload.len()), payload].concat()
}

/// HEADERS of literals that use no table, so that a record can be changed and still be read.
pub(crate) fn head_frame(fields: &[(String, String)]) -> Vec<u8> {
    frame(HEADERS, &sections::plain_section(fields))
}

/// A frame of DATA.
pub(crate) fn data_frame(data: &[u8]) -> Vec<u8> {
    frame(DATA, data)
}

impl Http3 {
    /// Connects, and waits for Weir's settings where its table is to be used.
    pub(super) fn connect(
        to: SocketAddr,
        tls: ClientConfig,
        tapes: &Tapes,
        has_tables: bool,
    ) -> Result<Self, LinkEnd> {
        let mut link = RecordedQuic::connect(to, tls, tapes)?;
        let control = link.open(Dir::Uni)?;
        let (encoder_stream, decoder_stream) = (link.open(Dir::Uni)?, link.open(Dir::Uni)?);
        let settings = if has_tables {
            [&[1][..], &varint(TABLE_BYTES), &[7], &varint(16)].concat()
        } else {
            // One that means nothing.
            [&varint(0x21)[..], &varint(7)].concat()
        };
        link.send(
            control,
            &[&[CONTROL_STREAM][..], &frame(4, &settings), &frame(RESERVED, b"abc")].concat(),
        )?;
        link.send(encoder_stream, &[ENCODER_STREAM])?;
        link.send(decoder_stream, &[DECODER_STREAM])?;
        let mut http3 = Self {
            link,
            has_tables,
            encoder: ClientSections::new(TABLE_BYTES),
            encoder_stream,
            decoder_stream,
            acknowledged: (0, 0),
            cancelled: BTreeSet::new(),
            heads: BTreeSet::new(),
        };
        while has_tables && http3.reading().settings.is_none() {
            http3.link.turn()?;
        }
        Ok(http3)
    }

    /// What Weir has sent so far, as messages.
    pub(super) fn reading(&self) -> Http3Reading {
        let table_bytes_max = table_bytes_max(self.has_tables);
        let announced = AnnouncedByClient { table_bytes_max, without_bodies: &self.heads };
        read_server(self.link.received(), announced)
    }

    /// Sends a field section: the head of a request, or its trailers. Instructions for the table come behind it, so that it has to wait for them.
    pub(super) fn send_head(
        &mut self,
        stream: StreamId,
        fields: &[(String, String)],
        ends: bool,
    ) -> Result<(), LinkEnd> {
        if !self.has_tables {
            self.link.send(stream, &head_frame(fields))?;
        } else {
            let (section, instructions) = self.encoder.section(fields);
            self.link.send(stream, &frame(HEADERS, &section))?;
            if !instructions.is_empty() {
                self.link.send(self.encoder_stream, &instructions)?;
            }
        }
        if ends { self.link.end(stream) } else { Ok(()) }
    }

    /// Sends a frame of DATA, and the end by itself.
    pub(super) fn send_data(&mut self, stream: StreamId, data: &[u8], ends: bool) -> Result<(), LinkEnd> {
        self.link.send(stream, &data_frame(data))?;
        if ends { self.link.end(stream) } else { Ok(()) }
    }

    /// Sends frames that are cut anywhere, one that means nothing among them.
    pub(super) fn send_pieces(&mut self, stream: StreamId, pieces: &[&[u8]]) -> Result<(), LinkEnd> {
        let mut bytes = frame(RESERVED, b"means nothing");
        pieces.iter().for_each(|piece| bytes.extend(data_frame(piece)));
        for piece in crate::exchange::pieces(&bytes) {
            self.link.send(stream, piece)?;
        }
        self.link.end(stream)
    }

    /// Gives a request up, both directions.
    pub(super) fn cancel(&mut self, stream: StreamId) -> Result<(), LinkEnd> {
        self.cancelled.insert(stream.into());
        self.link.reset(stream, REQUEST_CANCELLED)?;
        self.link.stop(stream, REQUEST_CANCELLED)?;
        if !self.has_tables {
            return Ok(());
        }
        let number = u64::from(stream) as usize;
        self.link.send(self.decoder_stream, &sections::integer(0x40, 6, number))
    }

    /// Waits until the response on a stream is over, and acknowledges what it has used of the table.
    pub(super) fn wait(&mut self, stream: StreamId) -> Result<(), LinkEnd> {
        while !self.link.has_ended(stream) {
            self.link.turn()?;
        }
        let reading = self.reading();
        if reading.fault.is_some() {
            return Err(LinkEnd::Malformed);
        }
        let (insertions, sections) = self.acknowledged;
        let mut instructions = Vec::new();
        if reading.insertions > insertions {
            instructions.extend(sections::integer(0, 6, (reading.insertions - insertions) as usize));
        }
        // They use nothing that was not acknowledged before.
        for stream in reading.sections[sections..].iter().filter(|stream| !self.cancelled.contains(stream)) {
            instructions.extend(sections::integer(0x80, 7, *stream as usize));
        }
        self.acknowledged = (reading.insertions, reading.sections.len());
        if instructions.is_empty() { Ok(()) } else { self.link.send(self.decoder_stream, &instructions) }
    }

    /// Waits for the head of the response on a stream, or its end.
    pub(super) fn wait_for_head(&mut self, stream: StreamId) -> Result<(), LinkEnd> {
        let has_head = |http3: &Self| {
            http3.reading().streams.get(&stream.into()).is_some_and(|stream| stream.status() != 0)
        };
        while !self.link.has_ended(stream) && !has_head(self) {
            self.link.turn()?;
        }
        Ok(())
    }

    /// Reads what still comes for a moment, and closes.
    pub(super) fn end(mut self) {
        self.link.drain();
        self.link.close(NO_ERROR);
    }
}
