//! Flags of other servers, and what to write here instead.
//!
//! People type what they know from the server that they used before. The parser looks a flag up here when it knows none of
//! that name. Nothing here is a flag of Flash's: that would hide it.

/// A need, its names elsewhere, and the words that meet it here.
struct Foreign {
    names: &'static [&'static str],
    instead: &'static str,
}

const TABLE: &[Foreign] = &[
    Foreign {
        names: &["--cors", "--allow-origin", "--access-control-allow-origin"],
        instead: "write --header 'Access-Control-Allow-Origin: *'",
    },
    Foreign {
        names: &["--gzip", "-g", "--brotli", "--zstd", "--compression", "--deflate", "--precompressed"],
        instead: "Flash compresses text of itself, and sends a compressed copy that lies beside a file: --compress says in which codings",
    },
    Foreign { names: &["--no-gzip", "--no-compression"], instead: "write --compress off --no-precompressed" },
    Foreign {
        names: &["--ssl", "--ssl-cert", "--ssl-key", "--cert", "--key", "--tls-cert"],
        instead: "write --tls-certificate FILE --tls-key FILE, or --tls for a certificate for localhost",
    },
    Foreign {
        names: &["--http3"],
        instead: "Flash speaks HTTP/1.1 and HTTP/2, with TLS or without: put a proxy such as Caddy in front of it",
    },
    Foreign {
        names: &[
            "--root",
            "-r",
            "-d",
            "--dir",
            "--directory",
            "--public",
            "--webroot",
            "--www",
            "--docroot",
            "--document-root",
            "--chdir",
            "--path",
        ],
        instead: "write the folder without a flag: flash serve DIR",
    },
    Foreign {
        names: &["--single", "-s", "--page-fallback", "--history-api-fallback"],
        instead: "write --spa index.html",
    },
    Foreign {
        names: &["--try-files", "--rewrite", "--front-controller", "--fallback-resource"],
        instead: "write --fallback /index.php, or --spa index.html for a single-page application",
    },
    Foreign {
        names: &[
            "--browse",
            "--autoindex",
            "--auto-index",
            "--directory-listing",
            "--dir-listing",
            "--listing",
            "--list-directories",
            "--show-dir",
            "--showdir",
        ],
        instead: "write --list",
    },
    Foreign {
        names: &["--no-listing", "--no-dir-listing", "--no-directory-listing"],
        instead: "leave it out: Flash lists no folder without --list",
    },
    Foreign {
        names: &["--workers", "-w", "--worker-processes", "--jobs", "--concurrency"],
        instead: "write --loops N (event loops; without it, one for each processor)",
    },
    Foreign {
        names: &["--address", "-a", "--addr", "-b", "--interface", "-i", "--ip", "--host-name", "--hostname"],
        instead: "write --host ADDRESS, or --host 0.0.0.0 for every address",
    },
    Foreign { names: &["-l", "-P", "--http-port"], instead: "write --port N, or --listen ADDRESS:PORT" },
    Foreign { names: &["-o", "--launch", "--browser", "--open-browser"], instead: "write --open" },
    Foreign { names: &["--unix", "--socket", "--unix-socket"], instead: "write --listen unix:/path" },
    Foreign { names: &["--index-file", "--index-files", "--directory-index"], instead: "write --index NAME" },
    Foreign {
        names: &["--cache", "--max-age", "--cache-time", "--expires"],
        instead: "write --cache-control 'max-age=3600'",
    },
    Foreign { names: &["--no-cache", "--no-store", "--nocache"], instead: "write --cache-control no-store" },
    Foreign { names: &["--headers", "-H", "--add-header"], instead: "write --header 'Name: value'" },
    Foreign {
        names: &["--log", "--logfile", "--log-file", "--access-logfile", "--log-path"],
        instead: "write --access-log PATH, and --error-log PATH for errors",
    },
    Foreign {
        names: &["--silent", "--quiet", "-q", "--no-log", "--no-request-logging"],
        instead: "write --access-log off",
    },
    Foreign { names: &["--debug", "--log-level", "--loglevel"], instead: "write --verbose" },
    Foreign {
        names: &["--daemon", "-D", "--daemonize", "--background", "--detach", "--fork"],
        instead: "Flash stays in the foreground: let systemd run it, or write nohup flash serve DIR &",
    },
    Foreign {
        names: &["--pid", "--pidfile", "--pid-file"],
        instead: "leave it out: Flash stays in the foreground, and systemd knows its process",
    },
    Foreign { names: &["-c", "--conf", "-f"], instead: "write --config FILE" },
    Foreign { names: &["-t", "--test", "--validate"], instead: "write flash check --config FILE" },
    Foreign {
        names: &["--hidden", "--show-hidden", "--serve-hidden", "--show-dotfiles", "-A"],
        instead: "write --dotfiles",
    },
    Foreign {
        names: &["--no-dotfiles", "--ignore-hidden", "--hide-dotfiles"],
        instead: "leave it out: Flash hides them",
    },
    Foreign {
        names: &["--symlinks", "--follow-symlinks", "--follow", "-L"],
        instead: "write --follow-links anywhere",
    },
    Foreign {
        names: &["--no-symlinks", "--disable-symlinks"],
        instead: "leave it out: Flash follows no link out of DIR",
    },
    Foreign {
        names: &["--proxy-pass", "--reverse-proxy", "--backend"],
        instead: "write --proxy http://localhost:3000",
    },
    Foreign { names: &["--php", "--php-fpm"], instead: "write --fastcgi .php=unix:/run/php/php-fpm.sock" },
    Foreign { names: &["--cgi-bin", "--cgi-dir"], instead: "write --cgi /cgi-bin=DIR" },
    Foreign {
        names: &["--basic-auth", "--username", "--password", "--htpasswd", "--auth-basic"],
        instead: "write --auth FILE, and make the file with htpasswd -B -c FILE USER",
    },
    Foreign {
        names: &["--upload", "--uploads", "--upload-files", "--webdav", "--dav"],
        instead: "Flash takes no uploads itself: write --cgi or --fastcgi for a program that does",
    },
    Foreign {
        names: &["--timeout", "--keep-alive", "--keepalive", "--keepalive-timeout", "--keep-alive-timeout"],
        instead: "write --idle-timeout TIME, and --head-timeout TIME for slow requests",
    },
    Foreign {
        names: &[
            "--max-body-size",
            "--client-max-body-size",
            "--max-upload-size",
            "--body-limit",
            "--max-request-size",
        ],
        instead: "write --body-bytes-max BYTES",
    },
    Foreign {
        names: &["--max-connections", "--maxconn", "--worker-connections", "--limit-connections"],
        instead: "write --connections-max N",
    },
    Foreign {
        names: &["--error-page", "--404", "--page404", "--error-document"],
        instead: "put 404.html into DIR, or write --error-pages DIR for pages of every status",
    },
    Foreign {
        names: &["--watch", "--live", "--livereload", "--live-reload", "--reload"],
        instead: "Flash sees changed files within --revalidate, and reloads no browser",
    },
    Foreign { names: &["--chroot", "--jail"], instead: "write --helpers process, which serves in a sandbox" },
    Foreign { names: &["--group", "--uid", "--gid", "-u"], instead: "write --user USER:GROUP" },
    Foreign {
        names: &["--server-name", "--domain", "--vhost", "--virtual-host"],
        instead: "write a [site] table into a file, and --config FILE: see docs/configuration.md",
    },
    Foreign {
        names: &["--grace", "--graceful-timeout", "--shutdown-timeout"],
        instead: "write --drain TIME",
    },
];

