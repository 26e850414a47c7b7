/* frames.c: the callers of a function, and the file that holds their code. Layer 1; contract in os.h.
 *
 * Both are needed in the middle of an allocation, so nothing here allocates or takes a lock that an allocating thread may
 * hold. From glibc 2.35 on, the unwinder and _dl_find_object keep that promise. Elsewhere there are no frames, and files are
 * found through /proc/self/maps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#include <execinfo.h>
#define FRAMES
#endif
#endif

#include "os/os.h"

int os_fork_watch(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    return pthread_atfork(before, in_parent, in_child);
}

#if defined(FRAMES)
static ATOMIC(bool) has_unwinder;

int os_frames_begin(void) {
    void *frame[2];
    KEEP_ERRNO;
    bool has = backtrace(frame, 2) > 0; /* the first call loads a library; if it cannot, os_frames does not try again */
    store_rlx(&has_unwinder, has);
    return has ? 0 : ENOSYS;
}

int os_frames(uintptr_t *frames, int most) {
    void *found[OS_FRAMES_MAX];
    if (!load_rlx(&has_unwinder)) return 0;
    int count = backtrace(found, most < OS_FRAMES_MAX ? most : OS_FRAMES_MAX);
    for (int i = 0; i < count; i++) frames[i] = (uintptr_t)found[i];
    return count;
}

/* Finds the build id, which the linker has put into a note of the file. */
static void take_build_id(struct os_module *module, const char *notes, size_t bytes) {
    ElfW(Nhdr) head;
    for (size_t at = 0; at + sizeof head <= bytes;) {
        memcpy(&head, notes + at, sizeof head);
        size_t name = at + sizeof head, id = name + round_up(head.n_namesz, 4), next = id + round_up(head.n_descsz, 4);
        if (next > bytes || next <= at) return;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
            module->build_id_bytes = (unsigned)min_u64(head.n_descsz, sizeof module->build_id);
            memcpy(module->build_id, notes + id, module->build_id_bytes);
        }
        at = next;
    }
}

/* Finds the build id of the file loaded at `base`, and its segment that contains the address. */
static bool take_parts(struct os_module *module, const char *first_page, uintptr_t base, uintptr_t address) {
    const ElfW(Ehdr) *head = (const void *)first_page;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_phentsize != sizeof(ElfW(Phdr))) return false;
    size_t page = os_page_size();
    if (head->e_phoff > page || head->e_phnum * sizeof(ElfW(Phdr)) > page - head->e_phoff)
        return false; /* a tool has moved the program headers */
    const ElfW(Phdr) *parts = (const void *)(first_page + head->e_phoff);
    bool is_found = false;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        uintptr_t start = base + parts[i].p_vaddr, end = start + parts[i].p_memsz;
        if (parts[i].p_type == PT_NOTE) take_build_id(module, (const char *)start, parts[i].p_memsz);
        if (parts[i].p_type != PT_LOAD || address < start || address >= end) continue;
        module->start = start & ~(page - 1);
        module->end = round_up(end, page);
        module->offset = parts[i].p_offset & ~(uint64_t)(page - 1);
        is_found = true;
    }
    return is_found;
}

bool os_module_loaded(uintptr_t address, struct os_module *module) {
    struct dl_find_object found;
    KEEP_ERRNO;
    module->build_id_bytes = 0;
    if (_dl_find_object((void *)address, &found) != 0 || found.dlfo_link_map == NULL) return false;
    if (!take_parts(module, found.dlfo_map_start, found.dlfo_link_map->l_addr, address)) return false;
    const char *name = found.dlfo_link_map->l_name;
    module->is_program = name == NULL || name[0] == 0;
    ssize_t length;
    if (module->is_program) {
        length = readlink("/proc/self/exe", module->path, sizeof module->path - 1);
    } else {
        length = (ssize_t)min_u64(strlen(name), sizeof module->path - 1);
        memcpy(module->path, name, (size_t)length);
    }
    module->path[length < 0 ? 0 : length] = 0;
    return true;
}
#else
int os_frames_begin(void) { return ENOSYS; }

int os_frames(uintptr_t *frames, int most) {
    (void)frames, (void)most;
    return 0;
}

bool os_module_loaded(uintptr_t address, struct os_module *module) {
    (void)address, (void)module;
    return false;
}
#endif
