//! Stacks as kernels give them, and their causes.

use crate::{Cause, Stack, is_remote};

fn cause(stack: &str) -> Cause {
    Stack::new(stack.split_whitespace()).cause(None)
}

#[test]
fn causes_by_the_innermost_function() {
    let known = [
        ("__schedule schedule schedule_hrtimeout_range_clock do_epoll_wait do_syscall_64", Cause::Events),
        ("schedule io_cqring_wait __do_sys_io_uring_enter", Cause::Events),
        (
            "schedule io_schedule folio_wait_bit_common filemap_get_pages filemap_read vfs_read",
            Cause::PageCacheRead,
        ),
        (
            "__schedule io_schedule bit_wait_io __wait_on_bit ext4_bread __ext4_read_dirblock ext4_dx_find_entry",
            Cause::MetadataRead,
        ),
        ("schedule rwsem_down_read_slowpath down_read lookup_slow walk_component", Cause::InodeLock),
        ("schedule d_alloc_parallel __lookup_slow", Cause::InodeLock),
        ("schedule jbd2_log_wait_commit ext4_sync_file", Cause::Journal),
        ("io_schedule folio_wait_bit folio_wait_writeback __filemap_fdatawait_range", Cause::Writeback),
        (
            "schedule_timeout io_schedule_timeout balance_dirty_pages ext4_buffered_write_iter",
            Cause::Writeback,
        ),
        (
            "io_schedule folio_wait_writeback shrink_folio_list shrink_node do_try_to_free_pages filemap_read",
            Cause::Reclaim,
        ),
        (
            "io_schedule folio_wait_bit_common filemap_fault __do_fault handle_mm_fault exc_page_fault asm_exc_page_fault",
            Cause::PageFault,
        ),
        ("schedule request_wait_answer __fuse_simple_request fuse_lookup_name", Cause::Remote),
        ("schedule __futex_wait futex_wait do_futex", Cause::UserLock),
        ("schedule anon_pipe_read vfs_read", Cause::PipeOrSocket),
        ("schedule_timeout wait_woken sk_wait_data tcp_recvmsg_locked", Cause::PipeOrSocket),
        ("schedule throttle_cfs_rq_work task_work_run", Cause::CgroupThrottle),
        ("schedule do_nanosleep hrtimer_nanosleep", Cause::Timer),
        ("schedule something_new another", Cause::Unknown),
        ("schedule rwsem_down_write_slowpath something_new", Cause::KernelLock),
        ("_einittext bpf_trace_run4 __schedule schedule anon_pipe_read", Cause::PipeOrSocket),
        ("", Cause::Unknown),
    ];
    for (stack, expected) in known {
        assert_eq!(cause(stack), expected, "{stack}");
    }
}

