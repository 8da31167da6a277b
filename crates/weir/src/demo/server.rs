//! The servers of the demo: HTTP/1.1 on a port that the system chooses, each answer after a fixed delay.
//!
//! They live on one thread of their own, so that neither the load nor the proxy waits for them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use weir_http::http1::{HeadProgress, ParsedRequest};
use weir_http::{HeadLimits, Method};

/// One server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DemoServer {
    pub(super) name: &'static str,
    /// From the request to the answer.
    pub(super) delay: Duration,
}

/// The running servers; dropping them ends them.
pub(super) struct DemoServers {
    addresses: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DemoServers {
    /// Binds a port for each and starts to serve.
    pub(super) fn start(servers: &[DemoServer]) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut addresses = Vec::new();
        for &server in servers {
            let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
            addresses.push(listener.local_addr()?);
            runtime.spawn(accept(listener, server));
        }
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("demo-servers".into()).spawn(move || {
            // Either way it is over: a message, or the sender is gone.
            let _over = runtime.block_on(stopped);
        })?;
        Ok(Self { addresses, stop: Some(stop), thread: Some(thread) })
    }

    /// Where they are, in the order given.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for DemoServers {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, server: DemoServer) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, server));
            }
            // Out of files, say: the clients of the demo are few, so this passes.
            Err(_) => tokio::time::sleep(server.delay).await,
        }
    }
}

/// Answers requests until the connection ends or something is not understood.
async fn serve(mut stream: TcpStream, server: DemoServer) {
    let _last_answer_lost = stream.set_nodelay(true);
    let mut received = Vec::new();
    let mut head = ParsedRequest::new();
    while let Ok(true) = read_head(&mut stream, &mut received, &mut head).await {
        if head.expects_continue() && stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err() {
            return;
        }
        received.drain(..head.len());
        // To find the end of another body is the work of a proxy; a demo may close instead.
        let body = head.body().length();
        if let Some(len) = body
            && drop_body(&mut stream, &mut received, len).await.is_err()
        {
            return;
        }
        tokio::time::sleep(server.delay).await;
        let keep_alive = head.keep_alive() && body.is_some();
        let answer = answer(server, head.method(), keep_alive);
        if stream.write_all(&answer).await.is_err() || !keep_alive {
            return;
        }
        head.reset();
    }
}

/// Reads a head whole; `false` when the connection ends instead or it is no HTTP.
async fn read_head(
    stream: &mut TcpStream,
    received: &mut Vec<u8>,
    head: &mut ParsedRequest,
) -> io::Result<bool> {
    loop {
        match head.parse(received, &HeadLimits::default()) {
            Ok(HeadProgress::Complete { .. }) => return Ok(true),
            Ok(HeadProgress::Incomplete) => {}
            Err(_) => return Ok(false),
        }
        if stream.read_buf(received).await? == 0 {
            return Ok(false);
        }
    }
}

/// Takes `len` bytes of a body without keeping them.
async fn drop_body(stream: &mut TcpStream, received: &mut Vec<u8>, len: u64) -> io::Result<()> {
    let here = (received.len() as u64).min(len);
    received.drain(..here as usize);
    let mut left = len - here;
    let mut piece = vec![0; 16 * 1024];
    while left > 0 {
        let want = left.min(piece.len() as u64) as usize;
        match stream.read(&mut piece[..want]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => left -= read as u64,
        }
    }
    Ok(())
}

fn answer(server: DemoServer, method: Method, keep_alive: bool) -> Vec<u8> {
    let DemoServer { name, delay } = server;
    let body = format!("This is {name}, a server of the demo that answers after {} ms.\n", delay.as_millis());
    let connection = if keep_alive { "" } else { "Connection: close\r\n" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nServer: {name}\r\n{connection}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let body = if method == Method::Head { String::new() } else { body };
    (head + &body).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    const SERVER: DemoServer = DemoServer { name: "one", delay: Duration::from_millis(1) };

    fn exchanged(requests: &str) -> String {
        let servers = DemoServers::start(&[SERVER]).unwrap();
        let mut stream = std::net::TcpStream::connect(servers.addresses()[0]).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).unwrap();
        received
    }

    #[test]
    fn a_connection_serves_several_requests() {
        let first = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc";
        let received = exchanged(&format!(
            "{first}HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ));
        assert!(received.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{received}");
        assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 3, "{received}");
        assert_eq!(received.matches("This is one").count(), 2, "HEAD has no body: {received}");
    }

    #[test]
    fn what_has_no_known_end_ends_the_connection() {
        let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(exchanged(chunked).contains("Connection: close\r\n"));
        assert_eq!(exchanged("no http\r\n\r\n"), "");
    }
}
