use super::*;
#[test]
fn empty() {
    assert_eq!(behaviour(&[], Kind::Timed), Behaviour::default());
}
