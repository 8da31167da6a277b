//! Either side of a TLS connection, as rustls drives it without buffers of its own.
//!
//! The buffered connections of rustls keep 4 KiB for what they receive as long as they live, half of what an idle client costs. Here
//! what is received and what is to be sent stay with the caller: see `records`. Must not touch a socket.

use std::ops::Deref;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error};

use super::early_data::Skips;

/// Room for one alert and what may go before it.
const ALERT_MAX: usize = 256;

/// One TLS connection, without its bytes.
pub(crate) enum TlsSession {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// Where a session has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionProgress {
    /// A record of this many bytes waits in the session: see [`TlsSession::take_record`].
    Received(usize),
    /// The peer has said that it sends no more.
    PeerClosed,
    /// There is no whole record left in what was received.
    Incomplete,
}

impl TlsSession {
    /// Takes in what has arrived, up to the next bytes that are to be read; records for the peer are appended to `outgoing`. Counts the
    /// bytes of `wire` that are done with. Those of a message that has not wholly arrived stay, and are to be given again.
    pub(super) fn advance(
        &mut self,
        wire: &mut [u8],
        outgoing: &mut Vec<u8>,
        skips: &mut Skips,
    ) -> (usize, Result<SessionProgress, Error>) {
        let mut taken = 0;
        loop {
            let rest = &mut wire[taken..];
            let alone = if self.is_handshaking() { skips.alone(rest) } else { None };
            let given = alone.unwrap_or(rest.len());
            let (discard, progress) = match self {
                Self::Server(session) => step(session.process_tls_records(&mut rest[..given]), outgoing),
                Self::Client(session) => step(session.process_tls_records(&mut rest[..given]), outgoing),
            };
            taken += discard;
            let Some(progress) = progress.transpose() else { continue };
            match (&progress, alone) {
                (Ok(SessionProgress::Incomplete), Some(len)) => {
                    taken += skips.judge(&rest[..len], len - discard);
                    if taken == wire.len() {
                        return (taken, progress);
                    }
                }
                _ => return (taken, progress),
            }
        }
    }

    /// Appends the alert about an error to `outgoing`. A session must not be advanced after an error: it would find the same again, and
    /// send the alert twice.
    pub(super) fn queue_alert(&mut self, wire: &mut [u8], outgoing: &mut Vec<u8>) {
        // As long as there is something to send, nothing else is done.
        while self.wants_write() {
            let said = match self {
                Self::Server(session) => step(session.process_tls_records(wire), outgoing),
                Self::Client(session) => step(session.process_tls_records(wire), outgoing),
            };
            if !matches!(said, (_, Ok(None))) {
                return;
            }
        }
    }

    /// Takes the record out that [`SessionProgress::Received`] reported: as much of it as has room, and then the rest of it.
    pub(super) fn take_record(&mut self, space: &mut [u8], rest: impl FnOnce(&[u8])) -> usize {
        match self {
            Self::Server(session) => take(session.process_tls_records(&mut []), space, rest),
            Self::Client(session) => take(session.process_tls_records(&mut []), space, rest),
        }
    }

    /// Encrypts `plain` into `sealed`, after [`TlsSession::advance`] has found nothing more to read.
    pub(super) fn encrypt(
        &mut self,
        wire: &mut [u8],
        plain: &[u8],
        sealed: &mut [u8],
    ) -> Result<usize, Error> {
        match self {
            Self::Server(session) => encrypt(session.process_tls_records(wire), plain, sealed),
            Self::Client(session) => encrypt(session.process_tls_records(wire), plain, sealed),
        }
    }

    /// Appends `close_notify` to `outgoing`; under the same condition.
    pub(super) fn close_notify(&mut self, wire: &mut [u8], outgoing: &mut Vec<u8>) {
        match self {
            Self::Server(session) => close_notify(session.process_tls_records(wire), outgoing),
            Self::Client(session) => close_notify(session.process_tls_records(wire), outgoing),
        }
    }
}

impl Deref for TlsSession {
    type Target = CommonState;

    fn deref(&self) -> &CommonState {
        match self {
            Self::Server(session) => session,
            Self::Client(session) => session,
        }
    }
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Client(_) => "Client",
        })
    }
}

/// One state of rustls; `None` where it has more to do.
fn step<Data>(
    UnbufferedStatus { discard, state, .. }: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
) -> (usize, Result<Option<SessionProgress>, Error>) {
    let progress = match state {
        Err(error) => Err(error),
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            encode(&mut data, outgoing);
            Ok(None)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // From here on the caller sees to that.
            data.done();
            Ok(None)
        }
        Ok(ConnectionState::ReadTraffic(record)) => {
            Ok(Some(SessionProgress::Received(record.peek_len().map_or(0, usize::from))))
        }
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Some(SessionProgress::PeerClosed)),
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
            Ok(Some(SessionProgress::Incomplete))
        }
        // Early data, which no client is offered to send.
        Ok(_) => Err(Error::General("a state that cannot be".to_owned())),
    };
    (discard, progress)
}

fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) {
    let start = outgoing.len();
    // The first error contains the required size.
    while let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut outgoing[start..]) {
        outgoing.resize(start + size.required_size, 0);
    }
}

fn take<Data>(status: UnbufferedStatus<'_, '_, Data>, space: &mut [u8], rest: impl FnOnce(&[u8])) -> usize {
    let Ok(ConnectionState::ReadTraffic(mut traffic)) = status.state else { return 0 };
    let Some(Ok(record)) = traffic.next_record() else { return 0 };
    let len = record.payload.len().min(space.len());
    space[..len].copy_from_slice(&record.payload[..len]);
    if len < record.payload.len() {
        rest(&record.payload[len..]);
    }
    len
}

fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &[u8],
    sealed: &mut [u8],
) -> Result<usize, Error> {
    let ConnectionState::WriteTraffic(mut traffic) = status.state? else {
        return Err(Error::HandshakeNotComplete);
    };
    traffic.encrypt(plain, sealed).map_err(|error| match error {
        EncryptError::EncryptExhausted => Error::EncryptError,
        EncryptError::InsufficientSize(_) => Error::General(error.to_string()),
    })
}

fn close_notify<Data>(status: UnbufferedStatus<'_, '_, Data>, outgoing: &mut Vec<u8>) {
    // Before the handshake is over, the end of the connection has to do.
    let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else { return };
    let mut alert = [0; ALERT_MAX];
    if let Ok(len) = traffic.queue_close_notify(&mut alert) {
        outgoing.extend_from_slice(&alert[..len]);
    }
}
