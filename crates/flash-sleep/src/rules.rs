//! Which functions of the kernel mean which cause: data, in the order in which it is asked.
//!
//! A star at a name's end stands for any rest, and `a < b` for `a` called by `b`. Functions that many callers sleep in
//! (`folio_wait_bit_common`, `io_schedule`, `blk_mq_get_tag`) have no line of their own: their callers tell more.

use crate::cause::Cause;

/// Functions, any of which means the cause.
pub(crate) struct Rule {
    pub(crate) functions: &'static [&'static str],
    pub(crate) cause: Cause,
}

const fn rule(cause: Cause, functions: &'static [&'static str]) -> Rule {
    Rule { functions, cause }
}

/// How a thread comes to sleep, whatever for; and the tracing of it.
pub(crate) const SCHEDULING: [&str; 9] = [
    "trace_*",
    "__traceiter_*",
    "__schedule",
    "schedule",
    "preempt_schedule*",
    "schedule_preempt_disabled",
    "schedule_timeout*",
    "schedule_hrtimeout*",
    "schedule_idle",
];

/// The functions that only wait for events, innermost in a stack.
pub(crate) const WAITS: [&str; 12] = [
    "ep_poll",
    "do_epoll_wait",
    "io_cqring_wait",
    "io_cqring_schedule",
    "__io_cqring_wait_schedule",
    "io_cqring_wait_schedule",
    "io_cqring_schedule_timeout",
    "poll_schedule_timeout*",
    "do_poll",
    "do_sys_poll",
    "do_select",
    "read_events",
];

/// How a kernel lock is waited for.
pub(crate) const LOCKS: [&str; 10] = [
    "rwsem_down_*",
    "down_read*",
    "down_write*",
    "__down*",
    "mutex_lock*",
    "__mutex_lock*",
    "ww_mutex_lock*",
    "percpu_rwsem_wait",
    "__percpu_down_read*",
    "__rt_mutex_*",
];

/// Wherever they are in the stack.
pub(crate) const ANYWHERE: [Rule; 7] = [
    rule(
        Cause::Stopped,
        &["ptrace_stop", "do_signal_stop", "do_jobctl_trap", "do_freezer_trap", "__refrigerator"],
    ),
    // A thread touches memory that the kernel is just moving to make room for larger pages, or while another thread has the
    // process get or give back some; or sends a page of a snapshot that the kernel has locked, as it does to look whether it
    // can be dropped. None waits for a disk, and no program can rule out the first and the last.
    rule(
        Cause::MemoryMap,
        &["migration_entry_wait*", "lock_mm_and_find_vma", "__folio_lock < shmem_get_folio_gfp"],
    ),
    rule(
        Cause::Reclaim,
        &[
            "try_to_free_pages",
            "do_try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "shrink_node",
            "shrink_lruvec",
            "reclaim_throttle",
            "mem_cgroup_handle_over_high",
            "__mem_cgroup_handle_over_high",
            "mem_cgroup_oom*",
            "__alloc_pages_direct_*",
            "__alloc_pages_may_oom",
            "do_swap_page",
        ],
    ),
    rule(
        Cause::CgroupThrottle,
        &[
            "throttle_cfs_rq_work",
            "blkcg_maybe_throttle_*",
            "__blkcg_maybe_throttle*",
            "ioc_rqos_throttle",
            "iolatency_*",
        ],
    ),
    // The daemon's side of FUSE: it waits for requests.
    rule(Cause::PipeOrSocket, &["fuse_dev_do_read", "fuse_dev_read"]),
    rule(
        Cause::Remote,
        &["request_wait_answer", "fuse_*", "__fuse_*", "nfs_*", "nfs3_*", "nfs4_*", "rpc_*", "__rpc_*"],
    ),
    rule(Cause::Remote, &["cifs_*", "smb2_*", "p9_*", "v9fs_*", "ceph_*", "netfs_*"]),
];

