//! Whole sessions with a hostile server: the client of Weir gets one well-formed response to each request, the one that
//! `hyper` reads from the server's own bytes, or 502, or a response that is visibly cut off.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::heads::in_known_versions;
use crate::session::{
    AnsweredMethod, HyperResponse, ReadReplies, ReadReply, Rig, assert_exact_replies, exchange, play,
    read_replies, read_response,
};

/// Every so many inputs, a good response must be relayed as if nothing had happened.
const INPUTS_BETWEEN_CHECKS: u64 = 64;

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A request that every input answers.
struct RelayedRequest {
    method: &'static str,
    text: &'static str,
    http10: bool,
    upgrade: bool,
}

/// On one connection in this order, as far as each response lets the next one follow.
const QUESTIONS: &[RelayedRequest] = &[
    RelayedRequest {
        method: "GET",
        text: "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        http10: false,
        upgrade: false,
    },
    RelayedRequest {
        method: "HEAD",
        text: "HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        http10: false,
        upgrade: false,
    },
    RelayedRequest {
        method: "POST",
        text: "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
        http10: false,
        upgrade: false,
    },
    RelayedRequest {
        method: "GET",
        text: "GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n",
        http10: true,
        upgrade: false,
    },
    // The last, since what follows would belong to the other protocol.
    RelayedRequest {
        method: "GET",
        text: "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        http10: false,
        upgrade: true,
    },
];

struct HostileServer {
    rig: Rig,
    script: Rc<RefCell<Vec<u8>>>,
    inputs: Cell<u64>,
}

thread_local! {
    static STAGE: HostileServer = {
        let script = Rc::default();
        let rig = Rig::start(|listener| play(listener, Rc::clone(&script)));
        HostileServer { rig, script, inputs: Cell::new(0) }
    };
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    STAGE.with(|stage| {
        stage.ask_all(&in_known_versions(input), judge);
        stage.inputs.set(stage.inputs.get() + 1);
        if stage.inputs.get().is_multiple_of(INPUTS_BETWEEN_CHECKS) {
            stage.ask_all(GOOD, |_, question, _, reply| {
                let body: &[u8] = if question.method == "HEAD" { b"" } else { b"ok" };
                assert_eq!((reply.status, &reply.body[..], reply.whole), (200, body, true), "{reply:?}");
            });
            stage.rig.assert_no_leak();
        }
    });
}

impl HostileServer {
    /// Answers every question with `script` and shows `judge` what `hyper` and what a client of Weir make of it.
    fn ask_all(&self, script: &[u8], judge: impl Fn(&[u8], &RelayedRequest, &HyperResponse, &ReadReply)) {
        self.script.replace(script.to_vec());
        let mut left = QUESTIONS;
        while !left.is_empty() {
            let text: String = left.iter().map(|question| question.text).collect();
            let received = self.rig.run(exchange(self.rig.web(), text.as_bytes()));
            let ReadReplies { finals, interims_left } =
                read_replies(&received, |index| left.get(index).map(asked));
            let answered = finals.len() + usize::from(interims_left > 0);
            let methods: Vec<&str> = left.iter().map(|question| question.method).collect();
            assert_exact_replies(&received, &methods, &finals);
            assert!(answered > 0, "no answer to {text:?}");
            assert!(answered <= left.len(), "more responses than requests: {finals:?}");
            for (question, reply) in left.iter().zip(&finals) {
                let answer = self.rig.run(read_response(script, question.for_hyper()));
                judge(script, question, &answer, reply);
            }
            left = &left[answered..];
        }
    }
}

fn asked(question: &RelayedRequest) -> AnsweredMethod {
    if question.method == "HEAD" { AnsweredMethod::Head } else { AnsweredMethod::Other }
}

impl RelayedRequest {
    fn for_hyper(&self) -> hyper::Request<http_body_util::Full<bytes::Bytes>> {
        let body = if self.method == "POST" { "hello" } else { "" };
        let mut request = hyper::Request::builder().method(self.method).uri("/").header("host", "a.test");
        if self.upgrade {
            request = request.header("connection", "upgrade").header("upgrade", "websocket");
        }
        request.body(body.into()).expect("a constant request is sound")
    }
}

fn judge(script: &[u8], question: &RelayedRequest, answer: &HyperResponse, reply: &ReadReply) {
    if question.http10 {
        assert_eq!(reply.interims, 0, "HTTP/1.0 knows no interim responses");
        assert_eq!(reply.field("transfer-encoding"), None, "HTTP/1.0 knows no chunks");
    }
    if reply.status == 502 && reply.is_own_failure() {
        return;
    }
    assert!(question.upgrade || reply.status != 101, "no request asked for another protocol: {reply:?}");
    if may_drop_control_bytes(script, answer) {
        return;
    }
    let HyperResponse::Response { status, body, whole, behind } = answer else {
        panic!("a response where `hyper` found none: {reply:?}")
    };
    assert_eq!(reply.status, *status);
    if may_end_unseen(question, reply) || !reply.whole {
        assert!(
            reply.body.starts_with(body) || body.starts_with(&reply.body),
            "another body: {answer:?}, {reply:?}"
        );
        return;
    }
    assert!(whole, "half a response came out whole: {answer:?}, {reply:?}");
    assert_eq!(reply.body, *body);
    assert_eq!(reply.behind, *behind);
}

/// `hyper` refuses control bytes in values, which Weir drops.
fn may_drop_control_bytes(script: &[u8], answer: &HyperResponse) -> bool {
    let is_control = |&byte: &u8| (byte < b' ' && !b"\0\t\r\n".contains(&byte)) || byte == 0x7f;
    !matches!(answer, HyperResponse::Response { .. }) && script.iter().any(is_control)
}

/// An HTTP/1.0 client knows a body that is cut off by the reset of its connection, and a Unix socket cannot be reset.
fn may_end_unseen(question: &RelayedRequest, reply: &ReadReply) -> bool {
    question.http10 && reply.until_close
}
