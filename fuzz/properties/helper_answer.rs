//! A message of `flash helper`: any bytes are an answer, a root or a greeting, or none of them. What they are is the same after
//! another round.

use flash_helper::protocol::{Answer, Hello, Root};

pub(crate) fn check(message: &[u8]) {
    if let Some(answer) = Answer::decode(message) {
        assert!(answer.window.start <= answer.window.end);
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
    if let Some(root) = Root::decode(message) {
        assert_eq!(Root::decode(&root.encode()), Some(root));
    }
    if let Some(hello) = Hello::decode(message) {
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
    }
}
