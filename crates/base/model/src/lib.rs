//! Plain data: plans, measurements, findings and comparisons.
//!
//! All values are immutable once built and do not depend on how they were produced or where they are sent.
//! These types are also stored and sent between processes. They carry a schema number. Fields are only ever
//! added, and with a default, so that older results stay readable.

mod diagnostic;
pub mod errno;
mod explanation;
pub mod job;
mod named;
pub mod ordered;
pub mod plan;
pub mod printable;
pub mod result;
pub mod run;
pub mod storage;
mod suggest;
pub mod trial;

pub use diagnostic::{Diagnostic, Place, Severity};
pub use errno::{errno_name, errno_named, errno_names};
pub use explanation::{
    Cause, Certainty, ComparedSides, Costs, DeviceCosts, Explained, ExplainedFamily, Explanation,
    Limit, Quantity, REQUEST_KINDS, Reasons, RequestCosts, Stack, StackOf, TimePart,
};
pub use job::*;
pub use plan::*;
pub use result::*;
pub use run::*;
pub use storage::*;
pub use suggest::closest;
pub use trial::*;

/// Schema number of everything stored or sent; incremented when a reader must know of a change.
pub const SCHEMA: u32 = 2;

/// Whether a field has its default, so that it need not be stored.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
