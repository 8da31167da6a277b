//! A connection with HTTP/1.1 on it: one request after the other, driven by what waits for it.

use std::future::Future;
use std::pin::{Pin, pin};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use crate::client_error::ClientError;
use crate::connect::PeerStream;

/// The largest head of a response, as that of a server by default. As much of a body is read at once.
const HEAD_BYTES_MAX: usize = 32 * 1024;

type ConnectionDriver = Pin<Box<http1::Connection<TokioIo<PeerStream>, Full<Bytes>>>>;

/// A connection; dropped, it is closed.
pub(crate) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None`: it has ended.
    driver: Option<ConnectionDriver>,
}

impl HttpConnection {
    pub(crate) async fn begin(stream: PeerStream) -> Result<Self, ClientError> {
        let mut builder = http1::Builder::new();
        // Some peers know names of fields only as they are usually written.
        builder.title_case_headers(true).max_buf_size(HEAD_BYTES_MAX).max_header_size(HEAD_BYTES_MAX);
        let (sender, driver) = builder.handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    /// Whether it has not ended, as far as that is known.
    pub(crate) const fn is_open(&self) -> bool {
        self.driver.is_some()
    }

    /// Whether another request can be sent, after all that the peer has said meanwhile.
    pub(crate) async fn is_ready(&mut self) -> bool {
        let Self { sender, driver } = self;
        drive(driver, sender.ready()).await.is_ok()
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Incoming>, ClientError> {
        let Self { sender, driver } = self;
        Ok(drive(driver, sender.send_request(request)).await?)
    }

    /// Waits for `work`, which needs this connection to go on.
    pub(crate) async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        drive(&mut self.driver, work).await
    }
}

async fn drive<T>(driver: &mut Option<ConnectionDriver>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        // An error of the connection is also that of the request or the body that is waited for.
        if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
            *driver = None;
        }
        work.as_mut().poll(context)
    })
    .await
}
