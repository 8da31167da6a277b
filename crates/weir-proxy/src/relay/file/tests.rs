//! Bodies from files: their order, both ways out, files that become shorter, and disks that are waited for.

use std::path::Path;
use std::task::Waker;

use super::*;
use crate::net::files::file::{FolderEntry, FolderRoot, LinkRule, MayWait};

fn opened(folder: &Path, content: &[u8]) -> DiskFile {
    std::fs::write(folder.join("file"), content).expect("the folder takes a file");
    let root = FolderRoot { path: folder, links: LinkRule::Never };
    match root.open(b"file", MayWait::Yes) {
        Ok(FolderEntry::File(file)) => file,
        other => panic!("no file: {other:?}"),
    }
}

fn range(start: u64, end: u64) -> BodyPiece {
    BodyPiece::Range(ByteRange { start, end })
}

/// Everything that comes out, taken in pieces of `step` bytes.
fn read(body: &mut FileBody<'_>, step: usize) -> Result<Vec<u8>, RelayError> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut all = Vec::new();
    while !body.is_finished() {
        body.decode()?;
        let data = body.data();
        if data.is_empty() {
            match body.poll_read(&mut cx) {
                Poll::Ready(outcome) => outcome?,
                Poll::Pending => panic!("what was just written is in memory"),
            }
            continue;
        }
        let len = data.len().min(step);
        all.extend_from_slice(&data[..len]);
        body.take(len);
    }
    Ok(all)
}

#[test]
fn parts_of_a_file_and_text_come_in_their_order() {
    let folder = tempfile::tempdir().expect("there is room");
    let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let file = opened(folder.path(), &content);
    let stock = BufferStock::new(16 * 1024);
    for step in [1000, 1 << 20] {
        let pieces = [
            range(0, 0),
            BodyPiece::Text(b"<".to_vec()),
            range(10, 100_000),
            BodyPiece::Text(b"|".to_vec()),
            BodyPiece::Text(Vec::new()),
            range(5, 6),
            BodyPiece::Text(b">".to_vec()),
        ];
        let mut body = FileBody::new(&file, &stock, pieces.into());
        let expected = [b"<", &content[10..100_000], b"|", &content[5..6], b">"].concat();
        assert_eq!(read(&mut body, step).unwrap(), expected);
    }
    assert!(FileBody::new(&file, &stock, [range(0, 0)].into()).is_finished());
}

#[test]
fn a_part_can_be_sent_by_the_kernel_as_long_as_nothing_was_read() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = opened(folder.path(), &[7; 100_000]);
    let stock = BufferStock::new(16 * 1024);
    let mut cx = Context::from_waker(Waker::noop());
    let pieces = [BodyPiece::Text(b"<".to_vec()), range(10, 100_000)];
    let mut body = FileBody::new(&file, &stock, pieces.into());
    assert!(body.file().is_none(), "text comes first");
    body.take(1);
    assert!(body.poll_resident(&mut cx).is_ready());
    assert_eq!(body.file().map(|slice| (slice.start, slice.len)), Some((10, 99_990)));
    body.skip(90_000);
    assert_eq!(body.file().map(|slice| (slice.start, slice.len)), Some((90_010, 9_990)));
    assert!(matches!(body.poll_read(&mut cx), Poll::Ready(Ok(()))));
    assert!(body.file().is_none(), "bytes that were read come first");
    assert_eq!(read(&mut body, 1 << 20).unwrap().len(), 9_990);
}

#[test]
fn a_file_that_has_become_shorter_ends_in_an_error() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = opened(folder.path(), &[7; 1000]);
    let stock = BufferStock::new(16 * 1024);
    std::fs::write(folder.path().join("file"), "short").expect("the folder takes a file");
    let mut body = FileBody::new(&file, &stock, [range(0, 1000)].into());
    assert!(matches!(read(&mut body, 100), Err(RelayError::Truncated)));
}

#[test]
fn what_is_not_in_memory_is_waited_for_on_another_thread() {
    let folder = tempfile::tempdir().expect("there is room");
    let content = [7; 300_000];
    let file = opened(folder.path(), &content);
    let stock = BufferStock::new(16 * 1024);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it can be made");
    runtime.block_on(async {
        let mut body = FileBody::new(&file, &stock, [range(0, 300_000)].into());
        // As if the kernel had said so.
        body.read_ahead(ByteRange { start: 0, end: 300_000 });
        std::future::poll_fn(|cx| body.poll_read(cx)).await.expect("the thread reads it");
        body.read_ahead(ByteRange { start: 0, end: 300_000 });
        std::future::poll_fn(|cx| body.poll_resident(cx)).await.expect("the thread reads it");
        assert_eq!(read(&mut body, 1 << 20).unwrap(), content);
    });
}
