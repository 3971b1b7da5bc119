/* What the kernel does for `flash why`: it sees each switch of the watched processes' threads, sums up their waits for events,
 * and sends every other sleep (a block) through a ring buffer as two records, its begin and its end.
 * It leaves out what a sleep means: causes and words are user space's. The layout of records is record.rs's too. */

#include "kernel.h"

#define STACK_MAX 48
#define WAKER_STACK_MAX 16
#define TEXT_MAX 256
#define PATH_MAX_BYTES 512
#define COMPONENTS_MAX 40
#define READY_MAX 256
#define THREADS_MAX 16384
#define NO_WAKEUP 1

enum { RECORD_BEGIN = 1, RECORD_END = 2, RECORD_GONE = 3 };
enum { AWAKE, WAITS, BLOCKED };
/* Of a record. */
enum { THROTTLED = 1, IN_FAULT = 2, PATH_WHOLE = 4, PATH_OF_FAULT = 8 };
/* Of a call's description: eight bits each for the path's, its folder's and the descriptor's argument, counted from 1. */
enum { IS_WAIT = 1 << 24, IS_EPOLL = 1 << 25, IS_RING = 1 << 26, IS_POLL = 1 << 27 };
enum { TASK_SLEEPS = 0xff, TASK_ENDS = 0xb0, TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2 };
enum { AT_FDCWD = -100, KIND_OF_FILE = 0170000, KIND_SOCKET = 0140000 };
enum { TCP_CLOSE_WAIT = 8, TCP_LISTEN = 10 };
#define EPOLLOUT 4u
#define EPOLLET (1u << 31)
#define NO_CALL (~0ull)

/* Set before loading. */
const volatile u32 HAS_PREV_STATE = 1;
const volatile u32 HAS_REGISTERS_OF = 1;
const volatile u64 FAULT_FROM = 0;
const volatile u64 FAULT_TO = 0;

struct thread {
	u64 since, waits, wait_ns, blocks, block_ns, lost;
	u64 fault_address, fault_file;
	u32 tgid, doing, poller, poller_is_ring, is_loop, waker, waker_stack_len, begun;
	char waker_name[16];
	u64 waker_stack[WAKER_STACK_MAX];
	u64 woken;
};

struct begin {
	u32 kind, flags, tgid, tid;
	u64 time, call, args[6], fault_address, inode;
	u32 cpu, state, mode, stack_bytes;
	char name[16];
	char filesystem[16];
	u64 stack[STACK_MAX];
	char text[TEXT_MAX];
	char path[PATH_MAX_BYTES];
};

struct end {
	u32 kind, tgid, tid, cpu;
	u64 since, time;
	s32 ready;
	u32 waker, stack_bytes, unused;
	char waker_name[16];
	u64 stack[WAKER_STACK_MAX];
};

struct gone {
	u32 kind, tgid, tid, is_loop, poller, poller_is_ring;
	u64 waits, wait_ns, blocks, block_ns, lost;
	char name[16];
};

#define MAP(map, kind, key_type, value_type, entries) \
	struct { \
		int (*type)[kind]; \
		int (*max_entries)[entries]; \
		key_type *key; \
		value_type *value; \
	} map SEC(".maps")

MAP(watched, MAP_HASH, u32, u8, THREADS_MAX);
MAP(threads, MAP_HASH, u32, struct thread, THREADS_MAX);
MAP(calls, MAP_ARRAY, u32, u32, 1024);
MAP(unseen, MAP_ARRAY, u32, u64, 1);
#define RING(ring, bytes) \
	struct { \
		int (*type)[MAP_RINGBUF]; \
		int (*max_entries)[bytes]; \
	} ring SEC(".maps")

/* Loops have a ring of their own, so that the records of a busy pool of threads do not displace theirs. */
RING(of_loops, 8 << 20);
RING(of_others, 16 << 20);
/* A thread's `begun`: the ring that has the begin of its sleep. */
enum { NOWHERE, IN_OF_LOOPS, IN_OF_OTHERS };

static const struct thread NEW;

