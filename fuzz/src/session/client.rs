//! The client: sends bytes as they are, ends its direction, and takes in everything until the other end.

use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::task::yield_now;

use crate::pieces::pieces;

/// Sends `bytes` on a new connection and gives all that comes back.
///
/// # Panics
/// When the connection is refused.
pub(crate) async fn exchange(web: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(web).await.expect("Weir accepts connections");
    let (reader, writer) = stream.split();
    let ((), received) = tokio::join!(send(writer, bytes), receive(reader));
    received
}

/// A failed write is no failure: Weir may have heard enough.
async fn send(mut writer: WriteHalf<'_>, bytes: &[u8]) {
    for piece in pieces(bytes) {
        if writer.write_all(piece).await.is_err() {
            return;
        }
        yield_now().await;
    }
    let _closed_already = writer.shutdown().await;
}

/// A reset ends the stream like a close: it only tells that Weir left bytes unread.
async fn receive(mut reader: ReadHalf<'_>) -> Vec<u8> {
    let mut received = Vec::with_capacity(4096);
    while let Ok(1..) = reader.read_buf(&mut received).await {}
    received
}
