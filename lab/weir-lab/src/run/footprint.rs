//! The resources of a target at one moment: memory and where it is, descriptors. Read when nothing is timed.

use crate::measure::memory::{self, Breakdown};
use crate::measure::metric::Metric;
use crate::measure::sockets;
use crate::results::measurement::Measurement;

/// Notes the resources of the tree under `pid`.
pub(super) fn note(measurement: &mut Measurement, pid: i32) {
    let whole = memory::of_tree(pid);
    let Breakdown { heap, stack, shared, file, other } = memory::breakdown(pid);
    let values = &mut measurement.values;
    for (metric, bytes) in [
        (Metric::Rss, whole.rss),
        (Metric::Pss, whole.pss),
        (Metric::MemoryHeap, heap),
        (Metric::MemoryStack, stack),
        (Metric::MemoryShared, shared),
        (Metric::MemoryFile, file),
        (Metric::MemoryOther, other),
        (Metric::OpenDescriptors, sockets::descriptors(pid)),
    ] {
        values.insert(metric, bytes as f64);
    }
}
