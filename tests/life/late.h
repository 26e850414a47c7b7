/* late.h: what test_exit.c and late.cpp tell each other. */
#ifndef WEFT_TESTS_LATE_H
#define WEFT_TESTS_LATE_H
#ifdef __cplusplus
extern "C" {
#endif
extern int late_is_armed;
void late_work(void); /* submits and waits; ends the process with 99 when something is amiss */
#ifdef __cplusplus
}
#endif
#endif