/// The innermost function that is here decides.
pub(crate) const INNERMOST: [Rule; 14] = [
    rule(
        Cause::Journal,
        &[
            "jbd2_*",
            "__jbd2_*",
            "start_this_handle",
            "add_transaction_credits",
            "wait_transaction_*",
            "do_get_write_access",
            "ext4_fc_*",
            "ext4_force_commit",
            "xfs_log_*",
            "xlog_*",
            "__xfs_log_*",
            "btrfs_commit_transaction*",
            "btrfs_sync_log",
            "wait_current_trans*",
        ],
    ),
    rule(
        Cause::Writeback,
        &[
            "balance_dirty_pages*",
            "folio_wait_writeback*",
            "folio_wait_stable",
            "__filemap_fdatawait_range",
            "filemap_fdatawait*",
            "file_write_and_wait_range",
            "filemap_write_and_wait*",
            "__filemap_fdatawrite*",
            "filemap_fdatawrite*",
            "writeback_inodes_sb*",
            "try_to_writeback_inodes_sb",
            "wb_wait_for_completion",
            "wait_sb_inodes",
            "sync_inodes_sb",
            "rq_qos_wait",
            "wbt_wait",
            "blkdev_issue_flush",
            "generic_writepages",
            "do_writepages",
        ],
    ),
    rule(
        Cause::MetadataRead,
        &[
            "ext4_bread*",
            "__ext4_bread*",
            "ext4_read_*",
            "__ext4_read_*",
            "ext4_sb_bread*",
            "__ext4_sb_bread*",
            "ext4_wait_block_bitmap",
            "ext4_get_inode_loc*",
            "__ext4_get_inode_loc*",
            "ext4_iget*",
            "__ext4_iget",
            "ext4_find_entry",
            "__ext4_find_entry",
            "ext4_find_extent",
            "read_extent_tree_block",
            "__read_extent_tree_block",
            "ext4_lookup*",
            "ext4_readdir",
            "ext4_dx_*",
            "ext4_map_blocks",
            "ext4_xattr_*",
            "htree_dirblock_to_tree",
            "dx_probe",
            "exfat_*",
            "fat_*",
        ],
    ),
    rule(
        Cause::MetadataRead,
        &[
            "xfs_buf_*",
            "xfs_iget*",
            "xfs_lookup",
            "xfs_dir_*",
            "xfs_trans_read_buf_map",
            "read_extent_buffer_pages*",
            "btrfs_read_extent_buffer",
            "read_block_for_search",
            "btrfs_search_slot",
            "btrfs_lookup*",
            "f2fs_get_node_*",
            "__get_node_*",
            "f2fs_get_read_data_*",
            "f2fs_lookup",
            "squashfs_*",
            "isofs_*",
            "erofs_*",
            "overlay_*",
        ],
    ),
    rule(
        Cause::InodeLock,
        &[
            "d_alloc_parallel",
            "d_wait_lookup",
            "__d_lookup_wait*",
            "wait_on_inode",
            "__wait_on_freeing_inode*",
            "find_inode*",
            "inode_dio_wait*",
        ],
    ),
    rule(
        Cause::DirectIo,
        &[
            "iomap_dio_*",
            "__iomap_dio_*",
            "__blkdev_direct_IO*",
            "blkdev_direct_*",
            "dio_*",
            "do_blockdev_direct_IO",
        ],
    ),
    rule(
        Cause::PageCacheRead,
        &[
            "filemap_update_page",
            "filemap_get_pages",
            "filemap_read",
            "filemap_splice_read",
            "filemap_fault",
            "generic_file_read_iter",
            "ext4_file_read_iter",
            "page_cache_ra_*",
            "page_cache_sync_*",
            "page_cache_async_*",
            "force_page_cache_*",
            "read_pages",
            "do_read_cache_*",
            "read_cache_*",
            "page_get_link*",
            "xfs_file_buffered_read",
            "xfs_file_read_iter",
            "vfs_fadvise",
        ],
    ),
    rule(Cause::UserLock, &["futex_*", "__futex_*", "do_futex", "rt_mutex_slowlock*"]),
    rule(
        Cause::PipeOrSocket,
        &[
            "pipe_read",
            "pipe_write",
            "anon_pipe_read",
            "anon_pipe_write",
            "pipe_wait_*",
            "wait_for_partner",
            "wait_for_space",
            "fifo_open",
            "splice_from_pipe*",
            "splice_to_socket",
            "unix_*",
            "__unix_*",
            "sk_wait_data",
            "sk_stream_wait_*",
            "tcp_recvmsg*",
            "tcp_sendmsg*",
            "inet_csk_accept",
            "inet_csk_wait_for_connect",
            "inet_accept",
            "inet_stream_connect",
            "__inet_stream_connect",
            "inet_wait_for_connect",
            "__skb_wait_for_more_packets",
            "__skb_recv_*",
            "sock_alloc_send_pskb",
            "__lock_sock",
            "lock_sock_*",
            "n_tty_*",
            "tty_*",
            "wait_woken",
            "eventfd_*",
            "timerfd_*",
            "signalfd_*",
            "inotify_read",
            "do_accept",
        ],
    ),
    rule(
        Cause::KernelLock,
        &[
            "synchronize_rcu*",
            "synchronize_srcu*",
            "__synchronize_srcu",
            "rcu_sync_*",
            "__lru_add_drain_all",
            "lru_add_drain_all",
            "__flush_work",
        ],
    ),
    rule(Cause::Timer, &["do_nanosleep", "hrtimer_nanosleep", "common_nsleep*", "msleep*"]),
    rule(
        Cause::Signal,
        &["do_sigtimedwait", "sigsuspend", "do_pause", "__ia32_sys_pause", "__x64_sys_pause"],
    ),
    rule(Cause::Child, &["do_wait", "kernel_wait4", "kernel_waitid", "wait_for_vfork_done", "kernel_clone"]),
    rule(
        Cause::FileLock,
        &[
            "fcntl_setlk",
            "locks_lock_inode_wait",
            "posix_lock_inode_wait",
            "flock_lock_inode_wait",
            "flock_lock_inode",
        ],
    ),
];

