//! What a [`Disk`](crate::Disk) serves, and how. Where the values come from is not decided here.

use std::path::PathBuf;
use std::time::Duration;

use flash_core::header::HeaderTemplate;

/// What is served of the folder, and how names lead to it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names tried in a folder, in order.
    pub index: Vec<Vec<u8>>,
    pub follow_links: FollowLinks,
    /// What the names of programs end in: such a file is never opened.
    pub scripts: Vec<Vec<u8>>,
    /// Folders of programs, by their real paths: no file in them is ever sent, should they lie in the site.
    pub program_folders: Vec<PathBuf>,
    /// Look for `.br`, `.zst` and `.gz` beside a file.
    pub precompressed: bool,
    /// Served in place of pages that do not exist, relative to the root.
    pub spa: Option<Vec<u8>>,
    /// The folder in a user's home behind `/~name/`.
    pub user_dirs: Option<Vec<u8>>,
    /// Show names that begin with a dot.
    pub dotfiles: bool,
    /// The largest file that is copied into memory when it is found.
    pub memory_file_bytes_max: u64,
    /// Memory for all copies, those still being sent after the cache let them go among them.
    pub copies_bytes_max: u64,
    /// Memory for listings; one that does not fit is refused.
    pub listings_bytes_max: u64,
    /// How long a listing answers further requests.
    pub revalidate_ms: u64,
    pub send_mode: SendMode,
    /// How long the names of a folder are held in memory where nothing tells that it has changed.
    pub names_briefly: Duration,
    /// Take it for granted that a file's pages are in memory, for experiments: who sends them may have to wait.
    pub residency_assumed: bool,
    pub template: HeaderTemplate,
}

/// How the content of files leaves that are not held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// As a copy of one piece after the other, each checked when it has been taken.
    Copy,
    /// From the page cache itself, by `sendfile`. A file that is changed in place may then reach clients as a mixture,
    /// because what lies in a socket is still the page.
    Sendfile,
    /// The same through a map, as the Flash of 1999 did it; for experiments.
    Mmap,
    /// As copies of a file that is opened anew for each piece, for experiments: nothing is kept from one to the next.
    Reopen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowLinks {
    /// Symbolic links that stay below the root.
    Inside,
    Anywhere,
}
