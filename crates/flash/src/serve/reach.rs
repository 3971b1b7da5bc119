//! Each FastCGI and HTTP server is tried once at the start, as the user that will serve.
//!
//! A refusal is explained on standard error, with what usually mends it. Flash serves all the same, because the FastCGI server
//! may start later. Requests are connected elsewhere.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flash_os::user;
use flash_upstream::{Connector, ServerConfig};

/// What is wrong with the server at that address, if it cannot be reached.
pub(super) fn refusal(place: &str, server: &ServerConfig, connector: Option<&Connector>) -> Option<String> {
    let error = server.reach(connector).err()?;
    let (name, hint) = (&server.name, hint(&error, server.address.path()));
    Some(format!("--fastcgi {place}: cannot connect to {name} yet ({error}): requests get 502{hint}"))
}

/// The same of an HTTP server.
pub(super) fn refusal_of_server(server: &ServerConfig, connector: Option<&Connector>) -> Option<String> {
    let name = &server.name;
    if server.address.is_unknown() {
        return Some(format!("--proxy {name}: its name has no address yet: requests get 502"));
    }
    let error = server.reach(connector).err()?;
    Some(format!("--proxy {name}: cannot connect yet ({error}): requests get 502; is the server running?"))
}

fn hint(error: &io::Error, socket: Option<&Path>) -> String {
    match (error.kind(), socket) {
        (ErrorKind::NotFound, Some(_)) => {
            "; is the FastCGI server running? Of php-fpm, 'listen' in its pool's file names the socket".into()
        }
        (ErrorKind::PermissionDenied, Some(path)) => match fs::metadata(path) {
            Ok(found) => {
                let owner = user::name_of(found.uid()).map_or_else(
                    || found.uid().to_string(),
                    |name| String::from_utf8_lossy(&name).into_owned(),
                );
                let group = user::group_name_of(found.gid()).map_or_else(
                    || found.gid().to_string(),
                    |name| String::from_utf8_lossy(&name).into_owned(),
                );
                format!(
                    "; the socket belongs to {owner}: start Flash as root with --user {owner}, or as a service whose unit has SupplementaryGroups={group}"
                )
            }
            Err(_) => "; start Flash as root with --user and the user of the FastCGI server".into(),
        },
        (ErrorKind::ConnectionRefused, Some(_)) => {
            "; the socket is there, and nothing listens at it: is the FastCGI server running?".into()
        }
        (ErrorKind::ConnectionRefused, None) => {
            "; nothing listens at that port: is the FastCGI server running?".into()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use flash_upstream::{Address, UnixAddress};

    use super::*;

    #[test]
    fn refusals_say_what_mends_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &Path| Address::Unix(UnixAddress::new(path).unwrap());
        let server = |address: &Address| {
            let address = address.clone();
            ServerConfig { name: format!("{address}"), address, lookup: None, tls: None, is_http2: false }
        };
        let said = |address: &Address| refusal(".php", &server(address), None).unwrap_or_default();
        let socket = folder.path().join("socket");
        assert!(said(&at(&socket)).contains("'listen' in its pool's file"));
        let listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(said(&at(&socket)), "");
        drop(listener);
        let text = said(&at(&socket));
        assert!(
            text.starts_with("--fastcgi .php: cannot connect to unix:/")
                && text.contains("nothing listens at it"),
            "{text}"
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inet = Address::Inet(vec![listener.local_addr().unwrap()]);
        assert_eq!(said(&inet), "");
        drop(listener);
        assert!(said(&inet).contains("nothing listens at that port"));
        let denied = hint(&ErrorKind::PermissionDenied.into(), Some(Path::new("/")));
        assert_eq!(
            denied,
            "; the socket belongs to root: start Flash as root with --user root, or as a service whose unit has SupplementaryGroups=root"
        );
    }
}
