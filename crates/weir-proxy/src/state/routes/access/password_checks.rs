//! Passwords on their way from the workers to the threads that verify them, and the verdicts on their way back.
//!
//! Hashes of passwords are made to be slow: one takes longer than a worker may stand still. A worker asks and goes on with other exchanges; a
//! thread of the control plane answers. What the same credentials wait for is computed once. The queue is bounded, as a whole and for each
//! client address, so that passwords that are guessed cannot keep all threads busy for others.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_access::PasswordHash;

use super::verdicts::Verdicts;
use super::{CredentialDigest, DigestKey};
use crate::net::clock;

/// Checks that wait at most, in all and of one client address.
const WAITING_MAX: usize = 128;
const WAITING_PER_CLIENT_MAX: usize = 8;

/// Exchanges that wait for one check at most.
const WAITERS_MAX: usize = 1024;

/// Verdicts of each kind that are remembered: those about wrong passwords must not take the place of others.
pub(crate) const VERDICTS_MAX: usize = 4096;

/// For how long a wrong password is remembered.
pub(crate) const WRONG_KEPT: Duration = Duration::from_secs(5);

/// What one password is compared with.
pub(crate) struct PasswordCheck {
    pub(crate) digest: CredentialDigest,
    pub(crate) hash: PasswordHash,
    /// Whether there is such a user: if not, the verdict is `false` whatever the hash says.
    pub(crate) is_known: bool,
    pub(crate) password: Box<[u8]>,
    /// For how long it is remembered when it is right.
    pub(crate) kept: Duration,
    pub(crate) client: IpAddr,
}

/// What is known of credentials, or will be.
pub(crate) enum PasswordAnswer {
    Known(bool),
    /// The verdict comes; the channel is closed without one if it cannot be had.
    Coming(oneshot::Receiver<bool>),
}

/// Why no verdict can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckRefused {
    /// Too many checks wait.
    Full,
    /// Too many of this client.
    ClientFull,
}

/// The checks that wait or run, and the latest verdicts; shared by all workers.
#[derive(Debug, Default)]
pub struct PasswordChecks {
    pub(crate) key: DigestKey,
    state: Mutex<CheckState>,
    /// Heard when there is a check, or nothing more to do.
    arrived: Condvar,
}

#[derive(Default)]
struct CheckState {
    waiting: VecDeque<PasswordCheck>,
    /// Who waits for each check, one that runs included.
    waiters: HashMap<CredentialDigest, Vec<oneshot::Sender<bool>>>,
    /// Checks of each client, those that run included.
    clients: HashMap<IpAddr, usize>,
    recent: RecentVerdicts,
    is_over: bool,
}

impl std::fmt::Debug for CheckState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckState").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

/// The latest verdicts.
#[derive(Debug)]
pub(crate) struct RecentVerdicts {
    right: Verdicts<()>,
    wrong: Verdicts<()>,
}

impl Default for RecentVerdicts {
    fn default() -> Self {
        Self { right: Verdicts::new(VERDICTS_MAX), wrong: Verdicts::new(VERDICTS_MAX) }
    }
}

impl RecentVerdicts {
    /// What was found lately.
    pub(crate) fn get(&self, digest: CredentialDigest) -> Option<bool> {
        let now = clock::now();
        let is_in = |verdicts: &Verdicts<()>| verdicts.get(digest, now).is_some();
        if is_in(&self.right) { Some(true) } else { is_in(&self.wrong).then_some(false) }
    }

    /// Remembers a verdict; a right password for the time `kept`, which may be none.
    pub(crate) fn insert(&mut self, digest: CredentialDigest, is_right: bool, kept: Duration) {
        let (verdicts, kept) = if is_right { (&mut self.right, kept) } else { (&mut self.wrong, WRONG_KEPT) };
        if !kept.is_zero() {
            verdicts.insert(digest, (), clock::now() + kept, 1);
        }
    }
}

impl PasswordChecks {
    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a password verified, unless that was done lately.
    pub(crate) fn ask(
        &self,
        digest: CredentialDigest,
        client: IpAddr,
        check: impl FnOnce() -> PasswordCheck,
    ) -> Result<PasswordAnswer, CheckRefused> {
        let mut state = self.lock();
        let CheckState { waiting, waiters, clients, recent, .. } = &mut *state;
        if let Some(is_right) = recent.get(digest) {
            return Ok(PasswordAnswer::Known(is_right));
        }
        let (sender, receiver) = oneshot::channel();
        if let Some(others) = waiters.get_mut(&digest) {
            others.retain(|other| !other.is_closed());
            if others.len() >= WAITERS_MAX {
                return Err(CheckRefused::Full);
            }
            others.push(sender);
            return Ok(PasswordAnswer::Coming(receiver));
        }
        let of_client = clients.get(&client).copied().unwrap_or(0);
        if of_client >= WAITING_PER_CLIENT_MAX {
            return Err(CheckRefused::ClientFull);
        }
        if waiting.len() >= WAITING_MAX {
            return Err(CheckRefused::Full);
        }
        clients.insert(client, of_client + 1);
        waiters.insert(digest, vec![sender]);
        waiting.push_back(check());
        drop(state);
        self.arrived.notify_one();
        Ok(PasswordAnswer::Coming(receiver))
    }

