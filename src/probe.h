/* probe.h: static probes (USDT) for bpftrace, perf and SystemTap, where <sys/sdt.h> was there when weft was compiled;
 * docs/observe.md lists them. A probe is one nop. They stand where a thread sleeps, wakes or turns to another's tasks,
 * never where it runs one. gcc alone compiles them: the header's macros are no C17 to clang. Layer 1. */
#ifndef WEFT_PROBE_H
#define WEFT_PROBE_H

#if defined(__has_include) && !defined(__clang__) && !defined(WEFT_EXPLORE)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define PROBE(name, a, b) DTRACE_PROBE2(weft, name, a, b)
#endif
#endif

#if !defined(PROBE)
#define PROBE(name, a, b) ((void)0)
#endif

#endif
