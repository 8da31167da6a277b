//! The conversations of probes, protocol by protocol: pure, from the bytes received to the next step.
//!
//! Each ends as a client ends that is done, so that the server logs no more than for any
//! client.

use memchr::memmem;
use weir_config::Dialogue;

/// The meaning of the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// More has to come.
    Incomplete,
    /// The first `consumed` bytes are answered with `bytes`, if any.
    Reply { consumed: usize, bytes: Vec<u8> },
    /// The server is well; `quit` is said before the end.
    Passed { quit: Vec<u8> },
    /// This is not the answer of a server that is well.
    Wrong,
}

/// `GSSENCRequest` of PostgreSQL: whether the server encrypts by GSSAPI. Unlike `SSLRequest`, leaving after the answer is logged by no
/// server (measured with PostgreSQL 15 and `ssl = on`).
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

/// `StartupMessage` of protocol 3.0.
const POSTGRESQL_VERSION: [u8; 4] = [0, 3, 0, 0];

/// `Terminate` of PostgreSQL.
const TERMINATE: &[u8] = b"X\x00\x00\x00\x04";

/// The name is what a client without one says.
const EHLO: &[u8] = b"EHLO localhost\r\n";

/// `COM_QUIT` of MySQL.
const COM_QUIT: &[u8] = b"\x01\x00\x00\x00\x01";

/// The capabilities of the probe as a client of MySQL: long passwords, protocol 4.1, its authentication, and authentication by plugin.
const CAPABILITIES: u32 = 0x1 | 0x200 | 0x8000 | 0x8_0000;

/// The plugin whose empty answer means that there is no password.
const NATIVE_PASSWORD: &[u8] = b"mysql_native_password\0";

/// The first bytes that the probe sends; empty where the server speaks first.
pub(super) fn opening(dialogue: &Dialogue) -> Vec<u8> {
    match dialogue {
        Dialogue::Script { send, .. } => send.to_vec(),
        Dialogue::Redis => b"PING\r\n".to_vec(),
        Dialogue::Postgresql { user: None } => GSS_REQUEST.to_vec(),
        Dialogue::Postgresql { user: Some(user) } => postgresql_startup(user),
        Dialogue::Mysql { .. } | Dialogue::Smtp => Vec::new(),
    }
}

/// The verdict on all that was received and not consumed.
pub(super) fn judge(dialogue: &Dialogue, received: &[u8]) -> Judgement {
    match dialogue {
        Dialogue::Script { expect, quit, .. } => match memmem::find(received, expect) {
            Some(_) => Judgement::Passed { quit: quit.to_vec() },
            None => Judgement::Incomplete,
        },
        Dialogue::Redis => redis(received),
        Dialogue::Postgresql { user } => postgresql(received, user.is_some()),
        Dialogue::Mysql { user } => mysql(received, user),
        Dialogue::Smtp => smtp(received),
    }
}

fn passed(quit: &[u8]) -> Judgement {
    Judgement::Passed { quit: quit.to_vec() }
}

/// One that wants a password, or does not let this user ask, is there all the same.
fn redis(received: &[u8]) -> Judgement {
    match memmem::find(received, b"\r\n") {
        None => Judgement::Incomplete,
        Some(end) => {
            let line = &received[..end];
            let is_well = line == b"+PONG" || line.starts_with(b"-NOAUTH") || line.starts_with(b"-NOPERM");
            if is_well { passed(b"QUIT\r\n") } else { Judgement::Wrong }
        }
    }
}

/// The greeting is answered with EHLO, and the answer to that with QUIT: a server that is only asked for its greeting logs a client that left
/// (RFC 5321 sections 3.1 to 3.3).
fn smtp(received: &[u8]) -> Judgement {
    match reply_of_smtp(received) {
        None => Judgement::Incomplete,
        Some((b"220", consumed)) => Judgement::Reply { consumed, bytes: EHLO.to_vec() },
        Some((b"250", _)) => passed(b"QUIT\r\n"),
        Some(_) => Judgement::Wrong,
    }
}

