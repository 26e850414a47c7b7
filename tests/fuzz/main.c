/* main.c: runs a fuzz target. With WEFT_FUZZ libFuzzer calls it; otherwise it draws inputs itself:
 *
 *     fuzz_NAME [RUNS [SEED]]    so many inputs; a failure is preceded by its seed, which replays it: fuzz_NAME 1 SEED
 *     fuzz_NAME FILE...          these inputs, such as libFuzzer leaves behind */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz input = {data, size};
    fuzz_one(&input);
    return 0;
}

#if !defined(WEFT_FUZZ)
#include <ctype.h>
#include <signal.h>
#include <unistd.h>

enum { INPUT_MAX = 1 << 14, RUNS = 300 };

static uint64_t seed_now;

static uint64_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static size_t put(uint8_t *to, size_t at, const void *from, size_t bytes) {
    if (bytes > INPUT_MAX - at) bytes = INPUT_MAX - at;
    memcpy(to + at, from, bytes);
    return at + bytes;
}

/* Words of the target's, numbers, separators and noise. */
static size_t draw(uint64_t seed, uint8_t *to) {
    static const char separators[] = "\n ,-:/\0=.";
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
    size_t words = 0, at = 0, goal = next(&state) % (next(&state) % 8 == 0 ? INPUT_MAX : 400);
    while (fuzz_words[words] != NULL) words++;
    while (at < goal) {
        char number[24];
        uint64_t kind = next(&state) % 8, choice = next(&state);
        if (kind < 3 && words > 0) {
            const char *word = fuzz_words[choice % words];
            at = put(to, at, word, strlen(word));
        } else if (kind < 5) {
            int length =
                snprintf(number, sizeof number, "%llu", (unsigned long long)(next(&state) << choice % 33 >> choice % 29));
            at = put(to, at, number, (size_t)length);
        } else if (kind < 7) {
            at = put(to, at, &separators[choice % sizeof separators], 1);
        } else {
            uint8_t noise = (uint8_t)choice;
            at = put(to, at, &noise, 1);
        }
    }
    return at;
}

static void say_seed(int signal_number) {
    static const char before[] = "failed: the input of seed ";
    char line[sizeof before + 21], *end = line + sizeof line, *at = end;
    *--at = '\n';
    unsigned long long rest = seed_now;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    at -= sizeof before - 1;
    memcpy(at, before, sizeof before - 1);
    if (write(STDERR_FILENO, at, (size_t)(end - at)) < 0) _exit(98);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int run_file(const char *path) {
    static uint8_t input[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 2;
    }
    size_t size = fread(input, 1, sizeof input, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(input, size);
}

int main(int argc, char **argv) {
    if (argc > 1 && !isdigit((unsigned char)argv[1][0])) {
        for (int i = 1; i < argc; i++)
            if (run_file(argv[i]) != 0) return 2;
        printf("%d inputs\n", argc - 1);
        return 0;
    }
    uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : RUNS, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static uint8_t drawn[INPUT_MAX];
    signal(SIGABRT, say_seed);
    for (uint64_t i = 0; i < runs; i++) {
        seed_now = first + i;
        size_t size = draw(seed_now, drawn);
        uint8_t *input = malloc(size + 1); /* as long as it is, for AddressSanitizer; malloc(0) may be NULL */
        FUZZ_CHECK(input != NULL);
        memcpy(input, drawn, size);
        LLVMFuzzerTestOneInput(input, size);
        free(input);
    }
    printf("%llu inputs from seed %llu\n", (unsigned long long)runs, (unsigned long long)first);
    return 0;
}
#endif
