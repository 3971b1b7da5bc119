//! Paths of the command line begin at the folder of the start. Those of the configuration file are absolute already.
//!
//! DIR and `--config` stay as they were written, because messages show them.

use std::path::PathBuf;

use flash_observe::Destination;

use super::{
    AdminAt, Auth, ErrorLogTo, FieldFile, FieldWords, ListenAddress, LogTo, RouteFlag, Serve, Signed,
    Upstream,
};
use crate::start_folder::{absolute, start_folder};

impl Serve {
    pub(super) fn make_absolute(&mut self) {
        let Self {
            digest_store,
            error_pages,
            listen,
            administration,
            access_log,
            error_log,
            tls,
            acme,
            programs,
            rules,
            fallback_root,
            ..
        } = self;
        let tls = tls.tls_certificate.iter_mut().chain(&mut tls.tls_key).chain(&mut tls.client_ca);
        tls.chain(error_pages).chain(digest_store).chain(fallback_root).for_each(make);
        let acme_files = acme.acme_ca.iter_mut().chain(&mut acme.acme_dns).chain(&mut acme.acme_account);
        acme_files.chain([&mut acme.acme_folder]).for_each(make);
        let sockets = listen.iter_mut().filter_map(|listen| match &mut listen.place {
            ListenAddress::Unix(place) => Some(&mut place.path),
            ListenAddress::Inet(_) | ListenAddress::EveryAddress(_) => None,
        });
        sockets.for_each(make);
        if let Some(AdminAt::Unix(path)) = &mut administration.admin {
            make(path);
        }
        if let Some(LogTo::To(to)) = access_log {
            log(to);
        }
        if let Some(ErrorLogTo(to)) = error_log {
            log(to);
        }
        if let Some(Auth::File(path)) = &mut rules.auth {
            make(path);
        }
        for signed in &mut rules.signed {
            if let Signed::Key(path) = signed {
                make(path);
            }
        }
        for RouteFlag { what, .. } in
            programs.cgi.iter_mut().chain(&mut programs.cgi_direct).chain(&mut programs.files)
        {
            make(what);
        }
        for FieldFile { words, .. } in &mut rules.field_rules {
            if let FieldWords::File(path) = words {
                make(path);
            }
        }
        for path in [&mut programs.http.proxy_ca, &mut rules.redirects].into_iter().flatten() {
            make(path);
        }
        for RouteFlag { what, .. } in &mut programs.fastcgi {
            if let Upstream::Unix(path) = what {
                make(path);
            }
        }
    }
}

fn make(path: &mut PathBuf) {
    *path = absolute(path);
}

fn log(to: &mut Destination) {
    *to = to.below(start_folder());
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::flags::{Command, Flags, command};

    /// DIR and `--config` are shown as they were written. Paths of sites and their rules are not of the disk, and the others are texts.
    const NO_PATHS: [&str; 22] = [
        "dir",
        "config",
        "spa",
        "fallback",
        "list_header",
        "list_footer",
        "strip_prefix",
        "redirect",
        "cache_control",
        "header",
        "types",
        "extensions",
        "user",
        "cgi_user",
        "acme_profile",
        // The program of a command is looked for as a shell does.
        "app",
        "index",
        // Sockets are named by their whole paths.
        "proxy",
        "proxy_host",
        "proxy_header",
        "proxy_response_header",
        "fastcgi_param",
    ];

    #[test]
    fn every_flag_takes_relative_paths_from_the_folder_of_the_start() {
        let flash = command();
        let serve = flash.find_subcommand("serve").unwrap();
        let whole = start_folder().join("rel/x").display().to_string();
        let mut found = 0;
        for arg in serve.get_arguments().filter(|arg| !NO_PATHS.contains(&arg.get_id().as_str())) {
            for form in [
                "rel/x",
                "unix:rel/x",
                "/p=rel/x",
                "key=rel/x",
                ".s=unix:rel/x",
                "syslog:unix:rel/x",
                "journald:unix:rel/x",
            ] {
                let Some(name) = arg.get_long().filter(|_| arg.get_action().takes_values()) else { continue };
                let mut words: Vec<OsString> =
                    vec!["flash".into(), "serve".into(), format!("--{name}={form}").into()];
                words.extend(["--tls-certificate=/x", "--tls-key=/x"].map(Into::into).into_iter().filter(
                    |word: &OsString| {
                        name.starts_with("tls-") && !word.to_str().unwrap().starts_with(&format!("--{name}="))
                    },
                ));
                let Ok(Flags { command: Some(Command::Serve(flags)) }) = Flags::read(words) else { continue };
                let shown = format!("{flags:?}");
                // A flag that takes only paths takes `unix:rel/x` as one, too.
                let whole = [&whole, &start_folder().join(form).display().to_string()]
                    .map(|whole| shown.matches(whole.as_str()).count());
                assert_eq!(
                    shown.matches("rel/x").count(),
                    whole[0].max(whole[1]),
                    "--{name}={form}: {shown}"
                );
                found += shown.matches("rel/x").count();
            }
        }
        assert!(found >= 14, "{found}");
    }
}
