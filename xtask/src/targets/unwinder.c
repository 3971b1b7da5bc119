/* What gcc's unwinder asks glibc for, and musl does not have: where a program's frames are described. A static program has one
   such place. */
#define _GNU_SOURCE
#include <link.h>

/* As glibc's <dlfcn.h> has it. */
struct dl_find_object {
    unsigned long long flags;
    void *start, *end;
    struct link_map *map;
    void *frames;
    unsigned long long reserved[7];
};

static int find(struct dl_phdr_info *object, size_t size, void *frames) {
    for (int at = 0; at < object->dlpi_phnum; at++)
        if (object->dlpi_phdr[at].p_type == PT_GNU_EH_FRAME) {
            *(void **)frames = (void *)(object->dlpi_addr + object->dlpi_phdr[at].p_vaddr);
            return 1;
        }
    return 0;
}

int _dl_find_object(void *at, struct dl_find_object *found) {
    return dl_iterate_phdr(find, &found->frames) ? 0 : -1;
}
