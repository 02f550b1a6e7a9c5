//! Hundreds of `kill -9` of a mirror's server, with the content of every block checked.

use crate::nbd::kills;

#[test]
fn no_acknowledged_write_is_lost_in_300_kills() {
    kills(300);
}
