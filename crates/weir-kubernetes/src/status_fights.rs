//! Statuses that another writer changes again and again: they are written with growing pauses, so that two writers that disagree do not keep the
//! API server busy.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use weir_gateway::{ObjectKey, ObjectKind, StatusUpdate, is_own_condition};

use crate::watched::names_of;

/// How often the same status may be written at once.
const REWRITES_FREE: u32 = 8;
/// The pause behind that, which doubles.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A status that stays for so long is not fought about.
const CALM_TIME: Duration = Duration::from_secs(60);
/// So many objects are remembered before those that are calm are forgotten.
const REMEMBERED_MAX: usize = 1024;

/// What was written of an object.
#[derive(Debug)]
struct WrittenStatus {
    fingerprint: u64,
    /// How often the same was written again.
    rewrites: u32,
    at: Instant,
}

/// What was written of each object lately.
#[derive(Debug, Default)]
pub(crate) struct StatusFights {
    written: BTreeMap<(ObjectKind, ObjectKey), WrittenStatus>,
    room: usize,
}

impl StatusFights {
    /// A status was written.
    pub(crate) fn note(&mut self, update: &StatusUpdate, now: Instant) {
        if self.written.len() > REMEMBERED_MAX.max(self.room) {
            self.written.retain(|_, known| now < known.at + CALM_TIME);
            self.room = 2 * self.written.len();
        }
        let fingerprint = fingerprint(update);
        let place = (update.kind, update.key.clone());
        let known = self.written.entry(place).or_insert(WrittenStatus { fingerprint, rewrites: 0, at: now });
        let is_same = known.fingerprint == fingerprint && now < known.at + CALM_TIME && known.at != now;
        let rewrites = if is_same { known.rewrites.saturating_add(1) } else { 0 };
        *known = WrittenStatus { fingerprint, rewrites, at: now };
        if rewrites == REWRITES_FREE {
            let kind = names_of(update.kind)[2];
            tracing::warn!(kind, object = %update.key, "another writer changes what Weir writes into the status of this object again and again: it is written with pauses of up to 30 s until that ends");
        }
    }

    /// Until when a status has to wait, if it has to.
    pub(crate) fn pause(&self, update: &StatusUpdate, now: Instant) -> Option<Instant> {
        let known = self.written.get(&(update.kind, update.key.clone()))?;
        let doubled = known.rewrites.checked_sub(REWRITES_FREE)?.min(16);
        if known.fingerprint != fingerprint(update) {
            return None;
        }
        Some(known.at + (PAUSE_MIN * (1 << doubled)).min(PAUSE_MAX)).filter(|until| *until > now)
    }
}

/// A number that is the same as long as nothing of Weir's own but times differs.
fn fingerprint(update: &StatusUpdate) -> u64 {
    let mut status = update.status.patch();
    forget_others(&mut status, &update.manager);
    let mut hasher = DefaultHasher::new();
    status.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Removes times, conditions of other types, and entries of other controllers, which are written as they were found.
fn forget_others(value: &mut Value, manager: &str) {
    let is_own = |entry: &Value| {
        // The name of the writer may be shortened.
        let of_other = entry["controllerName"].as_str().is_some_and(|name| !name.starts_with(manager));
        let is_condition = entry.get("lastTransitionTime").is_some();
        !of_other && (!is_condition || entry["type"].as_str().is_some_and(is_own_condition))
    };
    match value {
        Value::Array(all) => {
            all.retain(is_own);
            all.iter_mut().for_each(|one| forget_others(one, manager));
        }
        Value::Object(fields) => {
            fields.remove("lastTransitionTime");
            fields.values_mut().for_each(|one| forget_others(one, manager));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use weir_gateway::ObjectStatus;
    use weir_gateway::api::{Condition, GatewayStatus};

    use super::*;

    fn update(reason: &str, time: &str) -> StatusUpdate {
        let condition = |kind: &str, reason: &str| Condition {
            r#type: kind.into(),
            reason: reason.into(),
            last_transition_time: time.into(),
            ..Condition::default()
        };
        // Another writer's condition says something else each time.
        let conditions = [condition("Programmed", reason), condition("other.test/Checked", time)].into();
        let status = GatewayStatus { conditions, ..GatewayStatus::default() };
        StatusUpdate {
            kind: ObjectKind::Gateway,
            key: ObjectKey::new("infra", "web"),
            version: Default::default(),
            manager: "weir".into(),
            status: ObjectStatus::Gateway(status),
        }
    }

    /// Writes as often as it may for so long; how often that was.
    fn writes(fights: &mut StatusFights, now: &mut Instant, time: Duration) -> u32 {
        let (end, mut writes) = (*now + time, 0);
        while *now < end {
            let next = update("Programmed", &format!("{writes}"));
            match fights.pause(&next, *now) {
                Some(until) => *now = until,
                None => {
                    fights.note(&next, *now);
                    writes += 1;
                    *now += Duration::from_millis(10);
                }
            }
        }
        writes
    }

    #[test]
    fn writers_that_disagree_write_with_growing_pauses() {
        let (mut fights, mut now) = (StatusFights::default(), Instant::now());
        let first = writes(&mut fights, &mut now, Duration::from_secs(60));
        assert!((REWRITES_FREE..REWRITES_FREE + 14).contains(&first), "{first}");
        assert!(writes(&mut fights, &mut now, Duration::from_secs(300)) <= 11);
        // Another status is news, and goes at once.
        fights.note(&update("Programmed", ""), now);
        assert_eq!(fights.pause(&update("Pending", ""), now), None);
        // What has stayed for a while is not fought about any more.
        now += CALM_TIME;
        fights.note(&update("Programmed", ""), now);
        assert_eq!(fights.pause(&update("Programmed", ""), now), None);
    }

    #[test]
    fn changes_of_a_status_are_written_at_once() {
        let (mut fights, mut now) = (StatusFights::default(), Instant::now());
        for number in 0..1000 {
            let next = update(&number.to_string(), "");
            assert_eq!(fights.pause(&next, now), None);
            fights.note(&next, now);
            now += Duration::from_millis(1);
        }
    }
}
