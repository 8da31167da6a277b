//! Bytes arrive in pieces of any size: what is seen and written does not depend on it.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

use super::wire::*;
use crate::h2::connection::ConnectionLimits;
use crate::h2::fault::ConnectionFault;
use crate::h2::frame::PREFACE;
use crate::h2::settings::Settings;
use crate::multiplexed::role::Role;

/// Frames as a client sends them, and now and then one that it must not send.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = || select(&[1_u32, 1, 3, 3, 5, 7, 2, 0][..]);
    let payload = |max: usize| vec(any::<u8>(), 0..max);
    let flags = || prop_oneof![3 => Just(0_u8), 3 => Just(END_STREAM), 1 => any::<u8>()];
    let padded = (stream(), payload(40), 0_u8..20).prop_map(|(stream, data, padding)| {
        frame(DATA, PADDED, stream, &[&[padding][..], &data, &vec![0; padding.into()]].concat())
    });
    let divided = (stream(), flags(), vec(payload(30), 1..5)).prop_map(|(stream, flags, fragments)| {
        let mut bytes = frame(HEADERS, flags & END_STREAM, stream, &fragments[0]);
        for fragment in &fragments[1..] {
            bytes.extend(frame(CONTINUATION, 0, stream, fragment));
        }
        bytes.extend(frame(CONTINUATION, END_HEADERS, stream, b"\x82"));
        bytes
    });
    prop_oneof![
        8 => (stream(), flags()).prop_map(|(stream, flags)| frame(HEADERS, flags | END_HEADERS, stream, b"\x82")),
        8 => (stream(), flags(), payload(300)).prop_map(|(stream, flags, data)| frame(DATA, flags, stream, &data)),
        3 => padded,
        3 => divided,
        1 => (stream(), any::<u32>()).prop_map(|(stream, code)| reset(stream, code)),
        2 => (stream(), 0_u32..100).prop_map(|(stream, by)| window_update(stream, by)),
        1 => vec((0_u16..10, 0_u32..20_000), 0..3).prop_map(|values| settings(&values)),
        1 => Just(ping()),
        1 => (stream(), payload(20)).prop_map(|(stream, value)| {
            frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], &value].concat())
        }),
        1 => (any::<u8>(), any::<u8>(), stream(), payload(20))
            .prop_map(|(number, flags, stream, payload)| frame(number, flags, stream, &payload)),
    ]
}

/// What a server sees of `pieces`, what it writes, and the fault that ends it.
fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Seen>, Vec<u8>, Option<ConnectionFault>) {
    // Small windows are exceeded often.
    let local = Settings { initial_window_size: 600, max_concurrent_streams: 3, ..Settings::default() };
    let mut server =
        End::limited(Role::Server, local, ConnectionLimits { block_bytes_max: 100, held_bytes_max: 500 });
    let mut seen = Vec::new();
    let fault = pieces.into_iter().find_map(|piece| server.receive_into(piece, &mut seen).err());
    (seen, server.out, fault)
}

proptest! {
    #[test]
    fn pieces_change_nothing(
        frames in vec(any_frame(), 0..30),
        mutations in vec((any::<u16>(), any::<u8>()), 0..2),
        cuts in vec(any::<u16>(), 0..10),
    ) {
        let start = [&PREFACE[..], &settings(&[]), &frame(SETTINGS, ACK, 0, b"")].concat();
        let mut bytes = [start, frames.concat()].concat();
        for (at, byte) in mutations {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let whole = run([&bytes[..]]);
        prop_assert_eq!(&run(bytes.chunks(1)), &whole);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % bytes.len()).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        prop_assert_eq!(&run(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]])), &whole);
    }
}

#[test]
fn all_that_is_used_needs_no_more_room_than_a_frame() {
    let mut server = End::ready(Role::Server);
    server.receive(&head(1));
    // Bodies and what is skipped are taken as they come.
    for (bytes, kept) in [(data(1, 16_384), 0), (frame(99, 0, 0, &[0; 16_384]), 0), (ping(), 12)] {
        let mut used = 0;
        let mut out = Vec::new();
        let short = bytes.len() - 5;
        loop {
            let received = server.connection.receive(&bytes[used..short], 0, &mut out).unwrap();
            used += received.used;
            if received.event.is_none() {
                break;
            }
        }
        assert_eq!(short - used, kept);
        server.connection.receive(&bytes[used..], 0, &mut out).unwrap();
    }
}
