//! Samples of running threads: what a thread was at when its CPU clock struck, and the top of its stack.
//!
//! Each sampled thread has a timer on its own CPU time, so one that waits is never interrupted. The signal handler copies registers and
//! stack bytes into a slot that was made before, and nothing else: no lock, no allocation, no call into the C library, no unwinding. What
//! the bytes mean is worked out elsewhere. Must not touch memory outside of the stack of the thread that it runs on.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weir_proxy::net::clock;

/// Bytes of a stack that are kept: what is further out is missing from the sample.
const STACK_BYTES_MAX: usize = 64 * 1024;

/// Threads that can be sampled at once: as many as the low bits of a timer's value tell apart.
const THREADS_MAX: usize = 1 << 12;

/// Slots that a handler looks at before it gives up.
const TRIES: usize = 4;

/// Slots for each thread, and in all: what is sampled between two looks at them.
const SLOTS_PER_THREAD: usize = 4;
const SLOTS_MAX: usize = 256;

/// How long is waited between two looks whether a handler has left.
const LEAVE_PAUSE: Duration = Duration::from_micros(200);

/// A thread that can be sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampledThread {
    /// What the kernel knows it by.
    pub(crate) id: i32,
    /// The memory of its stack.
    pub(crate) stack: Range<usize>,
}

impl SampledThread {
    /// The thread that asks; `None` when the system does not say where its stack is.
    pub(crate) fn own() -> Option<Self> {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        // SAFETY: an all-zero value is what `pthread_getattr_np` overwrites; it fills it for the living thread that calls.
        let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
        // SAFETY: both arguments are valid: this thread, and a live place for its attributes.
        if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
            return None;
        }
        let (mut low, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the attributes were filled above, and the results go to live places.
        let outcome =
            unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) };
        // SAFETY: the attributes were filled above and are not used after this.
        unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
        let low = low.addr();
        (outcome == 0).then_some(Self { id, stack: low..low.saturating_add(size) })
    }
}

/// Where a thread was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The address of the next instruction.
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    pub(crate) frame: u64,
    /// The return address where the architecture keeps it in a register (aarch64), else 0.
    pub(crate) link: u64,
}

/// What was found of a thread at one moment.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Its place among the threads that are sampled.
    pub(crate) thread: usize,
    pub(crate) registers: Registers,
    len: usize,
    bytes: Box<[u8]>,
}

