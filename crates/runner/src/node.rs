//! The child's end of the protocol.

use std::io;

use iodyno_model::Diagnostic;

use crate::protocol::{self, FromNode, PROTOCOL, ToNode};

/// The child's main: speaks the protocol on stdin and stdout until the trial has ended. The exit code.
pub fn serve() -> u8 {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let hello = FromNode::Hello {
        version: PROTOCOL,
        iodyno: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
    };
    if protocol::write(&mut output, &hello).is_err() {
        return 1;
    }
    while let Ok(message) = protocol::read::<ToNode>(&mut input) {
        if let ToNode::Prepare { .. } = message {
            let diagnostics = vec![Diagnostic::error("this node cannot prepare yet")];
            let refusal = FromNode::Unprepared { diagnostics };
            return u8::from(protocol::write(&mut output, &refusal).is_err());
        }
    }
    1
}
