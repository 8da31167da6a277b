//! Tables of counters that nodes share: what was counted here goes to the store, which answers with what all nodes have counted.

use weir_http::resp::RespReply;
use weir_proxy::state::stores::limit_store::SharedAffinity;
use weir_proxy::state::stores::shared_table::SharedTable;
use weir_traffic::table::{CountsMerge, SharedCounts, ToldCounts};

use super::KEYS_AT_ONCE;
use super::affinity;
use super::connection::StoreConnection;
use super::failure::StoreError;

/// The script that the store runs for each exchange.
const SCRIPT: &str = include_str!("counts.lua");

/// The largest number that the script counts to.
const COUNT_MAX: u64 = (1 << 53) - 1;

/// The script in the store; `None`: no table needs it.
pub(super) struct CountsScript(Option<Vec<u8>>);

impl CountsScript {
    pub(super) async fn load(
        tables: &[SharedTable],
        connection: &mut StoreConnection,
    ) -> Result<Self, StoreError> {
        if tables.is_empty() {
            return Ok(Self(None));
        }
        match connection.ask_one(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()]).await? {
            RespReply::String(Some(hash)) => Ok(Self(Some(hash))),
            _ => Err(StoreError::Unexpected("SCRIPT LOAD")),
        }
    }

    /// Tells what was counted, and learns what all nodes have counted of the same keys.
    pub(super) async fn exchange(
        &self,
        table: &SharedTable,
        told: Vec<ToldCounts>,
        (connection, affinities): (&mut StoreConnection, &[SharedAffinity]),
    ) -> Result<(), StoreError> {
        let Some(script) = &self.0 else { return Ok(()) };
        for told in told.chunks(KEYS_AT_ONCE) {
            let mut words = vec![b"EVALSHA".to_vec(), script.clone(), told.len().to_string().into_bytes()];
            words.extend(told.iter().map(|it| format!("{}{:016x}", table.prefix, it.key).into_bytes()));
            words.push(table.expire.as_millis().to_string().into_bytes());
            words.push(numbers(table.periods_ms.iter().copied()).into_bytes());
            words.extend(told.iter().map(|it| told_text(it).into_bytes()));
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let replies = match connection.ask_one(&words).await? {
                RespReply::Array(Some(replies)) if replies.len() == told.len() => replies,
                _ => return Err(StoreError::Unexpected("EVALSHA")),
            };
            let counts: Option<Vec<_>> =
                told.iter().zip(&replies).map(|(it, reply)| Some((it.key, shared_counts(reply)?))).collect();
            table.learn(counts.ok_or(StoreError::Unexpected("EVALSHA"))?.into_iter());
            // Requests wait for these; a large table takes many turns.
            for shared in affinities {
                affinity::exchange(shared, connection).await?;
            }
        }
        Ok(())
    }
}

fn told_text(told: &ToldCounts) -> String {
    let merge = match told.merge {
        CountsMerge::Ask => 0,
        CountsMerge::Add => 1,
        CountsMerge::Least => 2,
        CountsMerge::Replace => 3,
    };
    numbers([merge, told.idle_ms].into_iter().chain(told.words.iter().copied()))
}

fn numbers(all: impl Iterator<Item = u64>) -> String {
    let words: Vec<String> = all.map(|number| number.min(COUNT_MAX).to_string()).collect();
    words.join(" ")
}

/// What a reply says of a key: `Some(None)` if the store does not know it, `None` if it is no such reply.
#[expect(clippy::option_option, reason = "a reply that is none is another thing than one without counts")]
fn shared_counts(reply: &RespReply) -> Option<Option<SharedCounts>> {
    let RespReply::String(text) = reply else { return None };
    let Some(text) = text else { return Some(None) };
    let numbers: Option<Vec<u64>> =
        std::str::from_utf8(text).ok()?.split(' ').map(|word| word.parse().ok()).collect();
    let mut words = numbers?;
    let idle_ms = (!words.is_empty()).then(|| words.remove(0))?;
    Some(Some(SharedCounts { idle_ms, words }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_script() {
        let told = ToldCounts { key: 1, merge: CountsMerge::Add, idle_ms: 0, words: vec![1, u64::MAX] };
        assert_eq!(told_text(&told), "1 0 1 9007199254740991");
        let ask = ToldCounts { key: 1, merge: CountsMerge::Ask, idle_ms: 0, words: vec![] };
        assert_eq!(told_text(&ask), "0 0");
        let reply = |text: &str| shared_counts(&RespReply::String(Some(text.into())));
        assert_eq!(reply("7 1 2"), Some(Some(SharedCounts { idle_ms: 7, words: vec![1, 2] })));
        assert_eq!(shared_counts(&RespReply::String(None)), Some(None));
        for wrong in ["", "x", "1  2", "-1 2", "1.5", "99999999999999999999"] {
            assert_eq!(reply(wrong), None, "{wrong}");
        }
        assert_eq!(shared_counts(&RespReply::Integer(1)), None);
    }
}
