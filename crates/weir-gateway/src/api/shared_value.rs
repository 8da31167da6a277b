//! Values that thousands of objects have alike, the parents of routes and what was said of them: what was read lately is not kept twice.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::thread::LocalKey;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use weir_config::Interner;

use super::shared::{ParentReference, RouteStatus};

/// A value that its copies share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedValue<T>(Arc<T>);

/// A type whose values are alike in many objects.
pub trait Alike: PartialEq + Sized + 'static {
    /// Those that this thread has read lately.
    fn recent() -> &'static LocalKey<RefCell<Interner<Self>>>;
}

impl Alike for RouteStatus {
    fn recent() -> &'static LocalKey<RefCell<Interner<Self>>> {
        thread_local! { static RECENT: RefCell<Interner<RouteStatus>> = RefCell::default(); }
        &RECENT
    }
}

impl Alike for Box<[ParentReference]> {
    fn recent() -> &'static LocalKey<RefCell<Interner<Self>>> {
        thread_local! { static RECENT: RefCell<Interner<Box<[ParentReference]>>> = RefCell::default(); }
        &RECENT
    }
}

impl<T> Deref for SharedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for SharedValue<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: Serialize> Serialize for SharedValue<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Alike + Deserialize<'de>> Deserialize<'de> for SharedValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        Ok(Self(T::recent().with_borrow_mut(|recent| recent.intern(value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::HttpRoute;

    #[test]
    fn what_routes_have_alike_is_kept_once() -> Result<(), serde_json::Error> {
        let text = |name: &str, gateway: &str| {
            format!(
                r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"parentRefs": [{{"name": "{gateway}"}}]}},
                "status": {{"parents": [{{"controllerName": "one", "parentRef": {{"name": "{gateway}"}}, "conditions": []}}]}}}}"#
            )
        };
        let read = |name, gateway| serde_json::from_str::<HttpRoute>(&text(name, gateway));
        let (one, other, third) = (read("a", "front")?, read("b", "front")?, read("c", "back")?);
        assert!(Arc::ptr_eq(&one.spec.parent_refs.0, &other.spec.parent_refs.0));
        let statuses = one.status.as_ref().zip(other.status.as_ref());
        assert!(statuses.is_some_and(|(one, other)| Arc::ptr_eq(&one.0, &other.0)));
        assert_ne!((one.status, &one.spec.parent_refs), (third.status, &third.spec.parent_refs));
        assert_eq!(other.spec.parent_refs[0].name, "front");
        assert_eq!(third.spec.parent_refs[0].name, "back");
        Ok(())
    }
}
