#!/usr/bin/env python3
"""Every function that libweft-chunks takes from libc is one that test_chunks_faults.c has fail, or is here with the reason why it need not:
test_chunks_calls.py LIBRARY"""
import re
import subprocess
import sys
from pathlib import Path

HARMLESS = {
    "bcmp free memcmp memcpy memset snprintf strchr strcmp strcspn strerror strlen strncmp strrchr strstr strtoll strtoul strtoull vsnprintf "
    "getpid __errno_location __tls_get_addr __stack_chk_fail": "on text or memory, or on what the thread itself has",
    "pthread_cond_destroy pthread_cond_init pthread_cond_signal pthread_cond_timedwait pthread_condattr_destroy pthread_condattr_init "
    "pthread_condattr_setclock pthread_join pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock":
        "of objects that were made before: no error is left; a wait that ends early looks again",
    "pthread_sigmask sigdelset sigfillset": "of signals that there are, with a way that there is",
    "clock_gettime": "CLOCK_MONOTONIC is there; the test has it jump",
    "nanosleep": "one that ends early asks sooner",
    "closedir": "what was read is there",
    "access": "asked of a pid that another process has by now: a refusal leaves it to the lease",
    "faccessat": "asked when linkat has failed: either answer is an error",
    "fstatat": "times for the status, which are guesses",
    "weft_for weft_strerror": "weft's own",
    "__cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable": "of the compiler's, when loaded",
}

calls = (Path(__file__).parent / "test_chunks_faults.c").read_text()
struck = set(re.findall(r"X\((\w+)\)", calls))
symbols = subprocess.run(["nm", "-D", "--undefined-only", sys.argv[1]], capture_output=True, text=True, check=True).stdout
wanted = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
missing = sorted(wanted - struck - {name for names in HARMLESS for name in names.split()})
for name in missing:
    print(f"{name}: test_chunks_faults does not have it fail, nor does this say why not")
print(f"{len(wanted)} functions; {len(missing)} not considered")
sys.exit(1 if missing or len(wanted) < 40 else 0)
