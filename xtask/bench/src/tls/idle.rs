//! Memory of a connection with TLS that has had one answer and then says nothing, over HTTP/1.1 or HTTP/2.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use flash_h2::{Client, ClientEvent, CommonFields};
use flash_rig::fetch::exchange;
use flash_rig::{Running, interrupt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A handshake is a millisecond of the clients' time, so there are fewer than without TLS.
const CONNECTIONS: usize = 1_500;
/// Opened before and kept: what a server sets up once is not a connection's.
const FIRST_CONNECTIONS: usize = 64;

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Bytes for each connection.
pub(super) fn measure(running: &Running, certificate: &Path, http2: bool) -> Result<f64> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&fs::read(certificate)?)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![if http2 { &b"h2"[..] } else { b"http/1.1" }.to_vec()];
    let config = Arc::new(config);
    let mut held = Vec::with_capacity(CONNECTIONS + FIRST_CONNECTIONS);
    let mut open = |count: usize| -> Result<()> {
        for number in 0..count {
            interrupt::check()?;
            held.push(ask(running.port, &config, http2).with_context(|| format!("connection {number}"))?);
        }
        Ok(())
    };
    open(FIRST_CONNECTIONS)?;
    interrupt::sleep(Duration::from_millis(500))?;
    let before = running.process.memory()?.pss_anonymous_bytes;
    open(CONNECTIONS)?;
    interrupt::sleep(Duration::from_secs(1))?;
    let after = running.process.memory()?.pss_anonymous_bytes;
    Ok((after as f64 - before as f64) / CONNECTIONS as f64)
}

/// A connection that has had one answer.
fn ask(port: u16, config: &Arc<ClientConfig>, http2: bool) -> Result<Stream> {
    let socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let name = ServerName::try_from("127.0.0.1")?;
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(config), name)?, socket);
    match http2 {
        true => ask_http2(&mut stream, port)?,
        false => ensure!(exchange(&mut stream, "/1k.html", &[])?.status == 200, "another status than 200"),
    }
    Ok(stream)
}

fn ask_http2(stream: &mut Stream, port: u16) -> Result<()> {
    let mut client = Client::default();
    let common = CommonFields::new("https", &format!("127.0.0.1:{port}"), []);
    let mut out = Vec::new();
    client.open(("GET", "/1k.html"), &common, |_| {}, true, &mut out);
    stream.write_all(&out)?;
    let mut bytes = [0; 16 << 10];
    let mut is_over = false;
    while !is_over {
        let count = stream.read(&mut bytes)?;
        let mut input = &bytes[..count];
        while let Some(event) =
            client.next(&mut input, 0, |_, _, _| {}).map_err(|error| anyhow::anyhow!(error.reason))?
        {
            match event {
                ClientEvent::Fields { ends, .. } | ClientEvent::Data { ends, .. } => is_over |= ends,
                ClientEvent::Window { .. } => {}
                other => bail!("the server has sent {other:?}"),
            }
        }
        // The acknowledgement of its settings, which every server waits for.
        let mut control = Vec::new();
        client.take_control(&mut control);
        stream.write_all(&control)?;
    }
    Ok(())
}
