//! Makes the connection IDs of a worker.

use std::time::Duration;

use aws_lc_rs::rand;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use super::connection_ids::{HASHED_LEN, LEN, WORKER_AT};
use super::keys::QuicKeys;

/// Makes the IDs of one worker.
#[derive(Debug)]
pub(crate) struct WorkerIds {
    pub(crate) keys: QuicKeys,
    pub(crate) worker: u8,
}

impl ConnectionIdGenerator for WorkerIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LEN];
        // Without random numbers, IDs collide, and connections with them: none is taken over.
        let _random = rand::fill(&mut id[..HASHED_LEN]);
        let key = &self.keys.ids;
        id[0] = key.generation();
        id[WORKER_AT] = self.worker;
        let (hashed, hash) = id.split_at_mut(HASHED_LEN);
        hash.copy_from_slice(&key.hash(hashed));
        ConnectionId::new(&id)
    }

    /// Asked of IDs whose connection is not known.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.keys.may_reset(id).then_some(()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(workers: usize) -> QuicKeys {
        QuicKeys::new(workers, &[], Vec::new()).unwrap()
    }

    #[test]
    fn an_id_says_which_worker_has_the_connection() {
        let keys = process(8);
        let mut ids = WorkerIds { keys: keys.clone(), worker: 7 };
        let (one, other) = (ids.generate_cid(), ids.generate_cid());
        assert_ne!(one, other);
        assert_eq!((keys.ids.worker_of(&one), keys.ids.worker_of(&other)), (Some(7), Some(7)));
        assert!(ids.validate(&one).is_ok());
    }

    #[test]
    fn ids_of_others_are_known() {
        let keys = process(2);
        let id = WorkerIds { keys: keys.clone(), worker: 1 }.generate_cid();
        for at in 0..LEN {
            let mut changed = *id.first_chunk::<LEN>().expect("it has as many");
            changed[at] ^= 0x10;
            assert_eq!(keys.ids.worker_of(&changed), None, "{at}");
        }
        for len in 0..LEN {
            assert_eq!(keys.ids.worker_of(&id[..len]), None, "{len}");
        }
    }
}
