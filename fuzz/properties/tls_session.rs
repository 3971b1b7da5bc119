//! What a client sends to a TLS session. No bytes may cause a panic, and cutting them must not change the verdict. Nobody completes
//! a handshake without its keys.

use std::fs::File;
use std::sync::{Arc, LazyLock};

use flash_core::connection::transport::CertificatesId;
use flash_tls::tickets::Tickets;
use flash_tls::{Certificate, Choices, Endpoint, Session, authority};

static ENDPOINT: LazyLock<Arc<Endpoint>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let local = authority::local(folder.path()).expect("a certificate");
    let certificates =
        vec![Certificate::read(&local.files, &|path| File::open(path)).expect("a certificate")];
    let tickets = Arc::new(Tickets::new().expect("random numbers"));
    let choices = Choices { http2: true, early_data: true };
    Arc::new(Endpoint::new(CertificatesId(0), certificates, None, tickets, choices))
});

/// A ServerHello and what follows it, with the chain of one certificate.
const ANSWER_BYTES_MAX: usize = 16 << 10;

pub(crate) fn check(input: &[u8]) {
    let whole = has_failed([input].into_iter());
    let (one, two) = input.split_at(input.len() / 2);
    assert_eq!(has_failed([one, two].into_iter()), whole);
    if input.len() <= 1024 {
        assert_eq!(has_failed(input.chunks(1)), whole);
    }
}

fn has_failed<'i>(pieces: impl Iterator<Item = &'i [u8]>) -> bool {
    let mut session = Session::default();
    let mut has_failed = false;
    for piece in pieces {
        let result = session
            .receive(
                piece,
                |_, _| Some(Arc::clone(&ENDPOINT)),
                |_| panic!("a message before the handshake is complete"),
            )
            .and_then(|()| session.step(|_| panic!("nobody has the keys")));
        has_failed |= result.is_err();
        assert!(!session.is_open() && session.outgoing().len() <= ANSWER_BYTES_MAX);
    }
    has_failed
}
