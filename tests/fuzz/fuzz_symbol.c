/* fuzz_symbol.c: names of functions from ELF files, with any bytes in the file and any text in /proc/self/maps. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "os/os.h"

const char *const fuzz_words[] = {"\177ELF", "1000-2000 r-xp ", "00000000 08:01 1 /", "/a b", NULL};

enum { FILE_MAX = 1 << 14, ADDRESS = 0x1000 };
static int maps = -1, elf = -1;

int __real_os_open(const char *path);
int __wrap_os_open(const char *path);
int __wrap_os_open(const char *path) {
    if (strcmp(path, "/proc/self/maps") != 0 && path[0] != 0) {
        lseek(elf, 0, SEEK_SET);
        return dup(elf);
    }
    lseek(maps, 0, SEEK_SET);
    return dup(maps);
}

static void fill(int fd, const void *bytes, size_t size) {
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
}

/* A file that begins well, so that the tables are reached, with what the input has in each field that leads on. */
static size_t make_elf(struct fuzz *input, unsigned char *file) {
    ElfW(Ehdr)
        head = {.e_phoff = sizeof head, .e_phnum = 1, .e_phentsize = sizeof(ElfW(Phdr)), .e_shentsize = sizeof(ElfW(Shdr))};
    ElfW(Phdr)
        part = {.p_type = PT_LOAD, .p_filesz = UINT64_MAX >> fuzz_below(input, 64), .p_offset = fuzz_number(input, 1)};
    ElfW(Shdr) sections[3] = {{0}, {.sh_type = SHT_SYMTAB, .sh_link = 2}, {.sh_type = SHT_STRTAB}};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_shnum = (ElfW(Half))(fuzz_below(input, 4) == 0 ? fuzz_number(input, 2) : 3);
    head.e_shoff = fuzz_below(input, 8) == 0 ? fuzz_number(input, 8) : sizeof head + sizeof part;
    size_t at = sizeof head + sizeof part + sizeof sections;
    for (int i = 1; i < 3; i++) {
        sections[i].sh_offset = fuzz_below(input, 8) == 0 ? fuzz_number(input, 8) : at;
        sections[i].sh_size = fuzz_below(input, 4) == 0 ? fuzz_number(input, 8) : fuzz_number(input, 2) % 4096;
        if (fuzz_below(input, 16) == 0) sections[i].sh_link = (ElfW(Word))fuzz_number(input, 4);
    }
    memcpy(file, &head, sizeof head);
    memcpy(file + sizeof head, &part, sizeof part);
    memcpy(file + sizeof head + sizeof part, sections, sizeof sections);
    while (at + sizeof(ElfW(Sym)) <= FILE_MAX && input->left > 0) {
        ElfW(Sym) symbol = {.st_name = fuzz_byte(input),
                            .st_info = fuzz_byte(input),
                            .st_shndx = 1,
                            .st_value = fuzz_byte(input),
                            .st_size = fuzz_number(input, 2)};
        memcpy(file + at, &symbol, sizeof symbol);
        at += sizeof symbol;
    }
    return at;
}

void fuzz_one(struct fuzz *input) {
    static unsigned char file[FILE_MAX];
    char text[1500], name[64];
    if (maps < 0) {
        maps = memfd_create("maps", MFD_CLOEXEC);
        elf = memfd_create("elf", MFD_CLOEXEC);
        FUZZ_CHECK(maps >= 0 && elf >= 0);
    }
    unsigned kind = fuzz_below(input, 4);
    if (kind == 0)
        snprintf(text, sizeof text, "%.*s", (int)(input->left < 1400 ? input->left : 1400), (const char *)input->at);
    else
        snprintf(text, sizeof text, "1000-9000 r-xp %08x 08:01 1 /lib%s\n", fuzz_byte(input), kind == 1 ? "/x.so" : "");
    fill(maps, text, strlen(text));
    if (kind == 3)
        fill(elf, input->at, input->left);
    else
        fill(elf, file, make_elf(input, file));
    memset(name, 'x', sizeof name);
    size_t size = 1 + fuzz_below(input, sizeof name);
    os_symbol(ADDRESS + fuzz_byte(input), name, size);
    FUZZ_CHECK(memchr(name, 0, size) != NULL && (size == sizeof name || name[size] == 'x'));
}
