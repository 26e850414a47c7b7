/* drive_self_bytes.c: races between neighbouring bytes, which the explorer must tell from those of one byte; plain accesses of
 * pages that are purged, and of what is no memory block. */
#include "explore.h"

#include <string.h>

static struct {
    ATOMIC(uint32_t) x, y;
    _Alignas(8) unsigned char bytes[8];
} world;

static void setup(void) { memset(&world, 0, sizeof world); }

static void write_byte(uint32_t i) {
    plain_write(&world.bytes[i], 1);
    world.bytes[i] = 1;
}
static void read_byte(uint32_t i) {
    plain_read(&world.bytes[i], 1);
    explore_observe(world.bytes[i]);
}
/* A step of which nothing is learnt but that it was made. */
static void tell(void) { store_rlx(&world.x, 1); }
static void hear(void) {
    while (load_rlx(&world.x) == 0) os_pause();
}

/* Each thread has its own: no race, whoever comes first. */
static void use_even(void) {
    write_byte(0);
    write_byte(2);
    store_rlx(&world.y, 1); /* an epoch may pass */
    read_byte(0);
}
static void use_odd(void) {
    write_byte(1);
    read_byte(3);
    read_byte(1);
}
EXPLORE_DRIVER(self_bytes, .about = "two threads, each with bytes of its own", .setup = setup,
               .threads = {use_even, use_odd}, .must_see = 3);

/* A write is remembered though another thread has written the next byte since. */
static void write_and_tell(void) {
    write_byte(0);
    tell();
}
static void write_next_then_read(void) {
    hear();
    write_byte(1);
    read_byte(0);
}
static void write_next_then_same(void) {
    hear();
    write_byte(1);
    write_byte(0);
}
EXPLORE_DRIVER(self_bytes_write, .about = "a byte is read; its writer was followed by another's of the next", .setup = setup,
               .threads = {write_and_tell, write_next_then_read}, .flags = EXPLORE_MUST_FAIL,
               .fails_with = "plain read, plain write");
EXPLORE_DRIVER(self_bytes_writes, .about = "the same, and it is written", .setup = setup,
               .threads = {write_and_tell, write_next_then_same}, .flags = EXPLORE_MUST_FAIL,
               .fails_with = "plain write, plain write");

/* A read is remembered though its thread has read the next byte since, at a later epoch. */
static void read_both_and_tell(void) {
    read_byte(0);
    store_rel(self_bytes_epoch, &world.y, 1);
    read_byte(1);
    tell();
}
static void hear_and_write(void) {
    hear();
    write_byte(0);
}
EXPLORE_DRIVER(self_bytes_read, .about = "a byte is written; its reader has read the next one since", .setup = setup,
               .threads = {read_both_and_tell, hear_and_write}, .flags = EXPLORE_MUST_FAIL,
               .fails_with = "plain write, plain read");

/* What was done to the whole word before is what was done to each byte. */
static void write_word_and_tell(void) {
    plain_write(world.bytes, 4);
    tell();
}
EXPLORE_DRIVER(self_bytes_word, .about = "a word is written, then its bytes one by one, the last by another", .setup = setup,
               .threads = {write_word_and_tell, write_next_then_same}, .flags = EXPLORE_MUST_FAIL,
               .fails_with = "plain write, plain write");

/* ---- purged pages, and what lies outside -------------------------------------------------------------------------- */

enum { PAGES_BYTES = 8192, USED = 64, UNUSED = 4096 };
static unsigned char *pages;

static void setup_pages(void) {
    setup();
    pages = os_map(PAGES_BYTES);
    plain_write(pages + USED, 8);
}
static void end_pages(void) { os_unmap(pages, PAGES_BYTES); }
static void purge_and_tell(void) {
    os_purge(pages, PAGES_BYTES);
    tell();
}
static void purge_and_publish(void) {
    os_purge(pages, PAGES_BYTES);
    store_rel(self_purge_rel, &world.x, 1);
}
static void hear_and_read_used(void) {
    hear();
    plain_read(pages + USED, 8);
}
static void hear_and_read_unused(void) {
    hear();
    plain_read(pages + UNUSED, 8);
}
static void acquire_and_use(void) {
    while (load_acq(self_purge_acq, &world.x) == 0) os_pause();
    plain_read(pages + USED, 8);
    plain_write(pages + UNUSED, 8);
}
EXPLORE_DRIVER(self_purge, .about = "pages are purged, then used", .setup = setup_pages,
               .threads = {purge_and_publish, acquire_and_use}, .check = end_pages);
EXPLORE_DRIVER(self_purge_race, .about = "pages are read beside their purge", .setup = setup_pages,
               .threads = {purge_and_tell, hear_and_read_used}, .flags = EXPLORE_MUST_FAIL,
               .fails_with = "plain access, purge");
EXPLORE_DRIVER(self_purge_race_first, .about = "the same, where nobody has used them before", .setup = setup_pages,
               .threads = {purge_and_tell, hear_and_read_unused}, .flags = EXPLORE_MUST_FAIL,
               .fails_with = "plain access, purge");

static void read_between(void) { plain_read(pages + PAGES_BYTES, 1); }
static void read_past(void) {
    unsigned char *block = os_alloc(20);
    plain_write(block, 20);
    plain_read(block + 16, 8);
}
EXPLORE_DRIVER(self_outside, .about = "an access between memory blocks", .setup = setup_pages, .threads = {read_between},
               .flags = EXPLORE_MUST_FAIL, .fails_with = "outside every memory block");
EXPLORE_DRIVER(self_outside_end, .about = "an access across the end of a memory block", .setup = setup_pages,
               .threads = {read_past}, .flags = EXPLORE_MUST_FAIL, .fails_with = "outside every memory block");

/* More atomic variables than there is room for end in a report. */
static void use_many(void) {
    enum { MANY = 16385 };
    ATOMIC(uint32_t) *many = os_map(MANY * sizeof *many);
    for (uint32_t i = 0; i < MANY; i++) store_rlx(&many[i], 1);
}
EXPLORE_DRIVER(self_locations, .about = "more atomic variables than the explorer keeps", .setup = setup,
               .threads = {use_many}, .flags = EXPLORE_MUST_FAIL, .fails_with = "more than 16384 atomic locations");
