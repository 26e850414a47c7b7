#!/usr/bin/env python3
"""Every function that the library takes from libc, and every system call it makes by number, is one that test_faults.c has
fail, or is here with the reason why it need not: test_fault_calls.py LIBRARY SOURCES"""
import re
import subprocess
import sys
from pathlib import Path

CANNOT_FAIL = "on text or memory, or on what the thread itself has"
HARMLESS = {
    "abort bcmp free memcmp memcpy memmem memmove memset snprintf strchr strcmp strcspn strlen strncmp strnlen strrchr strspn strstr sigdelset "
    "sigfillset "
    "__errno_location __stack_chk_fail __snprintf_chk __memcpy_chk __memset_chk __tls_get_addr _GLOBAL_OFFSET_TABLE_ "
    "__rseq_offset pthread_self pthread_once pthread_setcancelstate pthread_sigmask": CANNOT_FAIL,
    "_dl_find_object": "of an address that no file has, as of any other",
    "readlink": "the program's path stays empty",
    "stat": "a pipe that an ancestor is not seen to have is not make's: test_jobserver_refused.c",
    "pipe2": "a pool without a bell takes no tokens: test_jobserver_refused.c",
    "inotify_init1 inotify_add_watch": "who waits for a token of the lease looks every 10 ms: test_lease.c",
    "fchmod": "the pool runs without the lease, and lease_errno says why, as where the file is another user's: test_lease_refused.c",
    "futimens": "who waits for a token of the lease, and is not told, looks after a second",
    "poll": "who waits for a token goes on without one, as if the pipe were gone: test_jobserver_refused.c",
    "sysconf __sysconf sched_getcpu": "what the C library knows, or a default",
    "secure_getenv getenv": "NULL is no variable",
    "pthread_join pthread_key_delete munlock": "of something that is there: no error is left",
    "pthread_attr_destroy pthread_attr_getstack pthread_attr_getstacksize pthread_attr_setstacksize": "of attributes made before",
    "pthread_setname_np": "a thread without its name is all",
    "getpid getppid getuid geteuid getauxval": "cannot fail",
    "__libc_single_threaded": "a variable",
    "mprotect": "a guard that is refused is memory that nobody has: test_heap_secure.c",
    "getrlimit": "of a limit that there is",
    "sigemptyset sigaddset sigismember": "of a set on the stack",
    "sigtimedwait": "takes back SIGPIPE or SIGXFSZ, which a write has just raised for this thread",
    "sigaction backtrace": "of a signal that can be handled; a stack that is not known is short",
    "__cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable": "of the compiler's, when loaded",
}
SYSTEM_CALLS = {"SYS_unlinkat": "a file that stays is told as one of a process that is gone", "SYS_rt_tgsigqueueinfo": "who is not there does not answer: test_stacks.c", "SYS_tgkill": "of the calling thread", "SYS_gettid": "cannot fail; test_sandbox.c refuses it", "SYS_getpid": "cannot fail", "SYS_rt_sigprocmask": "signals that are not blocked may end the process in the lock; tokens are lost then", "SYS_getrandom": "the kernel's number for the process stands in", "SYS_mseal": "what is not sealed is read-only", "SYS_futex": "waits and locks; wakes have no error"}


def main(library, sources):
    calls = (Path(__file__).parent / "fault_calls.c").read_text()
    struck = set(re.findall(r"__wrap_(\w+)\(", calls)) | set(re.findall(r"WRAPPED\([^,]+, (\w+),", calls))
    harmless = {name for names in HARMLESS for name in names.split()}
    symbols = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    symbols = symbols.replace("__register_atfork", "pthread_atfork")  # glibc's, which the latter calls
    wanted = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
    missing = sorted(wanted - struck - harmless)
    text = "".join(path.read_text() for path in sorted(Path(sources).rglob("*.c")))
    numbers = set(re.findall(r"syscall\((SYS_\w+)", text))
    served = set(re.findall(r"case (SYS_\w+): return CALL_", calls)) | set(SYSTEM_CALLS)
    missing += sorted(numbers - served)
    for name in missing:
        print(f"{name}: test_faults does not have it fail, nor does this say why not")
    print(f"{len(wanted)} functions of libc, {len(numbers)} system calls by number; {len(missing)} not considered")
    return 1 if missing or len(wanted) < 40 or len(numbers) < 8 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
