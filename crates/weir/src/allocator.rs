//! The allocator of the program, and how a thread returns unused memory.
//!
//! A client connection costs a handful of allocations of odd sizes, and the C library's allocator spends a tenth of the user time of a
//! short connection on them. The libraries do not know which one it is.

#![expect(unsafe_code, reason = "mimalloc is in C, and its crate does not offer this one function")]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod c {
    unsafe extern "C" {
        /// Gives free pages of the calling thread back to the system (`mimalloc.h`); `force` does so at once.
        pub(super) fn mi_collect(force: bool);
    }
}

/// Gives what this thread has freed back to the system.
pub(crate) fn give_back() {
    // SAFETY: it may be called at any time, on any thread, and touches nothing that is allocated.
    unsafe { c::mi_collect(true) }
}
