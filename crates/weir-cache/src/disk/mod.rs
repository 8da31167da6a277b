//! Stored responses in files, behind those in memory: they survive a restart and may be larger.
//!
//! One file for each response, its head first and its body behind that, so that the kernel can send it from there. What there is, is known in
//! memory; everything that touches a file says *blocking* and is called on a thread that may wait for a disk.

mod folder;
mod purging;
mod writing;
mod reading;
mod state;
mod index;
mod paths;
mod header;

#[cfg(test)]
mod tests;

pub use folder::{DiskFolder, ScanReport};
pub use header::{FileHeader, HeaderFault, decode_payload};
pub use index::{DiskHit, DiskLimits, DiskSize};
pub use reading::DiskResponse;
pub use writing::DiskWriter;
