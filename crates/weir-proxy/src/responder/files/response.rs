//! What of a file the client gets: the form that it accepts, the whole or parts, or that it has it already.

use std::collections::VecDeque;

use weir_http::{
    ByteRange, ConditionOutcome, FieldName, Fields, RangeSelection, Validators, digits, select_ranges,
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
    let mut best = (file, None, 0);
    for (encoding, form) in &file.beside {
        let coding = encoding.name().as_bytes();
        let quality = fields
            .all(FieldName::AcceptEncoding)
            .filter_map(|field| quality_of(field.value.of(text), coding))
            .max()
            .unwrap_or(0);
        if quality > best.2 {
            best = (form, Some(coding), quality);
        }
    }
    (best.0, best.1)
}

/// What an `Accept-Encoding` gives to a coding, in thousandths (RFC 9110 section 12.5.3); `None` when it does not name it.
fn quality_of(value: &[u8], coding: &[u8]) -> Option<u32> {
    let mut any = None;
    for part in value.split(|byte| *byte == b',') {
        let mut words = part.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = words.next().unwrap_or_default();
        let weight = words.find_map(|word| word.strip_prefix(b"q=").or_else(|| word.strip_prefix(b"Q=")));
        let quality = weight.map_or(1000, thousandths);
        if name.eq_ignore_ascii_case(coding) {
            return Some(quality);
        }
        if name == b"*" {
            any = Some(quality);
        }
    }
    any
}

/// A weight (RFC 9110 section 12.4.2); 0 when it is none.
fn thousandths(weight: &[u8]) -> u32 {
    let (whole, decimals) = match weight.split_first() {
        Some((whole @ (b'0' | b'1'), rest)) => {
            (u32::from(whole - b'0'), rest.strip_prefix(b".").unwrap_or(rest))
        }
        _ => return 0,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let mut digits = decimals.iter().map(|digit| u32::from(digit - b'0')).chain([0, 0, 0]);
    let decimals = (0..3).fold(0, |sum, _| sum * 10 + digits.next().unwrap_or(0));
    (whole * 1000 + decimals).min(1000)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_have_the_quality_that_the_client_gives_them() {
        for (value, coding, expected) in [
            ("gzip, br", "br", Some(1000)),
            ("gzip;q=0.5, br;q=0.8", "gzip", Some(500)),
            ("GZIP ; Q=0.25", "gzip", Some(250)),
            ("*;q=0.1, gzip;q=0", "gzip", Some(0)),
            ("*;q=0.1, gzip;q=0", "br", Some(100)),
            ("identity", "br", None),
            ("", "br", None),
            ("br;q=1.000", "br", Some(1000)),
            ("br;q=2", "br", Some(0)),
            ("br;q=0.1234", "br", Some(0)),
            ("br;q=x", "br", Some(0)),
            ("brr", "br", None),
        ] {
            assert_eq!(quality_of(value.as_bytes(), coding.as_bytes()), expected, "{value} {coding}");
        }
    }
}
