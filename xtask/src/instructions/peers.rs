//! A client and a server as plain as can be, for Weir to stand between: one connection each, one exchange at a time.
//!
//! Both check what they receive, so a count cannot come from exchanges that went wrong. They know of HTTP no more than
//! where a head ends and how long the bodies are.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// Valgrind slows Weir down fifty times; a peer that is silent for this long has gone wrong.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What one exchange carries.
pub(super) struct ExchangeShape {
    /// The head, with a Content-Length that fits.
    pub(super) request: &'static [u8],
    pub(super) request_body_bytes: usize,
    pub(super) response_body_bytes: usize,
}

/// Starts a server that answers `traffic` on every connection until the client closes it, and returns its address.
pub(super) fn start_server(traffic: &'static ExchangeShape) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // One that ends in the middle of a request shows on the client's side.
            thread::spawn(move || serve(stream, traffic));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream, traffic: &ExchangeShape) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let len = traffic.response_body_bytes;
    let mut response =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len}\r\n\r\n").into_bytes();
    response.resize(response.len() + len, b'w');
    let mut received = Vec::new();
    while receive(&mut stream, &mut received, traffic.request_body_bytes)?.is_some() {
        stream.write_all(&response)?;
    }
    Ok(())
}

/// Does `exchanges` exchanges over one connection to `address`.
pub(super) fn exchange(address: SocketAddr, traffic: &ExchangeShape, exchanges: u64) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut request = traffic.request.to_vec();
    request.resize(request.len() + traffic.request_body_bytes, b'w');
    let mut received = Vec::new();
    for number in 1..=exchanges {
        stream.write_all(&request)?;
        let head = receive(&mut stream, &mut received, traffic.response_body_bytes)
            .with_context(|| format!("no response to exchange {number}"))?;
        match head {
            Some(head) if head.starts_with(b"HTTP/1.1 200 ") => {}
            Some(head) => bail!("exchange {number} was answered {}", String::from_utf8_lossy(&head)),
            None => bail!("the connection was closed at exchange {number}"),
        }
    }
    Ok(())
}

/// Reads one message with a body of `body_bytes` and returns its head; `None` when the peer closed instead.
fn receive(
    stream: &mut impl Read,
    received: &mut Vec<u8>,
    body_bytes: usize,
) -> anyhow::Result<Option<Vec<u8>>> {
    received.clear();
    let mut buf = [0; 16 * 1024];
    loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            let len = end + 4 + body_bytes;
            ensure!(received.len() <= len, "{} bytes too many", received.len() - len);
            if received.len() == len {
                return Ok(Some(received[..end].to_vec()));
            }
        }
        match stream.read(&mut buf)? {
            0 if received.is_empty() => return Ok(None),
            0 => bail!("closed after {} bytes of a message", received.len()),
            len => received.extend_from_slice(&buf[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAFFIC: ExchangeShape = ExchangeShape {
        request: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        request_body_bytes: 5,
        response_body_bytes: 20_000,
    };

    #[test]
    fn client_and_server_understand_each_other() {
        let address = start_server(&TRAFFIC).unwrap();
        exchange(address, &TRAFFIC, 3).unwrap();
        exchange(address, &TRAFFIC, 1).unwrap();
    }

    #[test]
    fn what_is_not_the_expected_answer_is_an_error() {
        let mut received = Vec::new();
        let mut read = |mut bytes: &[u8]| receive(&mut bytes, &mut received, 2);
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n\r\nab").unwrap().as_deref(), Some(&b"HTTP/1.1 200 OK"[..]));
        assert_eq!(read(b"").unwrap(), None);
        assert_eq!(
            read(b"HTTP/1.1 200 OK\r\n\r\na").unwrap_err().to_string(),
            "closed after 20 bytes of a message"
        );
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n\r\nabc").unwrap_err().to_string(), "1 bytes too many");
    }

    #[test]
    fn a_refusal_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            receive(&mut stream, &mut Vec::new(), 0).unwrap();
            stream.write_all(b"HTTP/1.1 503 No\r\n\r\n").unwrap();
        });
        let traffic = ExchangeShape {
            request: b"GET / HTTP/1.1\r\n\r\n",
            request_body_bytes: 0,
            response_body_bytes: 0,
        };
        let error = exchange(address, &traffic, 1).unwrap_err().to_string();
        assert_eq!(error, "exchange 1 was answered HTTP/1.1 503 No");
        server.join().unwrap();
    }
}