/// As Linux 6.18 gives them.
#[test]
fn what_waits_for_writing() {
    let wait = "io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit";
    let outer = "do_syscall_64 entry_SYSCALL_64_after_hwframe";
    let known = [
        // ext4 without a journal.
        (format!("{wait} __sync_dirty_buffer ext4_write_inode ext4_fsync_nojournal"), Cause::Writeback),
        (format!("{wait} __sync_dirty_buffer ext4_fsync_nojournal ext4_sync_file"), Cause::Writeback),
        (format!("{wait} fsync_buffers_list generic_buffers_fsync_noflush"), Cause::Writeback),
        ("wait_for_completion __flush_workqueue ext4_sync_fs ksys_sync".into(), Cause::Writeback),
        ("__mutex_lock sync_inodes_sb __iterate_supers ksys_sync".into(), Cause::Writeback),
        ("rwsem_down_write_slowpath down_write sync_inodes_sb sync_filesystem".into(), Cause::Writeback),
        ("wait_for_completion btrfs_wait_ordered_extents btrfs_sync_fs".into(), Cause::Writeback),
        ("btrfs_start_ordered_extent_nowriteback btrfs_wait_ordered_range".into(), Cause::Writeback),
        (
            "__reserve_bytes btrfs_reserve_metadata_bytes start_transaction btrfs_rename".into(),
            Cause::Writeback,
        ),
        ("wait_for_completion xfs_buf_iowait xfs_bwrite xfs_sync_sb".into(), Cause::Writeback),
        ("wait_for_commit btrfs_wait_for_commit btrfs_attach_transaction_barrier".into(), Cause::Journal),
        ("io_schedule folio_wait_bit write_all_supers btrfs_sync_log".into(), Cause::Journal),
        ("schedule __xfs_iunpin_wait xfs_iunpin_wait xfs_reclaim_inode".into(), Cause::Journal),
        // A file system that no rule knows, below each call that has things written.
        (format!("{wait} bcachefs_waits vfs_fsync_range ksys_write"), Cause::Writeback),
        ("schedule zfs_waits __x64_sys_fdatasync".into(), Cause::Writeback),
        ("schedule zfs_waits __arm64_sys_syncfs".into(), Cause::Writeback),
        ("schedule zfs_waits __do_sys_msync".into(), Cause::Writeback),
        // What such a call reads on its way is read all the same, and a lock is a lock.
        (
            format!("{wait} ext4_wait_block_bitmap ext4_map_blocks do_writepages do_fsync"),
            Cause::MetadataRead,
        ),
        (
            "__mutex_lock ext4_mb_new_blocks ext4_do_writepages do_writepages do_fsync".into(),
            Cause::InodeLock,
        ),
        // What a write covers in part is read first.
        (format!("{wait} ext4_block_write_begin generic_perform_write ksys_write"), Cause::PageCacheRead),
        ("io_schedule __folio_lock prepare_one_folio btrfs_buffered_write".into(), Cause::PageCacheRead),
        ("schedule rwsem_down_write_slowpath ovl_inode_lock ovl_copy_up_one".into(), Cause::InodeLock),
        ("schedule __mutex_lock nfs42_proc_copy ksys_copy".into(), Cause::Remote),
        ("schedule virtio_fs_send_req fuse_request".into(), Cause::Remote),
        (format!("{wait} something_new"), Cause::MetadataRead),
    ];
    for (stack, expected) in known {
        assert_eq!(cause(&format!("{stack} {outer}")), expected, "{stack}");
    }
}

#[test]
fn a_place_begins_with_what_says_something() {
    let place = |stack: &str| Stack::new(stack.split_whitespace()).place().join(" ");
    assert_eq!(
        place("__schedule io_schedule bit_wait_io __wait_on_bit ext4_bread vfs_read"),
        "ext4_bread vfs_read"
    );
    assert_eq!(place("schedule rwsem_down_read_slowpath down_read lookup_slow openat"), "lookup_slow openat");
    assert_eq!(place("schedule something_new another"), "something_new another");
}

#[test]
fn only_the_wait_itself_is_a_wait() {
    let fault = "__schedule io_schedule folio_wait_bit_common filemap_fault exc_page_fault do_epoll_wait";
    assert_eq!(cause(fault), Cause::PageFault);
    assert_eq!(
        cause("schedule rwsem_down_read_slowpath ep_send_events ep_poll do_epoll_wait"),
        Cause::KernelLock
    );
    let moved = "schedule io_schedule migration_entry_wait_on_locked migration_entry_wait do_swap_page";
    assert_eq!(cause(moved), Cause::MemoryMap);
    assert_eq!(cause("schedule io_schedule __folio_lock shmem_get_folio_gfp do_sendfile"), Cause::MemoryMap);
    let swapped = "io_schedule __folio_lock shmem_swapin_folio shmem_get_folio_gfp do_sendfile";
    assert_ne!(cause(swapped), Cause::MemoryMap);
}

#[test]
fn the_file_system_tells_what_the_stack_does_not() {
    let read =
        Stack::new(["schedule", "folio_wait_bit_common.part.0", "filemap_fault+0x7", "exc_page_fault"]);
    assert_eq!(read.cause(Some("ext4")), Cause::PageFault);
    assert_eq!(read.cause(Some("fuse.sshfs")), Cause::Remote);
    assert!(is_remote("nfs4") && is_remote("fuse") && !is_remote("fusectl") && !is_remote("tmpfs"));
}

#[test]
fn names_of_causes_are_different() {
    let mut names: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Cause::ALL.len());
}