/// The code of a reply and its length: one of several lines has a hyphen behind the code of all but the last (section 4.2.1).
fn reply_of_smtp(received: &[u8]) -> Option<(&[u8], usize)> {
    let code = received.get(..3).unwrap_or(received);
    let mut consumed = 0;
    loop {
        let line = &received[consumed..];
        let end = memmem::find(line, b"\r\n")?;
        consumed += end + 2;
        match line[..end].split_at_checked(3) {
            Some((same, [b'-', ..])) if same == code => {}
            Some((same, [] | [b' ', ..])) if same == code => return Some((code, consumed)),
            _ => return Some((b"", consumed)),
        }
    }
}

fn postgresql_startup(user: &str) -> Vec<u8> {
    let mut body = POSTGRESQL_VERSION.to_vec();
    for text in ["user", user, "application_name", "weir-health"] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    let len = u32::try_from(body.len() + 4).expect("the name of a user is short");
    [&len.to_be_bytes()[..], &body].concat()
}

/// The answer to the question about encryption is one byte; that to a login a message, `R` where the login proceeds.
fn postgresql(received: &[u8], logs_in: bool) -> Judgement {
    match (received, logs_in) {
        ([], _) => Judgement::Incomplete,
        ([b'N' | b'G' | b'S', ..], false) => passed(b""),
        ([b'R', ..], true) => match received.get(5..9) {
            None => Judgement::Incomplete,
            // It is in, and leaves again. Before a password is given, leaving is closing.
            Some([0, 0, 0, 0]) => passed(TERMINATE),
            Some(_) => passed(b""),
        },
        _ => Judgement::Wrong,
    }
}

/// Packets: three bytes of length, a sequence number, the payload.
fn mysql(received: &[u8], user: &str) -> Judgement {
    let Some((&[a, b, c, sequence], pause_)) = received.split_first_chunk::<4>() else {
        return Judgement::Incomplete;
    };
    let len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
    let Some(payload) = pause_.get(..len) else { return Judgement::Incomplete };
    let reply = |bytes: Vec<u8>| Judgement::Reply { consumed: 4 + len, bytes };
    match (sequence, payload) {
        // The greeting, of protocol 10.
        (0, [10, ..]) => reply(packet(1, &mysql_login(user))),
        (0, _) => Judgement::Wrong,
        (_, [0, ..]) => passed(COM_QUIT),
        // Another plugin is requested: an empty password is one NUL, with the native one nothing.
        (_, [0xfe, plugin @ ..]) => {
            let empty: &[u8] = if plugin.starts_with(NATIVE_PASSWORD) { b"" } else { b"\0" };
            reply(packet(sequence.wrapping_add(1), empty))
        }
        // More of the handshake that needs no answer.
        (_, [1, ..]) => reply(Vec::new()),
        _ => Judgement::Wrong,
    }
}

