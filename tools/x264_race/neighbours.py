"""Other programs beside an encode: busy threads, or C compilers, one after the other on the CPUs."""

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import tempfile

from source import Unavailable

HOG = [sys.executable, "-c", "while True: pass"]
LIBC = ctypes.CDLL(None)  # looked up before the fork
PR_SET_PDEATHSIG = 1


def source_text():
    """What takes a compiler about a second: functions that differ, with loops to turn about."""
    return "".join(f"int f{i}(int *a, int n) {{ int s = {i}; for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) "
                   f"s += a[i] * a[k] ^ (s >> {i % 31}); return s; }}\n" for i in range(300))


def compile_command(folder):
    """Compiles once, with its errors, before anybody counts on it; then the command that does so for ever."""
    path = os.path.join(folder, "source.c")
    with open(path, "w", encoding="utf-8") as out:
        out.write(source_text())
    once = [*shlex.split(os.environ.get("CC", "cc")), "-O2", "-w", "-c", "-o", os.devnull, path]
    try:
        done = subprocess.run(once, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unavailable(f"no compile: {once[0]}: {error.strerror}") from error
    if done.returncode:
        raise Unavailable(f"no compile: {once[0]} fails: {done.stderr.strip().splitlines()[:1]}")
    return ["sh", "-c", f"while {shlex.join(once)}; do :; done"]


def be_beside(cpu):
    """In the new process: keeps to its CPU, and ends when the race ends, however that does."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, {cpu})


@contextlib.contextmanager
def neighbours(hogs, compiles):
    """While this is entered, `hogs` busy threads run, or with `compiles` a compiler on each CPU."""
    cpus = sorted(os.sched_getaffinity(0))
    started = []
    with tempfile.TemporaryDirectory(prefix="x264-race-") as folder:
        command, count = (compile_command(folder), len(cpus)) if compiles else (HOG, hogs)
        try:
            for i in range(count):
                cpu = cpus[-1 - i % len(cpus)]
                started.append(subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=folder),
                                                preexec_fn=lambda cpu=cpu: be_beside(cpu)))
            yield
            ended = [child for child in started if child.poll() is not None]
            if ended:
                raise Unavailable(f"a neighbour ended with {ended[0].returncode} before the race did")
        finally:
            for child in started:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
