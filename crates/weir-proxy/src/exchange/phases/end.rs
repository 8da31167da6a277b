//! How an exchange ended, for the connection that carries it.

use super::tunnel::Tunnelled;
use crate::exchange::exchange_state::exchange::Ended;

/// How an exchange ended, for its stream.
pub(crate) enum End {
    /// There was no request, or nothing can be answered: the connection closes.
    Closed,
    /// The response has been sent whole.
    Done,
    /// The response is not whole, and the client has to see that.
    CutShort,
    /// The client has failed, or an operator has ended the connection.
    Aborted,
    /// Raw bytes follow.
    Tunnel(Box<Tunnelled>),
}

/// What may end an exchange before a server has its request: the end, if it has come.
pub(crate) type EarlyEnd = Result<Option<End>, Ended>;
