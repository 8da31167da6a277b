//! How clients of HTTP/3 speak QUIC: one suite, one group, one certificate that they trust, and windows like those of browsers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use rustls::crypto::aws_lc_rs::cipher_suite;

use crate::load::TlsClient;

/// Bytes that a target may send on one stream, and on a connection, beyond what was read.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;

/// Streams of one direction that a target may open: control, and two of QPACK; some more are nothing to complain about.
const TARGET_STREAMS: u32 = 16;

/// See the module.
#[derive(Debug, Clone)]
pub struct Http3Setup {
    pub(super) client: ClientConfig,
    pub(super) endpoint: Arc<EndpointConfig>,
    /// The server name that the certificate must have.
    pub(super) name: String,
}

impl Http3Setup {
    /// Clients that speak TLS as `tls` says; a connection that hears nothing for `timeout` is over.
    ///
    /// # Errors
    /// When the suite is none of QUIC, or what the TLS library says.
    pub fn new(tls: &TlsClient, timeout: Duration) -> anyhow::Result<Self> {
        let mut config = rustls::ClientConfig::clone(&tls.config);
        config.alpn_protocols = vec![b"h3".to_vec()];
        // The first packets are encrypted with this suite, whatever the handshake comes to.
        let initial = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
        let initial = initial.context("the TLS library has no suite for QUIC")?;
        let config = QuicClientConfig::with_initial(Arc::new(config), initial)?;
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(VarInt::from_u32(TARGET_STREAMS))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .send_window(u64::from(CONNECTION_WINDOW))
            .datagram_receive_buffer_size(None)
            .max_idle_timeout(Some(IdleTimeout::try_from(timeout)?));
        let mut client = ClientConfig::new(Arc::new(config));
        client.transport_config(Arc::new(transport));
        let name = tls.name.to_str().into_owned();
        Ok(Self { client, endpoint: Arc::new(EndpointConfig::default()), name })
    }
}
