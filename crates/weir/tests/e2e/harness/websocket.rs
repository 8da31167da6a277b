//! An upgrade to WebSocket, as far as a proxy sees it: two heads, then bytes.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::BASE64;

use super::client::Client;
use super::message::Head;
use super::origin::{Connection, Origin, ok};
use super::stream::Address;

/// The request of a client.
pub(crate) const HANDSHAKE: &str = "GET /socket HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// The answer of a server that agrees.
pub(crate) const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A client with an open tunnel.
pub(crate) fn open_tunnel(to: impl Into<Address>) -> Client {
    let mut client = Client::connect(to);
    client.send(HANDSHAKE);
    let head = client.head();
    assert_eq!(head.status(), Ok(101), "{head:?}");
    assert_eq!(head.fields.one("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    client
}

/// The answer of a server that agrees to the request with this head, whose key it has read (RFC 6455 section 4.2.2).
pub(crate) fn switch_for(head: &Head) -> String {
    let key = head.fields.one("sec-websocket-key").expect("the request has a key");
    assert_eq!(BASE64.decode(key.as_bytes()).map(|key| key.len()), Ok(16), "the key {key:?}");
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = BASE64.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref());
    SWITCH.replace("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", &accept)
}

/// The server's side of a tunnel: agrees, then sends every byte back.
pub(crate) fn switch_and_return_bytes(conn: &mut Connection) -> Option<()> {
    conn.send(SWITCH)?;
    loop {
        let byte = conn.take(1)?;
        conn.send(byte)?;
    }
}

/// Panics unless a byte comes back through the tunnel.
pub(crate) fn assert_byte_comes_back(tunnel: &mut Client) {
    tunnel.send("x");
    assert_eq!(tunnel.take(1), b"x");
}

/// An origin that agrees to a WebSocket on `/socket` and then does `talk`; everything else is answered `plain`.
pub(crate) fn switching(talk: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static) -> Origin {
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target() == "/socket" {
                conn.send(switch_for(&request.head))?;
                return talk(conn);
            }
            conn.send(ok("plain"))?;
        }
    })
}