/// What to write instead of a flag of another server, with or without its value.
pub(crate) fn instead(flag: &str) -> Option<&'static str> {
    let name = flag.split('=').next().unwrap_or(flag);
    TABLE.iter().find(|foreign| foreign.names.contains(&name)).map(|foreign| foreign.instead)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::command;
    use super::*;

    #[test]
    fn no_flag_is_here_twice_or_flashs_own() {
        let flash = command();
        let serve = flash.find_subcommand("serve").expect("there is flash serve");
        let mut seen = HashSet::new();
        for name in TABLE.iter().flat_map(|foreign| foreign.names) {
            assert!(seen.insert(name), "{name} is here twice");
            let is_own = serve.get_arguments().any(|flag| {
                let long = flag.get_long_and_visible_aliases().unwrap_or_default();
                let short = flag.get_short().map(|short| format!("-{short}"));
                long.iter().any(|long| format!("--{long}") == **name) || short.as_deref() == Some(name)
            });
            assert!(!is_own, "{name} is a flag of Flash's");
        }
    }

    /// Advice that names a flag which does not exist would be worse than none.
    #[test]
    fn what_it_says_instead_exists() {
        let flash = command();
        let serve = flash.find_subcommand("serve").expect("there is flash serve");
        let flags: HashSet<String> = serve
            .get_arguments()
            .filter_map(|flag| flag.get_long())
            .map(|long| format!("--{long}"))
            .collect();
        for foreign in TABLE {
            for word in foreign.instead.split([' ', ',', ':', '\'']).filter(|word| word.starts_with("--")) {
                assert!(flags.contains(word), "{}: there is no {word}", foreign.instead);
            }
        }
    }
}