/// What a kernel lock belongs to: the innermost function that is here decides.
pub(crate) const LOCKED: [Rule; 2] = [
    rule(
        Cause::MemoryMap,
        &[
            "do_user_addr_fault",
            "vm_mmap_pgoff",
            "__vm_munmap",
            "do_mprotect_pkey",
            "do_madvise",
            "madvise_*",
            "__do_sys_brk",
            "__do_sys_mremap",
            "exit_mm*",
            "mm_access",
            "dup_mmap",
            "ksys_mmap_pgoff",
        ],
    ),
    rule(
        Cause::InodeLock,
        &[
            "lookup_slow",
            "__lookup_slow",
            "lookup_one*",
            "walk_component",
            "link_path_walk*",
            "open_last_lookups",
            "path_openat",
            "lock_rename*",
            "lock_two_*",
            "do_rename*",
            "vfs_rename",
            "do_unlinkat",
            "do_rmdir",
            "do_mkdirat",
            "filename_create",
            "start_dirop",
            "__start_dirop",
            "vfs_unlink",
            "vfs_rmdir",
            "iterate_dir",
            "wrap_directory_iterator",
            "notify_change",
            "do_truncate",
            "chmod_common",
            "chown_common",
            "vfs_utimes",
            "vfs_setxattr",
            "generic_file_write_iter",
            "do_last",
            "filemap_invalidate_*",
            "ext4_*",
            "__ext4_*",
            "xfs_*",
            "btrfs_*",
            "f2fs_*",
            "filemap_*",
            "page_cache_*",
        ],
    ),
];

/// Where no other function is known: what such a wait is for most often.
pub(crate) const FALLBACK: [Rule; 2] = [
    rule(Cause::MetadataRead, &["__wait_on_buffer", "__bread_gfp", "bdev_getblk", "__bh_read"]),
    rule(
        Cause::PageCacheRead,
        &["folio_wait_bit_common", "folio_wait_bit*", "__folio_lock*", "submit_bio_wait"],
    ),
];
