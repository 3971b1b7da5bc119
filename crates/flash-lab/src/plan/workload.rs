//! What is asked of a server, in a plan's words.

use serde::{Deserialize, Serialize};

/// The requests of an experiment and the files they need.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// One file, asked for again and again.
    File { kilobytes: f64 },
    /// A real log, from its beginning until it has asked for so much, and again from there.
    Log { log: Log, data_set_mb: Option<f64> },
    /// SPECweb99's static files: 36 of them and 5.1 MB a folder. With `dynamic`, its whole mix, and its sessions.
    Specweb { folders: u32, dynamic: Option<Dynamic> },
    /// One target that a program answers, with so many bytes: `/cgi-bin/answer` and `/answer.php` say hello.
    Program { target: String, bytes: u64 },
    /// A site with these properties: a Zipf popularity of files whose sizes are lognormal.
    Synthetic { files: u32, data_set_mb: f64, zipf: f64 },
    /// A tree of many files of one size, each as likely to be asked for as the other.
    Tree {
        files: u32,
        kilobytes: f64,
        #[serde(default)]
        ask: Ask,
    },
    /// Connections that say nothing; memory is what is measured.
    Idle,
}

/// What answers most of the dynamic requests of SPECweb99's mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dynamic {
    /// A program that is started for each of them.
    Cgi,
    /// A script under php-fpm.
    Php,
}

/// What is asked of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Its files.
    #[default]
    Files,
    /// Names below its folders that do not exist, and that no client requested before.
    Missing,
}

/// A log of real traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Log {
    Nasa,
    Epa,
    WorldCup,
    Semicomplete,
}
