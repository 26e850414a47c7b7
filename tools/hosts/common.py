"""What the hosts share: commands with their cost, turns, figures with intervals, and the kinds of host and case."""

import contextlib
import dataclasses
import hashlib
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "x264_race"))

from source import Broken, Unavailable, run  # noqa: E402,F401  (others take them from here)

LIBRARY = os.path.join(ROOT, "build", "release", "libweft.a")
INCLUDE = os.path.join(ROOT, "include")
ADAPTERS = os.path.join(ROOT, "adapters")
STOCK, WEFT = "stock", "weft"
BUILDS = (STOCK, WEFT)
HANG_SECONDS = 900
settings = {"long": False,  # whether tests of a quarter of an hour are wanted
            "alone": None}  # percent of the CPUs that others may have in a turn that counts; None: any
TRIES = 3  # turns that are taken for each that counts, at most
TEST_SECONDS = 3600  # C-Thread-Pool's memleaks runs valgrind hundreds of times


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one run took and gave."""

    code: int
    seconds: float
    cpu_seconds: float
    peak_kib: int
    output: str  # a digest
    told: int = 1  # bytes of that; -1: there is no file
    others: float = 0.0  # percent of the CPUs that other programs had meanwhile, and the host of a virtual machine took


@dataclasses.dataclass(frozen=True)
class Case:
    """Something to run with each build. `command` and `output` are given the build's name."""

    name: str
    command: object  # build -> list of words
    output: object = None  # build -> path of the file that must be equal; None: what it prints
    ignore: str = ""  # a pattern: what may differ in that, a speed or a date
    lines: bool = True  # False: not compared at all
    folder: object = None  # build -> where to run it
    seconds: int = HANG_SECONDS  # after which it hangs


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a host's test ended; where its log has names of tests, those that pass."""

    code: int
    log: str
    good: frozenset = frozenset()

    def __bool__(self):
        return self.code == 0

    def naming(self, passes, fails="(?!)"):
        """With the names that one pattern finds in the log and the other does not."""
        with open(self.log, encoding="utf-8", errors="replace") as text:
            lines = text.read()
        return dataclasses.replace(self, good=frozenset(re.findall(passes, lines, re.M)) - set(re.findall(fails, lines, re.M)))


@dataclasses.dataclass
class Result:
    """What is said about one host."""

    name: str
    suites: list = dataclasses.field(default_factory=list)  # (test, {build: Outcome, or whether it passes})
    unknown: list = dataclasses.field(default_factory=list)  # tests that say nothing of weft
    cases: int = 0  # that were wanted
    is_measured: bool = False
    is_interrupted: bool = False
    rows: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)
    remarks: list = dataclasses.field(default_factory=list)


def all_busy_seconds():
    """CPU time of the whole machine that was not idle."""
    with open("/proc/stat", encoding="utf-8") as text:
        user, nice, system, _, _, irq, softirq, steal = (int(word) for word in text.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def cost(command, log, ignore="", output=None, folder=None, seconds=HANG_SECONDS):
    """Runs a command to its end, its output in `log`. One that hangs is killed and has a code that says so."""
    if output is not None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(output)  # an earlier run's
    busy, began, peak = all_busy_seconds(), time.monotonic(), f"{os.path.abspath(log)}.peak"
    # The system counts what this program had in memory to a child's peak, so another program starts the command.
    starter = ["/usr/bin/time", "-q", "-f", "%M", "-o", peak]
    with open(log, "wb") as out:
        try:
            child = subprocess.Popen(starter + command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder,
                                     start_new_session=True)
        except FileNotFoundError as missing:
            raise Unavailable(f"no {missing.filename} to run commands with") from missing
        guard = threading.Timer(seconds, os.killpg, (child.pid, signal.SIGKILL))
        guard.start()
        _, status, usage = os.wait4(child.pid, 0)
        guard.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds, own = time.monotonic() - began, usage.ru_utime + usage.ru_stime
    others = max(all_busy_seconds() - busy - own, 0) / seconds / os.cpu_count() * 100
    peak_kib = 0
    if child.returncode >= 0:
        with open(peak, encoding="utf-8") as told:
            peak_kib = int(told.read().split()[-1])
    text, told = b"", -1
    if output is None or os.path.exists(output):
        with open(output or log, "rb") as result:
            text = re.sub(ignore.encode(), b"", result.read()) if ignore else result.read()
        told = len(text.strip())
    return Cost(child.returncode, seconds, own, peak_kib, hashlib.sha256(text).hexdigest(), told, others)


def passes(command, log, folder, environment=None, seconds=None):
    """How a test of a host's ends. One that hangs does not end well: it is killed, with all that it began."""
    with open(log, "wb") as out:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 start_new_session=True)
        try:
            return Outcome(child.wait(seconds or TEST_SECONDS), log)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            code = child.wait()
            out.write(f"\nkilled after {seconds or TEST_SECONDS} s\n".encode())
            return Outcome(code, log)


def median_interval(values):
    """(low, high) that holds the true median at 95 percent or more, by the order of the values; None for fewer than six."""
    values, count = sorted(values), len(values)
    outside, skip = 0.0, 0
    while skip < count // 2:
        outside += 2 * math.comb(count, skip) / 2**count
        if outside > 0.05:
            break
        skip += 1
    return (values[skip - 1], values[count - skip]) if skip else None


