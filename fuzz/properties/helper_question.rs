//! A message of an asker: any bytes are a question or not, and a question is the same after another round.

use flash_helper::protocol::Question;

pub(crate) fn check(message: &[u8]) {
    if let Ok(question) = Question::decode(message) {
        assert!(question.window.start <= question.window.end);
        assert_eq!(Question::decode(&question.encode()), Ok(question));
    }
}
