/* copy.h: what a plugin with a weft of its own shows to its host. */
#ifndef WEFT_TESTS_COPY_H
#define WEFT_TESTS_COPY_H

#define COPY_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif
COPY_API const char *copy_version(void);
COPY_API unsigned copy_work(unsigned tasks); /* in a pool of its own: twice as many */
COPY_API unsigned copy_keep(void);           /* a reference to the process's pool: 100 */
COPY_API unsigned copy_again(void);          /* in that: 100 */
COPY_API int copy_drop(void);
#ifdef __cplusplus
}
#endif

#endif