def with_interval(values):
    found = median_interval(values)
    text = f"{statistics.median(values):.3f}"
    if found:
        return f"{text} ({found[0]:.3f} to {found[1]:.3f})"
    return f"{text} (of {len(values)}: too few for an interval)"


def take_turns(host, case, rounds, work, result):
    """A row for each case: every round runs each build once and begins with another one than the last. One that others disturb does
    not count, and another one is taken in its place, as long as there are tries."""
    costs, limit = {build: [] for build in BUILDS}, settings["alone"]
    turns = max(rounds, 1)
    for turn in range(turns * (1 if limit is None else TRIES)):
        if len(costs[WEFT]) == turns:
            break
        both = {}
        for build in BUILDS if turn % 2 == 0 else reversed(BUILDS):
            log = os.path.join(work, f"{case.name.replace(' ', '-').replace('/', '-')}.{build}.log")
            output = case.output(build) if case.output else None
            folder = case.folder(build) if case.folder else None
            done = cost(case.command(build), log, case.ignore, output, folder, case.seconds)
            if done.code and build == STOCK:
                result.remarks.append(f"skipped, {case.name}: ends with {done.code} with the host's own pool; see {log}")
                return
            if done.code:
                result.faults.append(f"{host.name}: {case.name}, {build}: ends with {done.code}; see {log}")
                return
            if case.lines and output and done.told <= 0:
                result.faults.append(f"{host.name}: {case.name}, {build}: {'an empty' if done.told == 0 else 'no'} {output}; see {log}")
                return
            both[build] = done
        if limit is None or max(done.others for done in both.values()) <= limit:
            for build, done in both.items():
                costs[build].append(done)
    if not costs[WEFT]:
        result.unknown.append(f"{host.name}: {case.name}: others had more than {limit} % of the CPUs in each of {turn + 1} turns")
        return
    if limit is not None:
        result.remarks.append(f"{case.name}: {len(costs[WEFT])} of {turn + (len(costs[WEFT]) < turns)} turns count")
    same = len({each.output for build in BUILDS for each in costs[build]}) == 1 if case.lines else None
    if same is False:
        result.faults.append(f"{host.name}: {case.name}: the output differs")
    elif same and not costs[WEFT][0].told:
        same = None
        result.remarks.append(f"{case.name}: prints nothing that could be compared")
    peaks = {build: statistics.median(each.peak_kib for each in costs[build]) / 1024 for build in BUILDS}
    shares = [weft.peak_kib / stock.peak_kib for stock, weft in zip(costs[STOCK], costs[WEFT])]
    speeds = [stock.seconds / weft.seconds for stock, weft in zip(costs[STOCK], costs[WEFT])]
    cpus = [weft.cpu_seconds / stock.cpu_seconds for stock, weft in zip(costs[STOCK], costs[WEFT]) if stock.cpu_seconds]
    result.rows.append({
        "host": host.name, "case": case.name, "output": {True: "same", False: "DIFFERS", None: "-"}[same],
        "peak": f"{peaks[STOCK]:.1f} -> {peaks[WEFT]:.1f} MiB, {statistics.median(shares):.3f}",
        "speed": with_interval(speeds) if rounds else "not timed",
        "cpu": f"{statistics.median(cpus):.2f}" if rounds and cpus else "",
        "others": f"{statistics.median(each.others for build in BUILDS for each in costs[build]):.0f} %" if rounds else "",
    })
    if rounds:  # a run that is ended before its table has shown what it had
        print("  ".join(cell for cell in result.rows[-1].values() if cell), file=sys.stderr, flush=True)


def measure(host, work, chosen, result):
    """Suites of both builds, unless they are not wanted, then the cases that are."""
    for test, passed in () if chosen.no_tests else host.suite():
        result.suites.append((test, passed))
        judge(f"{host.name}: {test}", passed, result)
    for case in host.cases():
        if re.search(chosen.only, case.name):
            result.cases += 1
            take_turns(host, case, chosen.rounds, work, result)


def judge(test, passed, result):
    """What both outcomes of one test say of weft."""
    stock, weft = passed[STOCK], passed[WEFT]
    good, code = ([getattr(passed[build], name, no) for build in BUILDS] for name, no in (("good", frozenset()), ("code", 1)))
    lost = sorted(good[0] - good[1])
    if lost:
        result.faults.append(f"{test}: pass with the host's own pool alone: {' '.join(lost)}")
    elif stock and not weft:
        result.faults.append(f"{test}: {told(passed)}")
    elif not stock and weft:
        result.remarks.append(f"{test} fails with the host's own pool here")
    elif not stock and good[0] and code[0] != code[1]:
        result.faults.append(f"{test}: ends with {code[1]}, and with {code[0]} with the host's own pool")
    elif not stock and good[0]:
        result.remarks.append(f"{test}: fails with both; the {len(good[0])} that pass with the host's own pool pass with weft")
    elif not stock:
        result.unknown.append(f"{test}: both fail: nothing is known of weft")


def told(passed):
    return ", ".join(f"{build} {'passes' if good else 'FAILS'}" for build, good in passed.items())
