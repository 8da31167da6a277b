//! A worker frees memory, on orders of the control plane.
//!
//! What goes first is decided there. Here are idle connections closed, the clients with the slowest progress ended, and freed memory
//! returned to the system. Must not decide whether memory is short.

use super::Acceptor;
use crate::net::memory;
use crate::net::timing::idleness::Evictable;
use crate::state::budgets::memory_guard::MemoryOrder;

/// After so many halvings nothing is left of a pool.
const SHEDS_MAX: usize = 12;

/// Does what `order` says.
pub(super) async fn free(acceptor: &Acceptor, order: MemoryOrder) {
    let worker = &acceptor.worker;
    let mut closed = 0;
    while closed < order.idle_max && worker.timers.evict_idle(Evictable::All) {
        closed += 1;
    }
    if order.closes_idle_servers {
        let config = std::rc::Rc::clone(&worker.config.borrow());
        // Half of them each time.
        for _ in 0..SHEDS_MAX {
            if !config.shed_pools() {
                break;
            }
        }
        worker.stock.close_pipes();
    }
    let mut ended = 0;
    if order.slow_max > 0 {
        ended = worker.connection_list.end_slowest(&worker.timers, order.slow_max).await;
        worker.shared.memory.count_slow_ended(ended);
    }
    // Those that were closed run before this goes on.
    tokio::task::yield_now().await;
    worker.stock.shrink();
    acceptor.exchanges.shrink();
    memory::give_back();
    let _not_awaited = order.done.send((closed, ended));
}
