/* symbol.c: the name of the code at an address, from the ELF files that the process has mapped. Layer 1; contract in os.h.
 *
 * Reads /proc/self/maps and the file's symbol table by system calls alone, without locks or allocation, so signal handlers
 * may call it. It also finds static functions, which the dynamic linker does not know. */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>

#include "os/os.h"

/* ---- the file ----------------------------------------------------------------------------------------------------- */

#define PATH_BYTES sizeof((struct os_module){0}.path)

/* A line of /proc/self/maps: start-end permissions offset device inode path. */
struct maps_line {
    uint64_t start, end, offset;
    unsigned field;
    size_t path_length;
    char path[PATH_BYTES];
};

static uint64_t hex_digit(char c) {
    if (c >= '0' && c <= '9') return (uint64_t)(c - '0');
    return c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10) : 16;
}

static void line_add(struct maps_line *line, char c) {
    enum { START, END, PERMISSIONS, OFFSET, DEVICE, INODE, PATH };
    if (line->field == PATH) {
        bool is_leading = c == ' ' && line->path_length == 0;
        if (!is_leading && line->path_length + 1 < PATH_BYTES) line->path[line->path_length++] = c;
    } else if (c == ' ' || (c == '-' && line->field == START)) {
        line->field++;
    } else {
        uint64_t *number = line->field == START ? &line->start : line->field == END ? &line->end : &line->offset;
        if (line->field != PERMISSIONS && line->field <= OFFSET) *number = *number * 16 + hex_digit(c);
    }
}

/* Finds the line of the address. false: there is none, or it names no file. */
static bool line_of(uint64_t address, struct maps_line *line) {
    int fd = os_open("/proc/self/maps");
    if (fd < 0) return false;
    *line = (struct maps_line){0};
    char buffer[512];
    bool found = false;
    for (;;) {
        size_t got = os_read(fd, buffer, sizeof buffer);
        if (got == 0) break;
        for (size_t i = 0; i < got && !found; i++) {
            if (buffer[i] != '\n') {
                line_add(line, buffer[i]);
                continue;
            }
            found = address >= line->start && address < line->end && line->path_length > 0;
            if (!found) *line = (struct maps_line){0};
        }
        if (found) break;
    }
    os_close(fd);
    line->path[line->path_length] = 0;
    return found;
}

bool os_module_mapped(uintptr_t address, struct os_module *module) {
    struct maps_line line;
    if (!line_of(address, &line)) return false;
    *module = (struct os_module){.start = line.start, .end = line.end, .offset = line.offset};
    memcpy(module->path, line.path, line.path_length + 1);
    return true;
}

/* ---- the symbol table --------------------------------------------------------------------------------------------- */

/* The address that the file's own tables use for the byte at that offset. */
static bool link_address(int fd, const ElfW(Ehdr) * head, uint64_t offset, uint64_t *address) {
    for (unsigned i = 0; i < head->e_phnum; i++) {
        ElfW(Phdr) part;
        if (!os_read_at(fd, head->e_phoff + i * sizeof part, &part, sizeof part)) return false;
        if (part.p_type != PT_LOAD || offset < part.p_offset || offset >= part.p_offset + part.p_filesz) continue;
        *address = offset - part.p_offset + part.p_vaddr;
        return true;
    }
    return false;
}

/* Finds the first section of that type, and the section with its names. */
static bool find_table(int fd, const ElfW(Ehdr) * head, uint32_t type, ElfW(Shdr) table[2]) {
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (!os_read_at(fd, head->e_shoff + i * sizeof *table, &table[0], sizeof *table)) return false;
        if (table[0].sh_type == type)
            return os_read_at(fd, head->e_shoff + table[0].sh_link * sizeof *table, &table[1], sizeof *table);
    }
    return false;
}

static bool covers(const ElfW(Sym) * symbol, uint64_t address) {
    unsigned type = symbol->st_info & 0xf;
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF) return false;
    return address == symbol->st_value || (address > symbol->st_value && address - symbol->st_value < symbol->st_size);
}

/* The offset, in the table of names, of the best symbol for the address: a global symbol before a local one, which may be a
 * name that the compiler made up beside it. 0: there is none. */
static uint32_t find_symbol(int fd, const ElfW(Shdr) * table, uint64_t address) {
    ElfW(Sym) symbols[32];
    uint32_t local = 0;
    for (uint64_t at = 0; at + sizeof *symbols <= table->sh_size; at += sizeof symbols) {
        size_t bytes = (size_t)min_u64(sizeof symbols, table->sh_size - at);
        if (!os_read_at(fd, table->sh_offset + at, symbols, bytes)) break;
        for (size_t i = 0; i < bytes / sizeof *symbols; i++) {
            if (!covers(&symbols[i], address)) continue;
            if (symbols[i].st_info >> 4 != STB_LOCAL) return symbols[i].st_name;
            if (local == 0) local = symbols[i].st_name;
        }
    }
    return local;
}

static bool find_in_table(int fd, const ElfW(Shdr) table[2], uint64_t address, char *name, size_t size) {
    uint32_t at = find_symbol(fd, table, address);
    if (at == 0 || at >= table[1].sh_size) return false;
    size_t length = (size_t)min_u64(size - 1, table[1].sh_size - at);
    if (!os_read_at(fd, table[1].sh_offset + at, name, length)) return false;
    name[length] = 0;
    return name[0] != 0;
}

static bool find_in_file(int fd, uint64_t offset, char *name, size_t size) {
    ElfW(Ehdr) head;
    ElfW(Shdr) table[2];
    uint64_t address;
    if (!os_read_at(fd, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (head.e_phentsize != sizeof(ElfW(Phdr)) || (head.e_shnum > 0 && head.e_shentsize != sizeof(ElfW(Shdr)))) return false;
    if (!link_address(fd, &head, offset, &address)) return false;
    return (find_table(fd, &head, SHT_SYMTAB, table) && find_in_table(fd, table, address, name, size)) ||
           (find_table(fd, &head, SHT_DYNSYM, table) && find_in_table(fd, table, address, name, size));
}

/* file+0x12, or 0x12 where no file is mapped. */
static void put_offset(const char *path, uint64_t offset, char *name, size_t size) {
    struct text text = {.size = size, .fd = TEXT_TO_MEMORY};
    text.to = name;
    if (path != NULL) {
        const char *slash = strrchr(path, '/');
        text_put(&text, slash == NULL ? path : slash + 1);
        text_put(&text, "+");
    }
    text_put_hex(&text, offset);
    text_end(&text);
}

void os_symbol_in(const char *path, uint64_t offset, char *name, size_t size) {
    int fd = os_open(path);
    if (fd < 0 || !find_in_file(fd, offset, name, size)) put_offset(path, offset, name, size);
    if (fd >= 0) os_close(fd);
    size_t length = size > 0 ? strlen(name) : 0;
    if (size > 0 && length + 1 == size) name[text_whole(name, length)] = 0; /* it may be cut */
}

void os_symbol(uintptr_t address, char *name, size_t size) {
    struct maps_line line;
    if (line_of(address, &line))
        os_symbol_in(line.path, address - line.start + line.offset, name, size);
    else
        put_offset(NULL, address, name, size);
}
