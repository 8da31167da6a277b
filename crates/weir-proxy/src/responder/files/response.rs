//! What of a file the client gets: the form that it accepts, the whole or parts, or that it has it already.

use std::collections::VecDeque;

use weir_config::FileEncoding;
use weir_http::{
    AcceptedCodings, ByteRange, ConditionOutcome, ContentCoding, FieldName, Fields, RangeSelection,
    Validators, digits, select_ranges,
};

use crate::relay::file::BodyPiece;
use crate::responder::Answer;
use crate::state::static_files::OpenFile;

/// The response of a file: its head, and what its body is made of.
#[derive(Debug)]
pub(crate) struct FileResponse<'a> {
    /// The file, or an encoded form of it.
    pub(crate) file: &'a OpenFile,
    /// Without body.
    pub(crate) head: Answer<'a>,
    pub(crate) body: FileResponseBody,
}

/// The body of the response of a file.
#[derive(Debug)]
pub(crate) enum FileResponseBody {
    /// That of the head.
    None,
    Whole,
    /// So many bytes in all.
    Parts(VecDeque<BodyPiece>, u64),
}

/// The response to a GET or HEAD with these fields. `has_forms` says that there may be encoded forms; `boundary` parts several ranges.
pub(crate) fn respond<'a>(
    file: &'a OpenFile,
    fields: &Fields,
    text: &[u8],
    has_forms: bool,
    boundary: u64,
) -> FileResponse<'a> {
    let (form, encoding) = choose_form(file, fields, text);
    let validators = Validators { etag: &form.etag, modified: form.modified };
    let outcome = validators.evaluate(fields, text);
    if outcome == ConditionOutcome::Failed {
        return FileResponse { file: form, head: Answer::of(412), body: FileResponseBody::None };
    }
    let is_known = outcome == ConditionOutcome::NotModified;
    let ranges = match fields.get_by_name(text, "range") {
        Some(range) if !is_known && validators.allow_range(fields, text) => {
            select_ranges(range.value.of(text), form.len())
        }
        _ => RangeSelection::Whole,
    };
    let (status, body, about_range) = select(form, &file.media_type, &ranges, boundary);
    let mut head = Answer::of(if is_known { 304 } else { status });
    if status == 416 {
        head = head.with(b"Content-Range", about_range.unwrap_or_default());
        return FileResponse { file: form, head, body };
    }
    if !is_known {
        head = match ranges {
            RangeSelection::Several(_) => head.with(b"Content-Type", multipart_type(boundary)),
            _ => head.with(b"Content-Type", &*file.media_type),
        };
    }
    head = head.with(b"Last-Modified", &form.last_modified[..]).with(b"ETag", &*form.etag);
    if has_forms {
        head = head.with(b"Vary", &b"Accept-Encoding"[..]);
    }
    if is_known {
        return FileResponse { file: form, head, body: FileResponseBody::None };
    }
    if let Some(encoding) = encoding {
        head = head.with(b"Content-Encoding", encoding);
    }
    head = head.with(b"Accept-Ranges", &b"bytes"[..]);
    if let Some(range) = about_range {
        head = head.with(b"Content-Range", range);
    }
    FileResponse { file: form, head, body }
}

/// The whole of a file, as parts.
pub(crate) fn whole(file: &OpenFile) -> (VecDeque<BodyPiece>, u64) {
    ([BodyPiece::File(ByteRange { start: 0, end: file.len() })].into(), file.len())
}

/// Status, body, and the value of `Content-Range`.
fn select(
    form: &OpenFile,
    media_type: &[u8],
    ranges: &RangeSelection,
    boundary: u64,
) -> (u16, FileResponseBody, Option<Vec<u8>>) {
    match ranges {
        RangeSelection::Whole => (200, FileResponseBody::Whole, None),
        RangeSelection::One(range) => {
            let body = FileResponseBody::Parts([BodyPiece::File(*range)].into(), range.len());
            (206, body, Some(content_range(Some(*range), form.len())))
        }
        RangeSelection::Several(ranges) => {
            let mut pieces = VecDeque::new();
            let mut len = 0;
            for range in ranges {
                let head = part_head(media_type, *range, form.len(), boundary, pieces.is_empty());
                len += head.len() as u64 + range.len();
                pieces.extend([BodyPiece::Text(head), BodyPiece::File(*range)]);
            }
            let end = part_end(boundary);
            len += end.len() as u64;
            pieces.push_back(BodyPiece::Text(end));
            (206, FileResponseBody::Parts(pieces, len), None)
        }
        RangeSelection::Unsatisfiable => (416, FileResponseBody::None, Some(content_range(None, form.len()))),
    }
}

/// The form that the client likes best of those that there are, with its coding; among equals, that of the config comes first.
fn choose_form<'a>(
    file: &'a OpenFile,
    fields: &Fields,
    text: &[u8],
) -> (&'a OpenFile, Option<&'static [u8]>) {
    if file.beside.is_empty() {
        return (file, None);
    }
    let values = fields.all(FieldName::AcceptEncoding).map(|field| field.value.of(text));
    let accepted = AcceptedCodings::parse(values);
    let preferred = accepted.preferred(file.beside.iter().map(|(encoding, _)| coding_of(*encoding)));
    let found = file.beside.iter().find(|(encoding, _)| Some(coding_of(*encoding)) == preferred);
    found.map_or((file, None), |(encoding, form)| (form, Some(encoding.name().as_bytes())))
}

const fn coding_of(encoding: FileEncoding) -> ContentCoding {
    match encoding {
        FileEncoding::Brotli => ContentCoding::Brotli,
        FileEncoding::Zstd => ContentCoding::Zstd,
        FileEncoding::Gzip => ContentCoding::Gzip,
    }
}

fn content_range(range: Option<ByteRange>, len: u64) -> Vec<u8> {
    let mut value = b"bytes ".to_vec();
    match range {
        Some(range) => {
            digits::decimal(&mut value, range.start);
            value.push(b'-');
            digits::decimal(&mut value, range.end - 1);
        }
        None => value.push(b'*'),
    }
    value.push(b'/');
    digits::decimal(&mut value, len);
    value
}

fn multipart_type(boundary: u64) -> Vec<u8> {
    let mut value = b"multipart/byteranges; boundary=".to_vec();
    digits::hexadecimal(&mut value, boundary);
    value
}

/// What stands before a part (RFC 9110 section 14.6).
fn part_head(media_type: &[u8], range: ByteRange, len: u64, boundary: u64, is_first: bool) -> Vec<u8> {
    let mut head = if is_first { b"--".to_vec() } else { b"\r\n--".to_vec() };
    digits::hexadecimal(&mut head, boundary);
    head.extend_from_slice(b"\r\nContent-Type: ");
    head.extend_from_slice(media_type);
    head.extend_from_slice(b"\r\nContent-Range: ");
    head.extend_from_slice(&content_range(Some(range), len));
    head.extend_from_slice(b"\r\n\r\n");
    head
}

fn part_end(boundary: u64) -> Vec<u8> {
    let mut end = b"\r\n--".to_vec();
    digits::hexadecimal(&mut end, boundary);
    end.extend_from_slice(b"--\r\n");
    end
}