impl Sample {
    /// The bytes of the stack, from [`Registers::stack`] on.
    pub(crate) fn stack(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

const FREE: u8 = 0;
const WRITTEN: u8 = 1;
const FULL: u8 = 2;

struct SampleSlot {
    state: AtomicU8,
    sample: UnsafeCell<Sample>,
}

/// What the handler works on.
struct Table {
    /// Tells the ticks of this table from late ones of those before.
    number: usize,
    threads: Box<[SampledThread]>,
    slots: Box<[SampleSlot]>,
    next: AtomicUsize,
    lost: AtomicU64,
}

/// The table in use; null while no sampler runs.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// Handlers that may hold the table.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// The number of the next table.
static NUMBER: AtomicUsize = AtomicUsize::new(1);

/// Samples threads until it is dropped. There is one at a time in a process.
pub(crate) struct Sampler {
    table: *mut Table,
    timers: Vec<libc::timer_t>,
}

impl Sampler {
    /// Begins to sample `threads`, each once per `period` of its own CPU time; `None` while another one samples. Threads that have ended
    /// meanwhile are left out.
    ///
    /// # Errors
    /// When the system gives no timer, as where too many signals are queued (`ulimit -i`) or a filter on system calls forbids it.
    pub(crate) fn begin(threads: Vec<SampledThread>, period: Duration) -> io::Result<Option<Self>> {
        let threads: Box<[_]> = threads.into_iter().take(THREADS_MAX).collect();
        let ids: Vec<i32> = threads.iter().map(|thread| thread.id).collect();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let slots = (threads.len() * SLOTS_PER_THREAD).clamp(8, SLOTS_MAX);
        let table = Box::new(Table {
            number,
            threads,
            slots: (0..slots).map(|_| SampleSlot::new()).collect(),
            next: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        });
        let table = Box::into_raw(table);
        if TABLE.compare_exchange(ptr::null_mut(), table, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            // SAFETY: it came from a box above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(table) });
            return Ok(None);
        }
        let mut sampler = Self { table, timers: Vec::with_capacity(ids.len()) };
        install_handler()?;
        for (place, id) in ids.into_iter().enumerate() {
            match start_timer(id, value_of(number, place), period) {
                Ok(timer) => sampler.timers.push(timer),
                // The thread has ended.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ESRCH)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(sampler))
    }

    /// Gives every sample that has come since the last call, in no order.
    pub(crate) fn drain(&self, mut take: impl FnMut(&Sample)) {
        for slot in &self.table().slots {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            // SAFETY: no handler writes to a slot that is full, and only the sampler reads, which stays on one thread.
            take(unsafe { &*slot.sample.get() });
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Samples that found no free slot.
    pub(crate) fn lost(&self) -> u64 {
        self.table().lost.load(Ordering::Relaxed)
    }

    fn table(&self) -> &Table {
        // SAFETY: it came from a box and is freed in `drop` only; all that changes in it is made for sharing.
        unsafe { &*self.table }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        for timer in self.timers.drain(..) {
            // SAFETY: it was made by `timer_create` and is deleted once.
            unsafe { libc::timer_delete(timer) };
        }
        TABLE.store(ptr::null_mut(), Ordering::SeqCst);
        // A handler that has the table was counted before it took it, and the store above comes before this load in the one order of
        // all these accesses: who is not counted here finds no table any more.
        while INSIDE.load(Ordering::SeqCst) > 0 {
            clock::pause(LEAVE_PAUSE);
        }
        // SAFETY: it came from a box, no handler has it, and this sampler is gone.
        drop(unsafe { Box::from_raw(self.table) });
    }
}

impl SampleSlot {
    fn new() -> Self {
        let bytes = vec![0; STACK_BYTES_MAX].into_boxed_slice();
        let sample = Sample { thread: 0, registers: Registers::default(), len: 0, bytes };
        Self { state: AtomicU8::new(FREE), sample: UnsafeCell::new(sample) }
    }
}

impl Table {
    /// Keeps a sample of the thread that this runs on. Called by the handler: every line here may interrupt every other line of the process.
    fn keep(&self, value: usize, registers: Registers) {
        let Some(thread) = self.threads.get(value % THREADS_MAX) else { return };
        if value / THREADS_MAX != self.number % (usize::MAX / THREADS_MAX) {
            return;
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for slot in (0..TRIES).filter_map(|step| self.slots.get(first.wrapping_add(step) % self.slots.len()))
        {
            if slot.state.compare_exchange(FREE, WRITTEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
                continue;
            }
            // SAFETY: the exchange above gave this slot to this handler alone.
            let sample = unsafe { &mut *slot.sample.get() };
            sample.thread = value % THREADS_MAX;
            sample.registers = registers;
            let from = registers.stack as usize;
            // Elsewhere than on its stack, as in the handler of another signal, nothing is copied.
            sample.len = if thread.stack.contains(&from) {
                thread.stack.end.wrapping_sub(from).min(sample.bytes.len())
            } else {
                0
            };
            // SAFETY: the bytes lie between the stack pointer of this very thread and the end of its stack, which is all in use and
            // stays so while this runs on top of it; the copy goes to a buffer elsewhere that is at least as long.
            unsafe {
                ptr::copy_nonoverlapping(
                    ptr::with_exposed_provenance::<u8>(from),
                    sample.bytes.as_mut_ptr(),
                    sample.len,
                );
            }
            slot.state.store(FULL, Ordering::Release);
            return;
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a timer of a table brings along.
fn value_of(table: usize, place: usize) -> usize {
    (table % (usize::MAX / THREADS_MAX)) * THREADS_MAX + place
}

extern "C" fn on_tick(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    // SAFETY: a table that is found here stays until this handler has left, as `Sampler::drop` says.
    let table = unsafe { TABLE.load(Ordering::SeqCst).as_ref() };
    // SAFETY: the kernel gives both to a handler that was installed with SA_SIGINFO.
    let (info, context) = unsafe { (&*info, &*context.cast::<libc::ucontext_t>()) };
    if let Some(table) = table.filter(|_| info.si_code == libc::SI_TIMER) {
        // SAFETY: signals of timers bring a value.
        table.keep(unsafe { info.si_value() }.sival_ptr.addr(), registers_of(context));
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

#[cfg(target_arch = "x86_64")]
fn registers_of(context: &libc::ucontext_t) -> Registers {
    let of = |register: c_int| context.uc_mcontext.gregs[register as usize] as u64;
    Registers { instruction: of(libc::REG_RIP), stack: of(libc::REG_RSP), frame: of(libc::REG_RBP), link: 0 }
}

#[cfg(target_arch = "aarch64")]
fn registers_of(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers { instruction: machine.pc, stack: machine.sp, frame: machine.regs[29], link: machine.regs[30] }
}

/// The handler stays for good: a tick that comes late must find one, or it would end the process.
fn install_handler() -> io::Result<()> {
    // SAFETY: zeros are valid in all fields, and those that matter are set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_tick;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the mask is a live place.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and does only what a handler may (signal-safety(7)).
    let outcome = unsafe { libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts a timer on the CPU time of a thread, which ticks on that thread.
fn start_timer(thread: i32, value: usize, period: Duration) -> io::Result<libc::timer_t> {
    // SAFETY: zeros are valid in all fields, and those that matter are set below.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGPROF;
    event.sigev_value.sival_ptr = ptr::without_provenance_mut(value);
    event.sigev_notify_thread_id = thread;
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both pointers lead to live values; the kernel checks that the thread is one of this process.
    if unsafe { libc::timer_create(cpu_clock_of(thread), &raw mut event, &raw mut timer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let period = libc::timespec { tv_sec: period.as_secs() as _, tv_nsec: period.subsec_nanos().into() };
    let setting = libc::itimerspec { it_interval: period, it_value: period };
    // SAFETY: the timer was made above, and the setting is a live value.
    if unsafe { libc::timer_settime(timer, 0, &raw const setting, ptr::null_mut()) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: it was made above and is not kept.
        unsafe { libc::timer_delete(timer) };
        return Err(error);
    }
    Ok(timer)
}

/// The clock of the CPU time of a thread, as the kernel numbers them (`MAKE_THREAD_CPUCLOCK` with `CPUCLOCK_SCHED`).
fn cpu_clock_of(thread: i32) -> libc::clockid_t {
    (!thread << 3) | 0b110
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;

    use super::*;

    /// Samplers of one process exclude each other, so one test has all that concerns them.
    #[test]
    fn a_busy_thread_is_sampled_and_one_that_waits_is_not() {
        let is_over = Arc::new(AtomicBool::new(false));
        let (own, threads) = channel();
        let waiting = own.clone();
        let (end, ended) = channel::<()>();
        let busy = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                own.send(SampledThread::own().unwrap()).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let busy_thread = threads.recv().unwrap();
        let idle = std::thread::spawn(move || {
            waiting.send(SampledThread::own().unwrap()).unwrap();
            let _ended = ended.recv();
        });
        let idle_thread = threads.recv().unwrap();
        assert_ne!(busy_thread, idle_thread);
        let gone = SampledThread { id: i32::MAX / 16, stack: 0..0 };
        for _ in 0..2 {
            let all = vec![gone.clone(), idle_thread.clone(), busy_thread.clone()];
            let sampler = Sampler::begin(all.clone(), Duration::from_millis(1)).unwrap().unwrap();
            assert!(Sampler::begin(all, Duration::from_millis(1)).unwrap().is_none(), "one at a time");
            let mut count = 0;
            while count < 5 {
                sampler.drain(|sample| {
                    count += 1;
                    assert_eq!(sample.thread, 2);
                    let at = sample.registers.stack as usize;
                    assert!(busy_thread.stack.contains(&at), "{sample:?}");
                    assert_eq!(sample.stack().len(), (busy_thread.stack.end - at).min(STACK_BYTES_MAX));
                });
                clock::pause(Duration::from_millis(1));
            }
        }
        // A tick that arrives after the sampler has ended does not kill the process.
        // SAFETY: it sends a signal to this thread and touches no memory.
        assert_eq!(unsafe { libc::raise(libc::SIGPROF) }, 0);
        is_over.store(true, Ordering::Relaxed);
        drop(end);
        busy.join().unwrap();
        idle.join().unwrap();
    }
}
