//! Compressed certificates (RFC 8879), with every architecture: fewer bytes before the first response.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use flash_tests::{PATIENCE, Server, connect, each, site};
use rustls::client::Resumption;
use rustls::compress::{BROTLI_DECOMPRESSOR, CertDecompressor, ZLIB_DECOMPRESSOR};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::client::Authority;

/// A socket, and how many bytes it has received.
struct Counted(TcpStream, usize);

impl Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(bytes)?;
        self.1 += count;
        Ok(count)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// How many bytes of the server a full handshake takes.
fn handshake_bytes(
    server: &Server,
    config: &Arc<ClientConfig>,
    decompressors: &[&'static dyn CertDecompressor],
) -> usize {
    let mut config = ClientConfig::clone(config);
    config.cert_decompressors = decompressors.to_vec();
    config.resumption = Resumption::disabled();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut socket = Counted(connect(server.address), 0);
    socket.0.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    while client.is_handshaking() {
        client.complete_io(&mut socket).expect("a handshake");
    }
    socket.1
}

#[test]
fn a_handshake_takes_fewer_bytes_if_the_client_takes_a_coding() {
    let (folder, authority) = (site::make(), Authority::new());
    let names = ["localhost", "www.localhost", "static.localhost", "api.localhost"];
    let (certificate, key) = authority.issue("localhost", &names);
    // As public authorities have it: the site's certificate, and one above it.
    let chain = authority.path("chain.pem");
    let above = fs::read(authority.path("authority.pem")).expect("a file");
    fs::write(&chain, [fs::read(&certificate).expect("a file"), above].concat()).expect("a file");
    let chain = chain.to_str().expect("UTF-8");
    each(|arch| {
        let server = Server::start(arch, folder.path(), &["--tls-certificate", chain, "--tls-key", &key]);
        let config = authority.client_of(&[&rustls::version::TLS13]);
        let bytes = |decompressors: &[_]| handshake_bytes(&server, &config, decompressors);
        let (whole, zlib, brotli) =
            (bytes(&[]), bytes(&[ZLIB_DECOMPRESSOR]), bytes(&[ZLIB_DECOMPRESSOR, BROTLI_DECOMPRESSOR]));
        println!("{arch}: {whole} bytes of the server, {zlib} with zlib, {brotli} with brotli");
        assert!(whole > zlib + 100 && whole > brotli + 100, "{arch}: {whole}, {zlib}, {brotli}");
        server.stop();
    });
}
