//! The table *where the memory is*: each target's pages by use, pages that several processes share counted once.

use super::summary::SummaryRow;
use crate::measure::metric::Metric;

/// Its columns.
pub(super) const COLUMNS: [Metric; 8] = [
    Metric::Pss,
    Metric::MemoryHeap,
    Metric::MemoryStack,
    Metric::MemoryShared,
    Metric::MemoryFile,
    Metric::MemoryOther,
    Metric::Rss,
    Metric::OpenDescriptors,
];

/// The note below it, with its limits.
pub(super) const CAPTION: &str = "Medians at the end of the window, over the whole process tree. PSS is the sum of heap, stack, shared memory, pages of files \
(program and libraries, in the page cache) and the rest (data of programs, mostly); RSS counts a page in every process that has it. \
Socket buffers and page tables are the kernel's and in none of them.";

/// Heading and lines; nothing when the memory of no target was sampled.
pub(super) fn cells(rows: &[SummaryRow]) -> Option<Vec<Vec<String>>> {
    let rows: Vec<&SummaryRow> =
        rows.iter().filter(|row| row.spreads.contains_key(&Metric::MemoryHeap)).collect();
    if rows.is_empty() {
        return None;
    }
    let heading = COLUMNS.iter().map(|metric| metric.heading().to_owned());
    let mut cells = vec![std::iter::once("target".to_owned()).chain(heading).collect::<Vec<_>>()];
    for row in rows {
        let name =
            if row.case.is_empty() { row.target.clone() } else { format!("{}, {}", row.target, row.case) };
        let figure =
            |metric: &Metric| row.spreads.get(metric).map_or("-".to_owned(), |it| metric.format(it.median));
        cells.push(std::iter::once(name).chain(COLUMNS.iter().map(figure)).collect());
    }
    Some(cells)
}
