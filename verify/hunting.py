"""What both kinds of mutants need: programs run within limits, what a run found, kept from run to run."""
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAVE_EACH_S = 5
OUTPUT_MAX = 64 << 20
ASLEEP_S = 4
STOPPED_S = 1  # between two looks: more is a stop of this program itself
MEMORY_MAX = 16 << 30  # of addresses: a mutant may ask for memory without end


@dataclass
class Ran:
    status: int       # as the shell says it; negative: a signal
    output: str
    timed_out: str    # "", "processor", "asleep" or "clock"
    wall_s: float
    cpu_s: float      # its own, and of what it has started and waited for

    def failed(self):
        return self.status != 0


def threads_of(pid):
    """(state, times it went to sleep) of each thread of a process and of its children."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            status = Path(f"/proc/{pid}/task/{task}/status").read_text()
            found.append((re.search(r"^State:\s+(\w)", status, re.M)[1], int(re.search(r"^voluntary\S+\s+(\d+)", status, re.M)[1])))
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += threads_of(child)
    except (OSError, TypeError):
        pass  # it has just ended
    return found


def ended(process):
    """Whether it has; then its status and what it has used are in it."""
    pid, status, used = os.wait4(process.pid, os.WNOHANG)
    if pid != 0:
        process.returncode, process.cpu_s = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
    return pid != 0


def wait_for(process, wall_s):
    """"" when it ends by itself. "asleep": all its threads sleep, and none has woken for some seconds. "clock": it has taken too
    long; one that is ready to run is given more, for the machine may be busy. What time they are stopped together, as by a freezer of
    control groups or the machine's sleep, does not count."""
    now = still_since = 0.0  # since it began
    before, pause, next_look = None, 0.002, 0.0
    clock = time.monotonic()
    while True:
        if ended(process):
            return ""
        time.sleep(pause)
        last, clock = clock, time.monotonic()
        now += min(clock - last, pause + STOPPED_S)
        pause = min(pause * 2, 0.05)
        if now < 1 or now < next_look:
            continue
        next_look = now + 0.25
        threads = threads_of(process.pid)
        sleeps = bool(threads) and all(state == "S" for state, _ in threads)
        if not sleeps or threads != before:
            before, still_since = threads, now
        if now - still_since > ASLEEP_S:
            return "asleep"
        if now > wall_s * (1 if sleeps else 4):
            return "clock"


