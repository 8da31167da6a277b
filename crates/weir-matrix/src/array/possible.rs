//! Which combinations exist: what a protocol cannot say, and what would make two things happen at once whose outcome nothing determines.

use super::factors::{Body, Client, Event, Method, Server};
#[cfg(test)]
use super::factors::{Case, Feature};

/// The factors whose values exclude each other; all others are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) client: Client,
    pub(super) server: Server,
    pub(super) method: Method,
    pub(super) body: Body,
    pub(super) event: Event,
    pub(super) has_tls: bool,
}

/// All combinations of these factors that exist.
pub(super) fn all() -> Vec<Base> {
    let mut all = Vec::new();
    for &client in Client::ALL {
        for &server in Server::ALL {
            for &method in Method::ALL {
                for &body in Body::ALL {
                    for &event in Event::ALL {
                        for has_tls in [false, true] {
                            all.push(Base { client, server, method, body, event, has_tls });
                        }
                    }
                }
            }
        }
    }
    all.retain(|base| base.exists());
    all
}

impl Base {
    fn exists(&self) -> bool {
        self.servers_can() && self.client_can() && self.body_can() && self.event_can()
    }

    #[cfg(test)]
    pub(super) fn is_of(&self, case: &Case) -> bool {
        let own = (case.client, case.server, case.method, case.body, case.event);
        own == (self.client, self.server, self.method, self.body, self.event)
            && case.has(Feature::Tls) == self.has_tls
    }

    fn servers_can(&self) -> bool {
        match self.server {
            Server::H2 => self.has_tls,
            // Prior knowledge is without TLS, and so is FastCGI.
            Server::H2c | Server::Fastcgi => !self.has_tls,
            Server::Length | Server::Chunked | Server::Close => true,
        }
    }

    fn client_can(&self) -> bool {
        match self.client {
            // A call is a POST of one message, to a server of HTTP/2.
            Client::GrpcWeb => {
                let bodies =
                    [Body::None, Body::One, Body::Late, Body::Many, Body::Trailers, Body::Large, Body::Cut];
                self.method == Method::Post && self.server.is_h2() && bodies.contains(&self.body)
            }
            // What follows in the same write would be behind a request that is never complete.
            Client::Pipelined => {
                self.body != Body::Early && !(self.body == Body::Cut && self.method == Method::Post)
            }
            Client::Http1
            | Client::H2
            | Client::H2c
            | Client::H2Certificate
            | Client::H3
            | Client::H3Certificate
            | Client::Proxy => true,
        }
    }

    fn body_can(&self) -> bool {
        let has_trailers = self.server == Server::Chunked || self.server.is_h2();
        match (self.body, self.method) {
            (Body::Trailers, Method::Get) => has_trailers,
            (Body::Trailers | Body::Cut, Method::Head) => false,
            (Body::Early, _) => self.method == Method::Post,
            // With HTTP/1, bytes behind a request are the next request.
            (Body::BehindZero, Method::Post) => self.client.has_streams(),
            (Body::BehindNoContent | Body::BehindNotModified, Method::Post) => false,
            _ => true,
        }
    }

    fn event_can(&self) -> bool {
        let misbehaves = matches!(
            self.body,
            Body::Cut | Body::Early | Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified
        );
        let client_cuts =
            self.body == Body::Cut && self.method == Method::Post && self.client != Client::GrpcWeb;
        match self.event {
            Event::None => true,
            // One misbehaviour at a time: of the server, or of the client.
            Event::ServerKilled | Event::ServerResets => !misbehaves,
            Event::Reload
            | Event::Upgrade
            | Event::ClientGone
            | Event::LimitReached
            | Event::ConnectionsFull => {
                !(client_cuts || self.body == Body::BehindZero && self.method == Method::Post)
            }
        }
    }
}
