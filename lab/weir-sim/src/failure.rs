//! How a request can fail: the words are the reason codes of Weir, and one for errors that servers answer.

/// Why a request was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SimFailure {
    /// No server may be chosen at all.
    NoServer,
    /// All slots are taken and the queue has no places.
    AllServersFull,
    /// All places in the queue are taken.
    QueueFull,
    /// A request with precedence took its place in the queue.
    QueueEvicted,
    /// It waited longer than the delay target under lasting overload.
    QueueOverload,
    /// It waited as long as one may.
    QueueTimeout,
    /// The server refused the connection.
    ConnectRefused,
    /// The server broke the connection.
    ResponseReset,
    /// The server did not answer in time.
    ResponseTimeout,
    /// The server answered an error, which the client gets.
    ServerError,
    /// The client left.
    ClientClosed,
}

impl SimFailure {
    /// All of them, in the order of the flow.
    pub(crate) const ALL: [Self; 11] = [
        Self::NoServer,
        Self::AllServersFull,
        Self::QueueFull,
        Self::QueueEvicted,
        Self::QueueOverload,
        Self::QueueTimeout,
        Self::ConnectRefused,
        Self::ResponseReset,
        Self::ResponseTimeout,
        Self::ServerError,
        Self::ClientClosed,
    ];

    /// The reason code, as in the log of Weir.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::NoServer => "no-server",
            Self::AllServersFull => "all-servers-full",
            Self::QueueFull => "queue-full",
            Self::QueueEvicted => "queue-evicted",
            Self::QueueOverload => "queue-overload",
            Self::QueueTimeout => "queue-timeout",
            Self::ConnectRefused => "connect-refused",
            Self::ResponseReset => "response-reset",
            Self::ResponseTimeout => "response-timeout",
            Self::ServerError => "server-error",
            Self::ClientClosed => "client-closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SimFailure;

    #[test]
    fn the_words_are_those_of_the_product() {
        let failures = include_str!("../../../docs/failures.md");
        // An error of a server passes through Weir: it is no failure of its own.
        for failure in SimFailure::ALL.into_iter().filter(|failure| *failure != SimFailure::ServerError) {
            assert!(failures.contains(&format!("### {}\n", failure.code())), "{}", failure.code());
        }
    }
}