def run(command, cpu_s, wall_s, environment=None, memory_max=MEMORY_MAX):
    """Runs a program; one that takes longer is ended, with all that it has started."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        seconds = max(1, int(cpu_s + 0.999))
        for what, limit in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, OUTPUT_MAX), (resource.RLIMIT_CORE, 0),
                            (resource.RLIMIT_AS, memory_max)):
            try:
                resource.prlimit(process.pid, what, (limit, limit))
            except (ProcessLookupError, PermissionError):
                pass  # it has ended
        timed_out = wait_for(process, wall_s)
        try:
            os.killpg(process.pid, signal.SIGKILL)  # also what it has left behind
        except ProcessLookupError:
            pass
        while process.returncode is None and not ended(process):
            time.sleep(0.001)
        file.seek(0)
        output = file.read(1 << 20).decode(errors="replace")
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL) and not timed_out:
        timed_out = "processor"
    return Ran(process.returncode, output, timed_out, time.monotonic() - start, process.cpu_s)


def digest(*texts):
    sha = hashlib.sha256()
    for text in texts:
        sha.update(text if isinstance(text, bytes) else text.encode())
        sha.update(b"\0")
    return sha.hexdigest()[:16]


def digest_files(paths):
    return digest(*(part for path in sorted(paths) for part in (path.name, path.read_bytes())))


class Results:
    """What was found for each mutant, in one file of build/. What was killed by something stays killed while the library, the
    explorer and that something are what they were; what lived is tried again when anything has changed. What killed a mutant
    once is tried first the next time, so the file is worth keeping over changes."""

    def __init__(self, path):
        self.path, self.lock, self.saved = path, threading.Lock(), time.monotonic()
        self.rows = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key):
        return self.rows.get(key)

    def put(self, key, row):
        with self.lock:
            self.rows[key] = row
            if time.monotonic() - self.saved > SAVE_EACH_S:
                self.save()

    def save(self):
        self.saved = time.monotonic()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.rows, indent=0, sort_keys=True))
        part.replace(self.path)


class Killers:
    """Digests of the files that drivers and tests stand in."""

    def __init__(self):
        self.library = digest_files(path for room in ("src", "include") for path in (ROOT / room).rglob("*") if path.is_file())
        engine = [path for path in (ROOT / "verify").glob("*.[ch]") if not path.name.startswith("drive_")]
        self.engine = digest_files([*engine, ROOT / "verify/CMakeLists.txt"])
        self.files = {}
        for path in sorted((ROOT / "verify").glob("drive_*.c")):
            text = path.read_text()
            for name in re.findall(r"\b(?:EXPLORE_DRIVER|[A-Z_]*DRIVER[A-Z_]*)\(\s*(\w+)", text):
                self.files[name] = digest(text)
        self.all_drivers = digest_files((ROOT / "verify").glob("drive_*.c"))
        self.all_tests = digest_files((ROOT / "tests").glob("*.[ch]*"))
        rooms = [path for room in ("verify/simulate", "tools/simulate") for path in (ROOT / room).rglob("*") if path.is_file()]
        self.costs = digest_files([ROOT / "verify/costs", *rooms])
        # What a site's number means.
        self.rewriter = digest_files([ROOT / "verify/schemata.py", ROOT / "verify/conditions.py"])

    def of(self, killer):
        """Everything that a kill by that driver or test rests on; None: by everything there is, for one that lives."""
        if killer is None:
            return digest(self.library, self.engine, self.all_drivers, self.all_tests, self.costs)
        if killer.startswith("test costs "):
            return digest(self.library, self.costs)
        if killer.startswith("test "):
            return digest(self.library, self.all_tests)
        return digest(self.library, self.engine, self.files.get(killer, self.all_drivers))


class Explorer:
    """A build of the schedule explorer."""

    def __init__(self, binary):
        self.binary = str(binary)
        listed = run([self.binary, "--list"], 60, 60)
        if listed.failed():
            sys.exit(f"mutants: {binary} --list: {listed.output}")
        names = [line.split()[0] for line in listed.output.splitlines()]
        self.drivers = [name for name in names if not name.startswith(("self_", "mix_"))]

    def digest(self):
        return digest(Path(self.binary).read_bytes())

    def run(self, *arguments, cpu_s=600, environment=None):
        return run([self.binary, *map(str, arguments)], cpu_s, cpu_s * 4 + 20, environment)


def first_failure(ran, seed):
    """(schedules until it failed, in which way)"""
    found = re.search(r"FAILED in schedule (\d+): (.*)", ran.output)
    if found:
        return seed - 1 + int(found[1]), found[2][:160]
    if ran.timed_out:
        return seed, "does not end"
    found = re.search(r"FAILED: (.*)", ran.output)
    return seed, found[1][:160] if found else f"ends with {ran.status}: {ran.output.strip()[-100:]}"


LIMIT = "limit of the explorer: "      # engine.h
NEVER_SEEN = "allowed outcomes never seen"  # explore.c


def is_limit(how):
    """The explorer had no room for what ran: that is no property of it."""
    return how.startswith(LIMIT)


def changed_lines(revision):
    """{file: set of lines} of src/ and include/ that differ from a revision."""
    diff = subprocess.run(["git", "diff", "-U0", revision, "--", "src", "include"], cwd=ROOT, capture_output=True, text=True, check=False)
    if diff.returncode != 0:
        sys.exit(f"mutants: git diff {revision}: {diff.stderr}")
    lines, file = {}, None
    for line in diff.stdout.splitlines():
        if line.startswith("+++ "):
            file = os.path.basename(line[4:])
        found = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if found and file:
            first, count = int(found[1]), int(found[2] or 1)
            lines.setdefault(file, set()).update(range(first, first + count))
    return lines
