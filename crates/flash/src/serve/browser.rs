//! `--open`: this desktop's browser is shown the site.
//!
//! It is started when the listeners are open, while the server may still start programs. The kernel keeps its connection until
//! the server accepts it. If there is no browser, the server serves all the same.

use std::net::SocketAddr;
use std::sync::Arc;

use flash_arch::Listener;
use flash_http::Scheme;
use flash_process::child;

/// Opens the first place that a browser can reach.
pub(super) fn open(listeners: &[Arc<Listener>]) {
    let failure =
        match listeners.iter().find_map(|listener| Some(url(listener.scheme(), listener.address()?))) {
            Some(url) if open::that_detached(&url).is_ok() => return,
            Some(url) => format!("none can be started here; visit {url}"),
            None => "it cannot connect to a Unix socket".into(),
        };
    // With standard error closed there is nobody who waits for this line.
    child::log(format_args!("cannot open a browser: {failure}"));
}

/// Every address is no address that a browser can ask.
fn url(scheme: Scheme, address: SocketAddr) -> String {
    let scheme = scheme.name();
    match address.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}/", address.port()),
        false => format!("{scheme}://{address}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_asks_for_one_address() {
        for (address, asks) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("[::1]:80", "http://[::1]:80/"),
            ("0.0.0.0:80", "http://localhost:80/"),
            ("[::]:8080", "http://localhost:8080/"),
        ] {
            assert_eq!(url(Scheme::Http, address.parse().unwrap()), asks);
        }
    }
}
