//! Parts of a representation: status, body and fields for what `Range` selects (RFC 9110 section 14).

use std::collections::VecDeque;

use weir_http::{ByteRange, RangeSelection, digits};

use crate::relay::file::BodyPiece;

/// What of a representation is sent.
#[derive(Debug)]
pub(crate) enum RangeBody {
    /// The body of the head.
    None,
    Whole,
    /// So many bytes in all.
    Parts(VecDeque<BodyPiece>, u64),
}

/// Status, body, and the value of `Content-Range`.
pub(crate) fn select(
    len: u64,
    media_type: &[u8],
    ranges: &RangeSelection,
    boundary: u64,
) -> (u16, RangeBody, Option<Vec<u8>>) {
    match ranges {
        RangeSelection::Whole => (200, RangeBody::Whole, None),
        RangeSelection::One(range) => {
            let body = RangeBody::Parts([BodyPiece::Range(*range)].into(), range.len());
            (206, body, Some(content_range(Some(*range), len)))
        }
        RangeSelection::Several(ranges) => {
            let mut pieces = VecDeque::new();
            let mut sent = 0;
            for range in ranges {
                let head = part_head(media_type, *range, len, boundary, pieces.is_empty());
                sent += head.len() as u64 + range.len();
                pieces.extend([BodyPiece::Text(head), BodyPiece::Range(*range)]);
            }
            let end = part_end(boundary);
            sent += end.len() as u64;
            pieces.push_back(BodyPiece::Text(end));
            (206, RangeBody::Parts(pieces, sent), None)
        }
        RangeSelection::Unsatisfiable => (416, RangeBody::None, Some(content_range(None, len))),
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

pub(crate) fn multipart_type(boundary: u64) -> Vec<u8> {
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
