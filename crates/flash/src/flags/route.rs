//! What stands where among the site's names: `PREFIX=WHAT`, as the flags for programs take it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use flash_core::path::SitePath;
use flash_core::site::routes::RouteMatch;

/// A place, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteFlag<What> {
    pub place: RouteMatch,
    pub what: What,
}

/// Where a FastCGI server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    Unix(PathBuf),
    /// HOST:PORT; the host is looked up when the server starts.
    Inet(String),
}

/// The words of a command: a program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words(pub Vec<String>);

/// `PREFIX=DIR`.
pub(crate) fn folder() -> impl TypedValueParser<Value = RouteFlag<PathBuf>> {
    OsStringValueParser::new().try_map(|text: OsString| {
        let text = text.into_string().map_err(|_| "write it in UTF-8".to_owned())?;
        let (place, folder) = split(&text, "DIR")?;
        match place {
            RouteMatch::Prefix(_) => Ok(RouteFlag { place, what: PathBuf::from(folder) }),
            RouteMatch::Suffix(_) | RouteMatch::Rest => {
                Err(format!("write a prefix that begins with a slash: /cgi-bin={folder}"))
            }
        }
    })
}

/// The same, but not for all of a site.
pub(crate) fn private_folder() -> impl TypedValueParser<Value = RouteFlag<PathBuf>> {
    folder().try_map(|flag| match &flag.place {
        RouteMatch::Prefix(prefix) if **prefix == *b"/" => {
            Err("write a prefix that is a part of the site, such as /protected".to_owned())
        }
        _ => Ok(flag),
    })
}

/// `PREFIX=ADDR` or `.SUFFIX=ADDR`.
pub(crate) fn upstream(text: &str) -> Result<RouteFlag<Upstream>, String> {
    let (place, address) = split(text, "ADDR")?;
    let what = match address.strip_prefix("unix:") {
        Some("") => return Err("add the path: unix:/run/php/php-fpm.sock".into()),
        Some(path) => Upstream::Unix(path.into()),
        None => match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
                Upstream::Inet(address.into())
            }
            _ => return Err(format!("'{address}' is no address: write unix:/path or HOST:PORT")),
        },
    };
    Ok(RouteFlag { place, what })
}

/// `PREFIX=COMMAND` or `.SUFFIX=COMMAND`, the command as a shell would take it apart.
pub(crate) fn command(text: &str) -> Result<RouteFlag<Words>, String> {
    let (place, command) = split(text, "COMMAND")?;
    let words = shell_words::split(command).map_err(|error| error.to_string())?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(RouteFlag { place, what: Words(words) }),
        _ => Err("add the command: /app=/usr/local/bin/app".into()),
    }
}

fn split<'t>(text: &'t str, what: &str) -> Result<(RouteMatch, &'t str), String> {
    let (place, rest) = text.split_once('=').ok_or_else(|| format!("write PREFIX={what}"))?;
    if rest.is_empty() {
        return Err(format!("{what} is missing behind {place}="));
    }
    Ok((self::place(place)?, rest))
}

fn place(text: &str) -> Result<RouteMatch, String> {
    match text.as_bytes() {
        [b'.', rest @ ..] if !rest.is_empty() && !rest.contains(&b'/') => {
            Ok(RouteMatch::Suffix(text.as_bytes().into()))
        }
        [b'/', ..] => {
            let prefix = if text == "/" { text } else { text.trim_end_matches('/') };
            let path = SitePath::parse(prefix.as_bytes()).ok();
            match path.filter(|path| path.as_bytes() == prefix.as_bytes()) {
                Some(_) => Ok(RouteMatch::Prefix(prefix.as_bytes().into())),
                None => Err(format!("'{text}' is not how a path looks: write it decoded, such as /cgi-bin")),
            }
        }
        _ => Err(format!("'{text}' is neither a prefix such as /cgi-bin nor a suffix such as .php")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> RouteMatch {
        RouteMatch::Prefix(text.as_bytes().into())
    }

    #[test]
    fn places() {
        assert_eq!(place("/cgi-bin/"), Ok(prefix("/cgi-bin")));
        assert_eq!(place("/"), Ok(prefix("/")));
        assert_eq!(place("/a b"), Ok(prefix("/a b")));
        assert_eq!(place(".php"), Ok(RouteMatch::Suffix(b".php".as_slice().into())));
        for text in ["", "cgi-bin", ".", ".a/b", "//", "/a//b", "/a/../b", "/%41"] {
            assert!(place(text).is_err(), "{text}");
        }
    }

    #[test]
    fn upstreams() {
        let php = upstream(".php=unix:/run/php.sock").unwrap();
        assert_eq!(php.what, Upstream::Unix("/run/php.sock".into()));
        let app = upstream("/app=localhost:9000").unwrap();
        assert_eq!((app.place, app.what), (prefix("/app"), Upstream::Inet("localhost:9000".into())));
        assert!(upstream("/app=[::1]:9000").is_ok());
        for text in ["/app", "/app=", "app=:1", "/app=:9000", "/app=host", "/app=host:0", "/app=unix:"] {
            assert!(upstream(text).is_err(), "{text}");
        }
    }

    #[test]
    fn commands() {
        let app = command(".php=php-cgi -d 'memory_limit = 64M'").unwrap();
        assert_eq!(app.what, Words(["php-cgi", "-d", "memory_limit = 64M"].map(str::to_owned).into()));
        for text in ["/a=", "/a= ", "/a='x", "php-cgi"] {
            assert!(command(text).is_err(), "{text}");
        }
    }
}
