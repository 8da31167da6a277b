//! Whether the process makes progress: the control thread and every worker answer a message, each between two steps of its event loop.
//!
//! For the watchdog of the supervisor, which restarts a process that does not.

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{Receiver, channel};

use super::Proxy;

/// Answers that are waited for, each with the thread that owes it.
#[derive(Debug)]
pub struct ProgressCheck {
    answers: Vec<(String, Receiver<()>)>,
}

impl Proxy {
    /// Asks the control thread and every worker for a sign of life.
    pub fn ask_progress(&self) -> ProgressCheck {
        let workers = self.queries.ask_progress().into_iter().enumerate();
        let mut answers: Vec<_> =
            workers.map(|(worker, answer)| (format!("weir-worker-{worker}"), answer)).collect();
        if let Some(tasks) = &self.control_tasks {
            let (alive, answer) = channel();
            tasks.spawn(async move { alive.send(()) });
            answers.push(("weir-control".to_owned(), answer));
        }
        ProgressCheck { answers }
    }
}

impl ProgressCheck {
    /// The threads that have not answered yet; one that has ended never will.
    pub fn silent(&mut self) -> Vec<&str> {
        self.answers.retain_mut(|(_, answer)| {
            matches!(answer.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed))
        });
        self.answers.iter().map(|(thread, _)| &**thread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_silent_until_it_answers() {
        let ((a, to_a), (b, to_b)) = (channel(), channel());
        let mut check = ProgressCheck { answers: vec![("a".to_owned(), to_a), ("b".to_owned(), to_b)] };
        assert_eq!(check.silent(), ["a", "b"]);
        a.send(()).unwrap();
        assert_eq!(check.silent(), ["b"]);
        drop::<tokio::sync::oneshot::Sender<()>>(b);
        assert_eq!(check.silent(), ["b"]);
    }
}
