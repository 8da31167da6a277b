//! The request of `weir explain`: written out as a client sends it, then read by the parser of the data path.

use std::cell::RefCell;
use std::net::IpAddr;

use weir_config::{Listener, Route, Template, WhenCondition};
use weir_http::http1::{HeadProgress, RequestParser};
use weir_http::{BadClientAddress, RequestHead, Rule, TargetForm, claimed_client_address};
use weir_proxy::state::snapshot::head_limits;
use weir_traffic::route::{RouteId, RouteRequest};

use super::url::Url;
use crate::error::CommandError;

/// A request, and what the parser says about it.
pub(super) struct ExplainedRequest {
    pub(super) method: String,
    pub(super) url: Url,
    /// The address of the peer.
    pub(super) from: IpAddr,
    /// The address of the client: the peer's, unless the peer is a trusted proxy that names another.
    client: Result<IpAddr, BadClientAddress>,
    /// The rule that the request breaks.
    pub(super) broken: Option<Rule>,
    head: RequestHead,
    text: Vec<u8>,
    /// Whether the listener speaks TLS.
    pub(super) is_tls: bool,
    /// Those of the routes of the listener.
    conditions: Vec<Option<WhenCondition>>,
    /// The variables of the routes of the listener.
    variables: Vec<VariableTexts>,
    /// Those of the route that is looked at.
    of_route: RefCell<VariableTexts>,
}

/// VariableTexts by name.
type VariableTexts = Vec<(Box<str>, Template)>;

impl ExplainedRequest {
    /// Writes the request and reads it with the limits of `listener`.
    ///
    /// # Errors
    /// When a header is not `Name: value`, or method or URL do not fit on a request line. Other offences against HTTP
    /// are what the explanation is about.
    pub(super) fn new(
        url: &Url,
        method: &str,
        headers: &[String],
        from: IpAddr,
        listener: &Listener,
    ) -> Result<Self, CommandError> {
        let usage = |what: String, help: &str| CommandError::Usage { what, help: Some(help.to_owned()) };
        for text in headers.iter().map(String::as_str).chain([method, &url.target, &url.authority]) {
            if text.contains(['\r', '\n']) {
                return Err(usage(
                    format!("{text:?} is more than one line"),
                    "a request cannot be written in it",
                ));
            }
        }
        if let Some(bad) = headers.iter().find(|header| !header.contains(':')) {
            return Err(usage(format!("`{bad}` is not a header"), "write -H 'Name: value'"));
        }
        let received = write_request(url, method, headers);
        let (mut parser, mut head) = (RequestParser::new(), RequestHead::new());
        let parsed = parser.parse(&mut head, &received, &head_limits(listener));
        let text = parser.text(&received).to_vec();
        let mut request = Self {
            method: method.to_owned(),
            url: url.clone(),
            from,
            client: Ok(from),
            broken: None,
            head,
            text,
            is_tls: listener.tls.is_some(),
            conditions: listener.routes.iter().map(|route| route.condition.clone()).collect(),
            variables: listener.routes.iter().map(|route| route.vars.clone()).collect(),
            of_route: RefCell::new(listener.vars.clone()),
        };
        match parsed {
            Ok(HeadProgress::Complete { .. }) => request.client = request.client_at(listener),
            Ok(HeadProgress::Incomplete) => unreachable!("a head with its empty line is complete or broken"),
            Err(rule) => request.broken = Some(rule),
        }
        Ok(request)
    }

    /// Gives it another target, as rewrites do.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn replace_target(&mut self, target: &[u8], listener: &Listener) -> Result<(), Rule> {
        self.head.replace_target(&mut self.text, target, &head_limits(listener))
    }

    /// Has variables stand for what they do on this route.
    pub(super) fn look_at(&self, route: &Route) {
        route.vars.clone_into(&mut self.of_route.borrow_mut());
    }

    /// What a variable stands for on the route that is looked at.
    pub(super) fn variable(&self, name: &str) -> Option<Template> {
        self.of_route.borrow().iter().find(|(known, _)| **known == *name).map(|(_, text)| text.clone())
    }

    pub(super) fn head(&self) -> &RequestHead {
        &self.head
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The form of the path on which routes are matched, where it came in another.
    pub(super) fn normal_path(&self) -> Option<String> {
        let is_other = self.broken.is_none() && !self.head.is_path_normal();
        is_other.then(|| lossy(self.head.normal_path(&self.text)))
    }

    /// As on the data path: by what a trusted proxy says.
    fn client_at(&self, listener: &Listener) -> Result<IpAddr, BadClientAddress> {
        let trusted = |ip| listener.trusted_proxies.contains(Some(ip));
        match listener.client_address_header.field().filter(|_| trusted(self.from)) {
            Some(field) => {
                let mut is_peer = true;
                let believed =
                    |ip| std::mem::take(&mut is_peer) || listener.client_address_recursive && trusted(ip);
                claimed_client_address(field, (self.head.fields(), &self.text), self.from, believed)
            }
            None => Ok(self.from),
        }
    }

    /// Whether a trusted proxy names the client in a way that cannot be read.
    pub(super) fn has_bad_client_address(&self) -> bool {
        self.client.is_err()
    }
}

impl RouteRequest for ExplainedRequest {
    fn host(&self) -> &[u8] {
        self.head.host().of(&self.text)
    }

    fn path(&self) -> &[u8] {
        match self.head.target_form() {
            // These name no path; the data path looks them up at the root.
            TargetForm::Asterisk | TargetForm::Authority => b"/",
            TargetForm::Origin | TargetForm::Absolute => self.head.normal_path(&self.text),
        }
    }

    fn query(&self) -> &[u8] {
        self.head.query().map_or(&[], |query| query.of(&self.text))
    }

    fn method(&self) -> &[u8] {
        self.head.method_span().of(&self.text)
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.fields().get_by_name(&self.text, name).map(|field| field.value.of(&self.text))
    }

    fn header_lines(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.head.fields().all_by_name(&self.text, name).map(|field| field.value.of(&self.text))
    }

    fn source(&self) -> IpAddr {
        self.client.unwrap_or(self.from)
    }

    fn condition_holds(&self, route: RouteId) -> bool {
        let condition = self.conditions.get(route.index()).and_then(Option::as_ref);
        if let Some(variables) = self.variables.get(route.index()) {
            variables.clone_into(&mut self.of_route.borrow_mut());
        }
        condition.is_some_and(|condition| condition.holds(self))
    }
}

fn write_request(url: &Url, method: &str, headers: &[String]) -> Vec<u8> {
    // CONNECT names host and port alone (RFC 9112 section 3.2.3).
    let target = if method == "CONNECT" { &url.authority } else { &url.target };
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    let names_host =
        |header: &String| header.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"));
    if !headers.iter().any(names_host) {
        text.push_str(&format!("Host: {}\r\n", url.authority));
    }
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// Bytes of a request as text to show.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