INLINE u32 ring_of(struct thread *thread)
{
	return thread->is_loop ? IN_OF_LOOPS : IN_OF_OTHERS;
}

/* Two calls, because the kernel wants to know the ring of each. */
INLINE void *reserve(u32 ring, u64 size)
{
	if (ring == IN_OF_LOOPS)
		return ring_reserve(&of_loops, size, 0);
	barrier();
	return ring_reserve(&of_others, size, 0);
}

INLINE void count_unseen(void)
{
	u32 zero = 0;
	u64 *count = map_lookup(&unseen, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
}

INLINE struct thread *thread_of(u32 tid, u32 tgid)
{
	struct thread *thread = map_lookup(&threads, &tid);
	if (thread)
		return thread;
	/* A pid that another process had before. */
	map_update(&threads, &tid, &NEW, 0);
	thread = map_lookup(&threads, &tid);
	if (thread) {
		thread->tgid = tgid;
	} else {
		count_unseen();
	}
	return thread;
}

INLINE struct registers *user_registers(struct task_struct *task)
{
	if (HAS_REGISTERS_OF)
		return (struct registers *)registers_of(task);
	return (struct registers *)((u64)task->stack + (16 << 10) - sizeof(struct registers));
}

INLINE struct file *file_of(struct task_struct *task, u64 descriptor)
{
	struct files_struct *files = GET(task, files);
	struct fdtable *table = GET(files, fdt);
	struct file **list = GET(table, fd);
	struct file *file = 0;
	if ((u32)descriptor < GET(table, max_fds))
		read_kernel(&file, sizeof(file), &list[(u32)descriptor]);
	return file;
}

/* The components of a path, innermost first, each with a zero behind it. */
static __attribute__((noinline)) int walk(struct begin *begin, u64 dentry_at, u64 mnt_at)
{
	struct dentry *dentry = (struct dentry *)dentry_at;
	struct vfsmount *mnt = (struct vfsmount *)mnt_at;
	u32 at = 0;
	if (!begin)
		return 0;
	struct super_block *sb = GET(dentry, d_sb);
	struct file_system_type *type = GET(sb, s_type);
	read_kernel_text(begin->filesystem, sizeof(begin->filesystem), GET(type, name));
	struct inode *inode = GET(dentry, d_inode);
	begin->mode = GET(inode, i_mode);
	begin->inode = GET(inode, i_ino);
	for (int i = 0; i < COMPONENTS_MAX; i++) {
		struct dentry *parent = GET(dentry, d_parent);
		if (dentry == GET(mnt, mnt_root) || dentry == parent) {
			struct mount *mount = (void *)mnt - __builtin_preserve_field_info(((struct mount *)0)->mnt, 0);
			struct mount *above = GET(mount, mnt_parent);
			if (above == mount || !above) {
				begin->flags |= PATH_WHOLE;
				break;
			}
			dentry = GET(mount, mnt_mountpoint);
			mnt = &above->mnt;
			continue;
		}
		if (at > PATH_MAX_BYTES - 257)
			break;
		long got = read_kernel_text(&begin->path[at], 256, GET(dentry, d_name.name));
		if (got <= 0 || got > 256)
			break;
		at += got;
		dentry = parent;
	}
	if (at < PATH_MAX_BYTES)
		begin->path[at] = 0;
	return 0;
}

INLINE void note_path(struct begin *begin, struct path *path)
{
	walk(begin, (u64)GET(path, dentry), (u64)GET(path, mnt));
}

INLINE u64 argument(struct begin *begin, u32 number)
{
	u32 index = (number - 1) & 7;
	return begin->args[index > 5 ? 5 : index];
}

/* What the call is about: the text that user space passed, and the path of a file, of the folder below which the text is to be
 * found, or of the file whose mapping is touched. */
INLINE void note_call(struct begin *begin, struct task_struct *task, struct thread *thread, u32 call)
{
	u32 text = call & 0xff, folder = call >> 8 & 0xff, descriptor = call >> 16 & 0xff;
	struct file *file = 0;
	if (begin->flags & IN_FAULT) {
		begin->fault_address = thread->fault_address;
		file = (struct file *)thread->fault_file;
		begin->flags |= PATH_OF_FAULT;
	} else if (text) {
		read_user_text(begin->text, TEXT_MAX, (void *)argument(begin, text));
		s32 at = folder ? (s32)argument(begin, folder) : AT_FDCWD;
		if (begin->text[0] == '/')
			return;
		if (at == AT_FDCWD) {
			note_path(begin, &GET(task, fs)->pwd);
			return;
		}
		file = file_of(task, at);
	} else if (descriptor) {
		file = file_of(task, argument(begin, descriptor));
	}
	if (file)
		note_path(begin, &file->f_path);
}

INLINE int is_throttled(struct task_struct *task)
{
	struct task_struct___limbo *limbo = (void *)task;
	if (HAS(limbo, throttled))
		return GET(limbo, throttled);
	struct cfs_rq *queue = GET(task, se.cfs_rq);
	return HAS(queue, throttle_count) && GET(queue, throttle_count) > 0;
}

INLINE void note_poller(struct thread *thread, u32 call, u64 first_argument, u64 second_argument)
{
	/* A worker that waits for the answer to a question is no loop. */
	if (call & IS_POLL && second_argument < 2)
		return;
	thread->is_loop = 1;
	if (call & (IS_EPOLL | IS_RING)) {
		thread->poller = (u32)first_argument + 1;
		thread->poller_is_ring = call & IS_RING;
	}
}

/* Whether a member of epoll's ready list has something to do. A level-triggered one stays there after it was served. */
INLINE int has_something(struct epitem *item)
{
	u32 events = GET(item, event.events);
	struct file *file = GET(item, ffd.file);
	struct inode *inode = GET(file, f_inode);
	if (events & (EPOLLET | EPOLLOUT) || (GET(inode, i_mode) & KIND_OF_FILE) != KIND_SOCKET)
		return 1;
	struct socket *socket = GET(file, private_data);
	struct sock *sock = GET(socket, sk);
	u8 state = GET(sock, __sk_common.skc_state);
	if (state == TCP_LISTEN)
		return GET(sock, sk_ack_backlog) > 0;
	return state == TCP_CLOSE_WAIT || GET(sock, sk_receive_queue.qlen) > 0;
}

/* How many of the loop's connections are ready, or -1 if that is not known. */
static __attribute__((noinline)) int ready(u64 task_at, u64 poller, u64 is_ring)
{
	struct task_struct *task = (struct task_struct *)task_at;
	struct file *file = file_of(task, poller);
	if (!file)
		return -1;
	if (is_ring) {
		struct io_ring_ctx *ring = GET(file, private_data);
		struct io_rings *rings = GET(ring, rings);
		return GET(rings, cq.tail) - GET(rings, cq.head);
	}
	struct eventpoll *poll = GET(file, private_data);
	struct list_head *head = &poll->rdllist, *node = GET(poll, rdllist.next);
	int count = 0;
	for (int i = 0; i < READY_MAX; i++) {
		if (!node || node == head)
			break;
		struct epitem *item = (void *)node - __builtin_preserve_field_info(((struct epitem *)0)->rdllink, 0);
		count += has_something(item);
		node = GET(node, next);
	}
	return count;
}

/* The sleep is over. Without `seen`, the switch that ended it was not. */
INLINE void wakes(struct task_struct *task, struct thread *thread, u64 now, int seen)
{
	u32 did = thread->doing;
	thread->doing = AWAKE;
	if (did == WAITS) {
		thread->waits++;
		if (seen)
			thread->wait_ns += now - thread->since;
		return;
	}
	thread->block_ns += now - thread->since;
	if (!thread->begun)
		return;
	struct end *end = reserve(thread->begun, sizeof(*end));
	if (!end) {
		thread->lost++;
		return;
	}
	end->kind = RECORD_END;
	end->tgid = task->tgid;
	end->tid = task->pid;
	end->cpu = processor();
	end->since = thread->since;
	end->time = now;
	end->ready = seen && thread->poller ? ready((u64)task, thread->poller - 1, thread->poller_is_ring) : -1;
	end->waker = thread->waker;
	end->stack_bytes = thread->waker_stack_len;
	end->unused = 0;
	__builtin_memcpy(end->waker_name, thread->waker_name, sizeof(end->waker_name));
	__builtin_memcpy(end->stack, thread->waker_stack, sizeof(end->stack));
	ring_submit(end, NO_WAKEUP);
}

INLINE void leaves(u64 *context, struct task_struct *task, u32 state)
{
	u32 tgid = task->tgid, tid = task->pid;
	if (!tid || !map_lookup(&watched, &tgid))
		return;
	int throttled = 0;
	if (context[0] || !(state & TASK_SLEEPS)) {
		throttled = is_throttled(task);
		if (!throttled)
			return;
	} else if (state & TASK_ENDS) {
		return;
	}
	struct thread *thread = thread_of(tid, tgid);
	if (!thread)
		return;
	u64 now = now_ns();
	/* A switch to it was not traced, as happens to one in some thousands: it ran from when it was woken. */
	if (thread->doing != AWAKE)
		wakes(task, thread, thread->woken ? thread->woken : now, 0);
	struct registers *registers = user_registers(task);
	u64 call = GET(registers, orig_ax);
	u32 index = (u32)call, description = 0;
	u32 *described = call < 1024 ? map_lookup(&calls, &index) : 0;
	if (described)
		description = *described;
	thread->since = now;
	/* All waits for events can be interrupted; a fault or a lock on the way to them cannot. */
	if (description & IS_WAIT && !throttled && (state & 3) == TASK_INTERRUPTIBLE) {
		thread->doing = WAITS;
		note_poller(thread, description, GET(registers, di), GET(registers, si));
		return;
	}
	thread->doing = BLOCKED;
	thread->waker = 0;
	thread->woken = 0;
	thread->waker_stack_len = 0;
	thread->begun = NOWHERE;
	thread->blocks++;
	u32 ring = ring_of(thread);
	struct begin *begin = reserve(ring, sizeof(*begin));
	if (!begin) {
		thread->lost++;
		return;
	}
	thread->begun = ring;
	begin->kind = RECORD_BEGIN;
	begin->flags = throttled ? THROTTLED : 0;
	begin->tgid = tgid;
	begin->tid = tid;
	begin->time = now;
	begin->call = call;
	begin->args[0] = GET(registers, di);
	begin->args[1] = GET(registers, si);
	begin->args[2] = GET(registers, dx);
	begin->args[3] = GET(registers, r10);
	begin->args[4] = GET(registers, r8);
	begin->args[5] = GET(registers, r9);
	begin->fault_address = 0;
	begin->inode = 0;
	begin->cpu = processor();
	begin->state = state;
	begin->mode = 0;
	read_kernel(begin->name, sizeof(begin->name), &task->comm);
	begin->filesystem[0] = 0;
	begin->text[0] = 0;
	begin->path[0] = 0;
	long bytes = stack_of(context, begin->stack, sizeof(begin->stack), 0);
	begin->stack_bytes = bytes > 0 ? bytes : 0;
	for (u32 i = 0; i < STACK_MAX && i * 8 < begin->stack_bytes; i++)
		if (begin->stack[i] >= FAULT_FROM && begin->stack[i] < FAULT_TO)
			begin->flags |= IN_FAULT;
	note_call(begin, task, thread, description);
	ring_submit(begin, NO_WAKEUP);
}

INLINE void arrives(struct task_struct *task)
{
	u32 tid = task->pid;
	if (!tid)
		return;
	struct thread *thread = map_lookup(&threads, &tid);
	if (thread && thread->doing != AWAKE)
		wakes(task, thread, now_ns(), 1);
}

SEC("tp_btf/sched_switch") int on_switch(u64 *context)
{
	struct task_struct *leaving = (struct task_struct *)context[1];
	u32 state;
	if (HAS_PREV_STATE) {
		state = context[3];
	} else if (HAS(leaving, __state)) {
		state = GET(leaving, __state);
	} else {
		struct task_struct___old *old = (void *)leaving;
		state = GET(old, state);
	}
	leaves(context, leaving, state);
	arrives((struct task_struct *)context[2]);
	return 0;
}

SEC("tp_btf/sched_waking") int on_waking(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	u32 tid = task->pid;
	struct thread *thread = map_lookup(&threads, &tid);
	if (!thread || thread->doing != BLOCKED || !thread->begun || thread->waker_stack_len)
		return 0;
	thread->waker = (u32)pid_tgid();
	thread->woken = now_ns();
	comm_of_current(thread->waker_name, sizeof(thread->waker_name));
	long bytes = stack_of(context, thread->waker_stack, sizeof(thread->waker_stack), 0);
	thread->waker_stack_len = bytes > 0 ? bytes : 0;
	return 0;
}

/* Finds loops that have no time to sleep: they still ask for events. Attached as long as there may be one, because it costs each
 * call of the machine a little. */
SEC("tp_btf/sys_enter") int on_enter(u64 *context)
{
	u64 who = pid_tgid();
	u32 tgid = who >> 32, tid = (u32)who, call = (u32)context[1];
	if (!map_lookup(&watched, &tgid))
		return 0;
	u32 *described = map_lookup(&calls, &call);
	if (!described || !(*described & IS_WAIT))
		return 0;
	struct thread *thread = thread_of(tid, tgid);
	if (thread) {
		struct registers *registers = (struct registers *)context[0];
		note_poller(thread, *described, GET(registers, di), GET(registers, si));
	}
	return 0;
}

SEC("tp_btf/sched_process_fork") int on_fork(u64 *context)
{
	struct task_struct *parent = (struct task_struct *)context[0], *child = (struct task_struct *)context[1];
	u32 from = parent->tgid, to = child->tgid;
	u8 yes = 1;
	if (from != to && map_lookup(&watched, &from))
		map_update(&watched, &to, &yes, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit") int on_exit(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	u32 tid = task->pid, tgid = task->tgid;
	struct thread *thread = map_lookup(&threads, &tid);
	if (thread) {
		struct gone *gone = reserve(ring_of(thread), sizeof(*gone));
		if (gone) {
			gone->kind = RECORD_GONE;
			gone->tgid = tgid;
			gone->tid = tid;
			gone->is_loop = thread->is_loop;
			gone->poller = thread->poller;
			gone->poller_is_ring = thread->poller_is_ring;
			gone->waits = thread->waits;
			gone->wait_ns = thread->wait_ns;
			gone->blocks = thread->blocks;
			gone->block_ns = thread->block_ns;
			gone->lost = thread->lost;
			read_kernel(gone->name, sizeof(gone->name), &task->comm);
			ring_submit(gone, NO_WAKEUP);
		} else {
			count_unseen();
		}
		map_delete(&threads, &tid);
	}
	struct signal_struct *group = GET(task, signal);
	if (GET(group, live.counter) == 0)
		map_delete(&watched, &tgid);
	return 0;
}

static long note_area(struct task_struct *task, struct vm_area_struct *area, u64 *file)
{
	*file = (u64)GET(area, vm_file);
	return 0;
}

INLINE int on_fault(u64 *context)
{
	u64 who = pid_tgid();
	u32 tgid = who >> 32, tid = (u32)who;
	if (!map_lookup(&watched, &tgid))
		return 0;
	struct thread *thread = thread_of(tid, tgid);
	if (!thread)
		return 0;
	thread->fault_address = context[0];
	u64 file = 0;
	find_area(current_task(), context[0], note_area, &file, 0);
	thread->fault_file = file;
	return 0;
}

SEC("tp_btf/page_fault_user") int on_fault_user(u64 *context)
{
	return on_fault(context);
}

SEC("tp_btf/page_fault_kernel") int on_fault_kernel(u64 *context)
{
	return on_fault(context);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
