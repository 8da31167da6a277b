//! Faults on demand, for tests of what becomes of a defect of Weir itself: a panic in an exchange, one in the event loop of a worker, one in a
//! thread or task of the control plane, a worker that stands still; and of a race that no test can win otherwise: a server that closes a
//! connection just when it is used again.
//!
//! Compiled with debug assertions only, so never in a release or a package, and without effect there but with `WEIR_FAULTS` in the
//! environment. A request orders a fault by the field `weir-fault`; the value is the name of the point, or of the fault; `panic-task NAME`
//! strikes the kept task of that name in its next turn.

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

/// What can be struck beside the workers.
#[derive(Debug, Clone, Copy)]
pub enum ControlFault {
    /// A health check.
    Check,
    /// The thread that watches the memory.
    Memory,
    /// The task that obtains the certificate of a host.
    Certificate,
    /// The task that follows the configs of certificates.
    Issuers,
    /// A thread that writes an access log.
    AccessLog,
    /// The thread that writes Weir's own log.
    OwnLog,
}

#[cfg(debug_assertions)]
mod ordered {
    use std::rc::Rc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::Duration;

    use weir_http::RequestHead;

    use super::ControlFault;
    use super::FaultPoint;
    use crate::net::clock;
    use crate::state::crashes::crash::CrashState;

    /// Whether this process takes orders.
    static IS_ARMED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("WEIR_FAULTS").is_some());

    /// The faults of the control plane that are ordered, a bit each.
    static ORDERED: AtomicU32 = AtomicU32::new(0);

    pub(super) fn strike_control(fault: ControlFault) {
        let bit = 1 << fault as u32;
        if ORDERED.load(Ordering::Relaxed) & bit != 0 {
            let before = ORDERED.fetch_and(!bit, Ordering::Relaxed);
            assert!(before & bit == 0, "a fault was ordered: {fault:?}");
        }
    }

    /// The kept task that is ordered to be struck.
    static TASK: Mutex<Option<Vec<u8>>> = Mutex::new(None);

    pub(super) fn strike_task(what: &str) {
        if !*IS_ARMED {
            return;
        }
        let struck =
            TASK.lock().unwrap_or_else(PoisonError::into_inner).take_if(|task| *task == what.as_bytes());
        assert!(struck.is_none(), "a fault was ordered: {what}");
    }

    /// The fault of the control plane with this name.
    fn control_fault(name: &[u8]) -> Option<ControlFault> {
        Some(match name {
            b"panic-check" => ControlFault::Check,
            b"panic-memory" => ControlFault::Memory,
            b"panic-certificate" => ControlFault::Certificate,
            b"panic-issuers" => ControlFault::Issuers,
            b"panic-access-log" => ControlFault::AccessLog,
            b"panic-own-log" => ControlFault::OwnLog,
            _ => return None,
        })
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
            (b"blind-reuse", FaultPoint::Queue) => BLIND_ORDERED.store(true, Ordering::Relaxed),
            (b"hang", FaultPoint::Route) => clock::pause(Duration::MAX),
            (name, FaultPoint::Route) => {
                if let Some(task) = name.strip_prefix(b"panic-task ") {
                    *TASK.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.to_vec());
                } else if let Some(fault) = control_fault(name) {
                    ORDERED.fetch_or(1 << fault as u32, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }
}

/// Strikes a thread or task of the control plane, if a request has ordered that.
#[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "there are no faults in a release"))]
pub fn strike_control(fault: ControlFault) {
    #[cfg(debug_assertions)]
    ordered::strike_control(fault);
}

/// The same for a kept task, by its name.
#[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "there are no faults in a release"))]
pub fn strike_task(what: &'static str) {
    #[cfg(debug_assertions)]
    ordered::strike_task(what);
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
