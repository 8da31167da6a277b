//! Faults on demand, for tests of what becomes of a defect of Weir itself: a panic in an exchange, one in the event loop of a worker, a worker
//! that stands still; and of a race that no test can win otherwise: a server that closes a connection just when it is used again.
//!
//! Compiled with debug assertions only, so never in a release or a package, and without effect there but with `WEIR_FAULTS` in the
//! environment. A request orders a fault by the field `weir-fault`; the value is the name of the point, or of the fault.

use std::rc::Rc;

use weir_http::RequestHead;

use super::crash::CrashState;

/// Where an exchange can be struck.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FaultPoint {
    /// The route is known, and nothing is held yet.
    Route,
    /// A slot on a server is held.
    Queue,
    /// The response of a server has begun.
    Response,
}

#[cfg(debug_assertions)]
mod ordered {
    use std::rc::Rc;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use weir_http::RequestHead;

    use super::FaultPoint;
    use crate::net::clock;
    use crate::state::crash::CrashState;

    /// Whether this process takes orders.
    static IS_ARMED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("WEIR_FAULTS").is_some());

    /// Whether the next probe panics.
    static CHECK_ORDERED: AtomicBool = AtomicBool::new(false);

    pub(super) fn strike_check() {
        assert!(!CHECK_ORDERED.swap(false, Ordering::Relaxed), "a fault of a health check was ordered");
    }

    /// Whether the next kept connection is used whatever has become of it.
    static BLIND_ORDERED: AtomicBool = AtomicBool::new(false);

    pub(super) fn skips_check() -> bool {
        BLIND_ORDERED.swap(false, Ordering::Relaxed)
    }

    pub(super) fn strike(crash: &Rc<CrashState>, request: &RequestHead, text: &[u8], at: FaultPoint) {
        if !*IS_ARMED {
            return;
        }
        let Some(order) = request.fields().get_by_name(text, "weir-fault") else { return };
        match (order.value.of(text), at) {
            (b"panic-route", FaultPoint::Route)
            | (b"panic-queue", FaultPoint::Queue)
            | (b"panic-response", FaultPoint::Response) => panic!("a fault was ordered at {at:?}"),
            (b"crash", FaultPoint::Route) => {
                drop(crash.spawn(async { panic!("a crash of the worker was ordered") }));
            }
            (b"panic-check", FaultPoint::Route) => CHECK_ORDERED.store(true, Ordering::Relaxed),
            (b"blind-reuse", FaultPoint::Queue) => BLIND_ORDERED.store(true, Ordering::Relaxed),
            (b"hang", FaultPoint::Route) => clock::pause(Duration::MAX),
            _ => {}
        }
    }
}

/// Strikes a health check, if a request has ordered that.
pub fn strike_check() {
    #[cfg(debug_assertions)]
    ordered::strike_check();
}

/// Whether a request has ordered that its kept connection is not checked, as if the server closed it right behind the check.
#[inline(always)]
pub(crate) fn skips_check() -> bool {
    #[cfg(debug_assertions)]
    return ordered::skips_check();
    #[cfg(not(debug_assertions))]
    false
}

/// Strikes the exchange of a request that has ordered a fault here.
#[inline(always)]
#[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "there are no faults in a release"))]
pub(crate) fn strike(crash: &Rc<CrashState>, request: &RequestHead, text: &[u8], at: FaultPoint) {
    #[cfg(debug_assertions)]
    ordered::strike(crash, request, text, at);
}