fn mysql_login(user: &str) -> Vec<u8> {
    let mut body = CAPABILITIES.to_le_bytes().to_vec();
    body.extend_from_slice(&0x00ff_ffff_u32.to_le_bytes());
    // utf8mb4_general_ci, then nothing.
    body.push(45);
    body.extend_from_slice(&[0; 23]);
    body.extend_from_slice(user.as_bytes());
    // The end of the name, and an answer of no bytes.
    body.extend_from_slice(&[0, 0]);
    body.extend_from_slice(NATIVE_PASSWORD);
    body
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a login is short").to_le_bytes();
    [&len[..3], &[sequence], payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_decide_once_they_are_whole() {
        let quit = || passed(b"QUIT\r\n");
        for (received, expected) in [
            (&b""[..], Judgement::Incomplete),
            (b"+PON", Judgement::Incomplete),
            (b"+PONG\r\n", quit()),
            (b"-NOAUTH Authentication required.\r\n", quit()),
            (b"-LOADING Redis is loading the dataset in memory\r\n", Judgement::Wrong),
            (b"-DENIED Redis is running in protected mode\r\n", Judgement::Wrong),
            (b"HTTP/1.1 400 Bad Request\r\n", Judgement::Wrong),
        ] {
            assert_eq!(judge(&Dialogue::Redis, received), expected, "{}", received.escape_ascii());
        }
        let ehlo = |consumed| Judgement::Reply { consumed, bytes: EHLO.to_vec() };
        for (received, expected) in [
            (&b""[..], Judgement::Incomplete),
            (b"220 mail", Judgement::Incomplete),
            (b"220-mail\r\n", Judgement::Incomplete),
            (b"220-mail\r\n220 ESMTP\r\n", ehlo(21)),
            (b"220\r\n", ehlo(5)),
            (b"250-mail\r\n250-SIZE 100\r\n", Judgement::Incomplete),
            (b"250-mail\r\n250 SIZE 100\r\n", quit()),
            (b"554 no\r\n", Judgement::Wrong),
            (b"502 no EHLO\r\n", Judgement::Wrong),
            (b"22\r\n", Judgement::Wrong),
            (b"2200\r\n", Judgement::Wrong),
            (b"220-mail\r\n421 busy\r\n", Judgement::Wrong),
        ] {
            assert_eq!(judge(&Dialogue::Smtp, received), expected, "{}", received.escape_ascii());
        }
    }

    #[test]
    fn postgresql_is_asked_or_logged_in_to() {
        let asked = Dialogue::Postgresql { user: None };
        assert_eq!(opening(&asked), GSS_REQUEST);
        for answer in [b"N", b"G", b"S"] {
            assert_eq!(judge(&asked, answer), passed(b""));
        }
        assert_eq!(judge(&asked, b"E\0\0\0\x20SFATAL\0"), Judgement::Wrong);
        let login = Dialogue::Postgresql { user: Some("weir".into()) };
        assert_eq!(opening(&login), b"\0\0\0\x30\0\x03\0\0user\0weir\0application_name\0weir-health\0\0");
        assert_eq!(judge(&login, b"R\0\0\0\x08\0\0"), Judgement::Incomplete);
        assert_eq!(judge(&login, b"R\0\0\0\x08\0\0\0\0"), passed(TERMINATE));
        assert_eq!(judge(&login, b"R\0\0\0\x17\0\0\0\x0aSCRAM"), passed(b""));
        assert_eq!(judge(&login, b"E\0\0\0\x20SFATAL\0"), Judgement::Wrong);
    }

    #[test]
    fn mysql_is_logged_in_to_with_whatever_plugin() {
        let dialogue = Dialogue::Mysql { user: "weir".into() };
        let greeting = packet(0, b"\x0a8.0.36\0rest of it");
        assert_eq!(judge(&dialogue, &greeting[..greeting.len() - 1]), Judgement::Incomplete);
        let Judgement::Reply { consumed, bytes } = judge(&dialogue, &greeting) else { panic!("a login") };
        assert_eq!((consumed, bytes[3]), (greeting.len(), 1));
        assert_eq!(bytes[4..8], CAPABILITIES.to_le_bytes());
        assert!(bytes[36..].starts_with(b"weir\0\0mysql_native_password\0"), "{}", bytes.escape_ascii());
        let reply = |answer: &[u8]| judge(&dialogue, &packet(2, answer));
        assert_eq!(reply(b"\0\0\0\x02\0\0\0"), passed(COM_QUIT));
        let switched =
            |bytes: &[u8], len: usize| Judgement::Reply { consumed: 4 + len, bytes: packet(3, bytes) };
        assert_eq!(reply(b"\xfemysql_native_password\0salt"), switched(b"", 27));
        assert_eq!(reply(b"\xfecaching_sha2_password\0salt"), switched(b"\0", 27));
        assert_eq!(reply(b"\x01\x03"), Judgement::Reply { consumed: 6, bytes: Vec::new() });
        assert_eq!(reply(b"\xff\x15\x04denied"), Judgement::Wrong);
        assert_eq!(judge(&dialogue, &packet(0, b"\xff\x69\x04Host is not allowed")), Judgement::Wrong);
    }
}
