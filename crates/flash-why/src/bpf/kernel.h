/* What the programs need of the kernel's types: the fields that they read, and no others. The loader finds where the running
 * kernel has them (CO-RE), so orders and sizes here mean nothing. Names of another kernel version carry a suffix `___`.
 * It leaves out the libbpf headers: a build needs clang and nothing else. */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KERNEL __attribute__((preserve_access_index))

struct list_head { struct list_head *next; } KERNEL;
struct qstr { const unsigned char *name; } KERNEL;
struct file_system_type { const char *name; } KERNEL;
struct super_block { struct file_system_type *s_type; } KERNEL;
struct inode { u16 i_mode; unsigned long i_ino; } KERNEL;
struct dentry { struct dentry *d_parent; struct qstr d_name; struct inode *d_inode; struct super_block *d_sb; } KERNEL;
struct vfsmount { struct dentry *mnt_root; } KERNEL;
struct mount { struct mount *mnt_parent; struct dentry *mnt_mountpoint; struct vfsmount mnt; } KERNEL;
struct path { struct vfsmount *mnt; struct dentry *dentry; } KERNEL;
struct file { struct path f_path; struct inode *f_inode; void *private_data; } KERNEL;
struct fdtable { u32 max_fds; struct file **fd; } KERNEL;
struct files_struct { struct fdtable *fdt; } KERNEL;
struct fs_struct { struct path pwd; } KERNEL;
struct cfs_rq { s32 throttle_count; } KERNEL;
struct sched_entity { struct cfs_rq *cfs_rq; } KERNEL;
struct counter { s32 counter; } KERNEL;
struct signal_struct { struct counter live; } KERNEL;
struct task_struct {
	s32 pid;
	s32 tgid;
	char comm[16];
	void *stack;
	struct files_struct *files;
	struct fs_struct *fs;
	struct sched_entity se;
	struct signal_struct *signal;
	unsigned int __state;
} KERNEL;
/* Before 5.14. */
struct task_struct___old { long state; } KERNEL;
/* From 6.18 on, a throttled thread leaves the processor by itself. */
struct task_struct___limbo { _Bool throttled; } KERNEL;
struct vm_area_struct { struct file *vm_file; } KERNEL;

struct epoll_filefd { struct file *file; } KERNEL;
struct epoll_event { u32 events; } KERNEL;
struct epitem { struct list_head rdllink; struct epoll_filefd ffd; struct epoll_event event; } KERNEL;
struct eventpoll { struct list_head rdllist; } KERNEL;
struct io_uring { u32 head; u32 tail; } KERNEL;
struct io_rings { struct io_uring cq; } KERNEL;
struct io_ring_ctx { struct io_rings *rings; } KERNEL;
struct sock_common { u8 skc_state; } KERNEL;
struct sk_buff_head { u32 qlen; } KERNEL;
struct sock { struct sock_common __sk_common; struct sk_buff_head sk_receive_queue; u32 sk_ack_backlog; } KERNEL;
struct socket { struct sock *sk; } KERNEL;

/* How user space entered the kernel; an ABI, hence fixed. */
struct registers {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_RINGBUF = 27 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*now_ns)(void) = (void *)5;
static u32 (*processor)(void) = (void *)8;
static u64 (*pid_tgid)(void) = (void *)14;
static long (*comm_of_current)(void *to, u32 size) = (void *)16;
static void *(*current_task)(void) = (void *)158;
static long (*stack_of)(void *context, void *to, u32 size, u64 flags) = (void *)67;
static long (*read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*read_kernel_text)(void *to, u32 size, const void *from) = (void *)115;
#define barrier() __asm__ volatile("" ::: "memory")

static void *(*ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ring_submit)(void *data, u64 flags) = (void *)132;
static u64 (*registers_of)(void *task) = (void *)175;
static long (*find_area)(void *task, u64 address, void *with, void *context, u64 flags) = (void *)180;

#define GET(from, field) \
	({ \
		typeof((from)->field) value_ = (typeof((from)->field))0; \
		read_kernel(&value_, sizeof(value_), &(from)->field); \
		value_; \
	})
#define HAS(from, field) __builtin_preserve_field_info((from)->field, 2)
