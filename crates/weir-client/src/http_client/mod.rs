//! Requests to one destination, over one connection that is kept between them. Responses come whole or piece by piece.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderValue, Method, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use crate::client_error::ClientError;
use crate::connect;
use crate::connection::HttpConnection;
use crate::destination::HttpDestination;

/// A client of one destination.
pub struct HttpClient {
    destination: HttpDestination,
    /// How long a connection and its handshake may take.
    connect_time: Duration,
    connection: Option<HttpConnection>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("address", &self.destination.address).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// A client without a connection yet.
    pub fn new(destination: HttpDestination, connect_time: Duration) -> Self {
        Self { destination, connect_time, connection: None }
    }

    /// Sends a request and waits for the head of its response, `wait` from when it is connected; on a kept connection that has died meanwhile, once more on a
    /// new one.
    ///
    /// The target is path and query of its URL. The client writes `Host` unless it is there, and `Content-Length` of a request that may have a body.
    ///
    /// # Errors
    /// When there is no connection, or no response on it in time.
    pub async fn send(
        &mut self,
        request: &http::Request<Bytes>,
        wait: Duration,
    ) -> Result<ClientResponse<'_>, ClientError> {
        if let Some(mut connection) = self.connection.take() {
            let sending = async {
                match connection.is_ready().await {
                    true => connection.send(self.prepared(request)?).await,
                    false => Err(ClientError::Broken(std::io::ErrorKind::NotConnected.into())),
                }
            };
            match tokio::time::timeout(wait, sending).await {
                Ok(Ok(response)) => return Ok(ClientResponse::new(self, response, connection)),
                Ok(Err(_has_died)) => {}
                Err(_) => return Err(ClientError::TimedOut),
            }
        }
        let stream = connect::open(&self.destination, self.connect_time).await?;
        let mut connection = HttpConnection::begin(stream).await?;
        let sending = connection.send(self.prepared(request)?);
        let sent = tokio::time::timeout(wait, sending).await.map_err(|_| ClientError::TimedOut)?;
        Ok(ClientResponse::new(self, sent?, connection))
    }

    fn prepared(&self, request: &http::Request<Bytes>) -> Result<http::Request<Full<Bytes>>, ClientError> {
        let unusable = |_| ClientError::Broken(std::io::ErrorKind::InvalidInput.into());
        let mut prepared = request.clone().map(Full::new);
        let target = request.uri().path_and_query().cloned();
        *prepared.uri_mut() = target.map_or_else(|| Uri::from_static("/"), Uri::from);
        if !request.headers().contains_key(HOST) {
            let host = HeaderValue::from_str(&self.destination.authority).map_err(unusable)?;
            prepared.headers_mut().insert(HOST, host);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            prepared.headers_mut().insert(CONTENT_LENGTH, request.body().len().into());
        }
        Ok(prepared)
    }
}

/// A response whose body comes. Dropped before its end, the connection goes with it.
pub struct ClientResponse<'a> {
    client: &'a mut HttpClient,
    /// Status and fields.
    pub head: http::response::Parts,
    body: Incoming,
    connection: HttpConnection,
}

impl<'a> ClientResponse<'a> {
    fn new(
        client: &'a mut HttpClient,
        response: http::Response<Incoming>,
        connection: HttpConnection,
    ) -> Self {
        let (head, body) = response.into_parts();
        Self { client, head, body, connection }
    }

    /// Appends the next piece; `false` at the end of the body. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// When the body is broken off or malformed.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, ClientError> {
        while let Some(frame) = self.connection.drive(self.body.frame()).await {
            if let Ok(data) = frame?.into_data() {
                out.extend_from_slice(&data);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The whole body; the connection is kept for the next request.
    ///
    /// # Errors
    /// When the body is longer than `bytes_max`, or not whole in time.
    pub async fn whole(
        mut self,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<http::Response<Vec<u8>>, ClientError> {
        let mut body = Vec::new();
        let reading = async {
            while self.read(&mut body).await? {
                if body.len() > bytes_max {
                    return Err(ClientError::TooLong);
                }
            }
            Ok(())
        };
        tokio::time::timeout(wait, reading).await.map_err(|_| ClientError::TimedOut)??;
        // A connection that ends here ends as its protocol wants it.
        self.connection.drive(std::future::ready(())).await;
        self.client.connection = self.connection.is_open().then_some(self.connection);
        Ok(http::Response::from_parts(self.head, body))
    }
}

#[cfg(test)]
mod tests;
