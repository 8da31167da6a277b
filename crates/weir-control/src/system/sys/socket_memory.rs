//! What the kernel keeps for a socket of this process, asked by number.

use std::os::fd::RawFd;

/// The places of `SO_MEMINFO` (`sock_diag.h`): bytes that were received and not read, that are to be sent or acknowledged, and that are set aside.
const RECEIVED: usize = 0;
const FORWARD: usize = 4;
const QUEUED: usize = 5;

/// Bytes of the buffers of a socket (what is set aside may be below zero for a moment); `None`: there is no such descriptor, or it is no socket.
pub(crate) fn socket_memory(fd: RawFd) -> Option<u64> {
    let mut figures = [0_i32; 9];
    let mut size = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to a live array, and the size to a live socklen_t. It changes nothing at the descriptor,
    // which may be any number: one that is not open, or not a socket, is an error.
    let outcome = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, figures.as_mut_ptr().cast(), &raw mut size)
    };
    (outcome == 0).then(|| {
        [RECEIVED, FORWARD, QUEUED].iter().map(|place| u64::try_from(figures[*place]).unwrap_or(0)).sum()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn unread_bytes_are_counted_where_they_wait() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let before = [&sender, &receiver].map(|socket| socket_memory(socket.as_raw_fd()).unwrap());
        sender.write_all(&[0; 40_000]).unwrap();
        // All of it has arrived when its last byte can be looked at.
        while receiver.peek(&mut [0; 40_000]).unwrap() < 40_000 {}
        let after = [&sender, &receiver].map(|socket| socket_memory(socket.as_raw_fd()).unwrap());
        let grown = after.iter().sum::<u64>() - before.iter().sum::<u64>();
        assert!((40_000..400_000).contains(&grown), "{before:?} {after:?}");
        assert_eq!(socket_memory(-1), None);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(socket_memory(file.as_raw_fd()), None, "it is no socket");
    }
}