    /// Verifies passwords on the calling thread, until [`PasswordChecks::end`].
    pub fn work(&self) {
        while let Some(check) = self.next() {
            // Should the hash panic, the exchanges that wait learn that there is no verdict, and the next check runs.
            let verify = || check.hash.verify(&check.password) & check.is_known;
            let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(verify)).ok();
            self.settle(&check, verdict);
        }
    }

    /// The next check that an exchange still waits for; `None` when the threads are to end.
    fn next(&self) -> Option<PasswordCheck> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            let Some(check) = state.waiting.pop_front() else {
                state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let is_awaited =
                |waiters: &Vec<oneshot::Sender<bool>>| waiters.iter().any(|one| !one.is_closed());
            if state.waiters.get(&check.digest).is_some_and(is_awaited) {
                return Some(check);
            }
            state.forget(&check);
        }
    }

    fn settle(&self, check: &PasswordCheck, verdict: Option<bool>) {
        let mut state = self.lock();
        if let Some(is_right) = verdict {
            state.recent.insert(check.digest, is_right, check.kept);
        }
        let waiters = state.forget(check);
        drop(state);
        for waiter in waiters {
            if let Some(is_right) = verdict {
                let _gone = waiter.send(is_right);
            }
        }
    }

    /// Ends the threads, each after its present check.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.arrived.notify_all();
    }
}

impl CheckState {
    /// A check is over: who has waited for it.
    fn forget(&mut self, check: &PasswordCheck) -> Vec<oneshot::Sender<bool>> {
        if let Some(count) = self.clients.get_mut(&check.client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&check.client);
            }
        }
        self.waiters.remove(&check.digest).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Of `s3cret`, and quick.
    const HASH: &str = "{SHA}/vNB+F2HQ559kaLUZbmHHvZrXpg=";

    fn ask(checks: &PasswordChecks, client: u8, password: &str) -> Result<PasswordAnswer, CheckRefused> {
        let digest = checks.key.digest(&[password.as_bytes()]);
        let client = IpAddr::from([192, 0, 2, client]);
        checks.ask(digest, client, || PasswordCheck {
            digest,
            hash: PasswordHash::parse(HASH).expect("it is one"),
            is_known: password != "unknown",
            password: password.as_bytes().into(),
            kept: Duration::from_secs(60),
            client,
        })
    }

    fn coming(answer: Result<PasswordAnswer, CheckRefused>) -> oneshot::Receiver<bool> {
        match answer {
            Ok(PasswordAnswer::Coming(receiver)) => receiver,
            Ok(PasswordAnswer::Known(is_right)) => panic!("{is_right} is known already"),
            Err(refused) => panic!("{refused:?}"),
        }
    }

    fn known(answer: &Result<PasswordAnswer, CheckRefused>) -> Option<bool> {
        match answer {
            Ok(PasswordAnswer::Known(is_right)) => Some(*is_right),
            _ => None,
        }
    }

    /// Carries out what waits.
    fn run(checks: &Arc<PasswordChecks>) {
        let state = checks.lock();
        let waiting = state.waiting.len();
        drop(state);
        for _ in 0..waiting {
            let check = checks.next().expect("it waits");
            let verdict = check.hash.verify(&check.password) & check.is_known;
            checks.settle(&check, Some(verdict));
        }
    }

    #[test]
    fn verdicts_come_and_are_remembered() {
        let checks = Arc::<PasswordChecks>::default();
        let mut right = coming(ask(&checks, 1, "s3cret"));
        let mut again = coming(ask(&checks, 2, "s3cret"));
        let mut wrong = coming(ask(&checks, 1, "secret"));
        assert_eq!(checks.lock().waiting.len(), 2, "the same credentials are verified once");
        run(&checks);
        assert_eq!((right.try_recv(), again.try_recv(), wrong.try_recv()), (Ok(true), Ok(true), Ok(false)));
        assert_eq!(
            (known(&ask(&checks, 3, "s3cret")), known(&ask(&checks, 3, "secret"))),
            (Some(true), Some(false))
        );
        assert!(checks.lock().waiters.is_empty() && checks.lock().clients.is_empty());
    }

    #[test]
    fn an_unknown_user_costs_the_same_and_is_never_right() {
        let checks = PasswordChecks::default();
        let digest = checks.key.digest(&[b"unknown"]);
        let client = IpAddr::from([192, 0, 2, 1]);
        let check = || PasswordCheck {
            digest,
            hash: PasswordHash::parse(HASH).expect("it is one"),
            is_known: false,
            password: b"s3cret"[..].into(),
            kept: Duration::from_secs(60),
            client,
        };
        let verdict = coming(checks.ask(digest, client, check));
        std::thread::scope(|scope| {
            scope.spawn(|| checks.work());
            assert_eq!(verdict.blocking_recv(), Ok(false));
            checks.end();
        });
    }

    #[test]
    fn the_queue_is_bounded_in_all_and_for_each_client() {
        let checks = Arc::<PasswordChecks>::default();
        let mut verdicts = Vec::new();
        for number in 0..WAITING_MAX {
            let client = (number / WAITING_PER_CLIENT_MAX) as u8;
            verdicts.push(coming(ask(&checks, client, &format!("guess {number}"))));
        }
        assert_eq!(ask(&checks, 0, "another").err(), Some(CheckRefused::ClientFull));
        assert_eq!(ask(&checks, 200, "another").err(), Some(CheckRefused::Full));
        // What waits already may be waited for by others.
        verdicts.push(coming(ask(&checks, 200, "guess 0")));
        run(&checks);
        assert!(verdicts.iter_mut().all(|verdict| verdict.try_recv() == Ok(false)));
        verdicts.push(coming(ask(&checks, 0, "another")));
    }

    #[test]
    fn what_no_exchange_waits_for_is_not_computed() {
        let checks = PasswordChecks::default();
        drop(coming(ask(&checks, 1, "given up")));
        let _waits = coming(ask(&checks, 1, "s3cret"));
        assert_eq!(&*checks.next().expect("one waits").password, b"s3cret");
        assert_eq!(checks.lock().clients.values().sum::<usize>(), 1);
    }
}
