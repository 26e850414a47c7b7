"""Encodes, and what each cost: frames per second, context switches, CPU time, and the hash of the bitstream.

Frames per second are the use of the CPUs over the CPU time of a frame. A pool decides the former; the latter drifts with the machine's
speed, more from encode to encode than pools differ. So a row has both ratios to stock beside that of the fps.
"""

import dataclasses
import hashlib
import math
import os
import re
import signal
import statistics
import subprocess
import time

LEVEL_WITHIN = 1.1  # less apart than that
HANG_SECONDS = 300  # an encode takes seconds


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way to encode: which build, and under which scheduling."""

    pool: str
    lookahead_threads: int = 0  # 0: x264's default
    cpus: int = 0  # CPUs it may use; 0: all
    realtime: bool = False  # SCHED_RR, priority 1

    def row_pool(self):
        return f"{self.pool}-rr" if self.realtime else self.pool


@dataclasses.dataclass(frozen=True)
class Case:
    """Variants to run in turn on one clip, with one mode and number of threads."""

    clip: str
    path: str
    mode: str  # "sliced" or "frame"
    threads: int
    variants: tuple

    def arguments(self, variant, output):
        words = ["--preset", "superfast", "--threads", str(self.threads), "--no-progress"]
        words += ["--tune", "zerolatency"] if self.mode == "sliced" else []
        words += ["--lookahead-threads", str(variant.lookahead_threads)] if variant.lookahead_threads else []
        return [*words, "-o", output, self.path]


@dataclasses.dataclass(frozen=True)
class Sample:
    """What one encode cost."""

    fps: float
    frames: int
    context_switches: int
    cpu_percent: float
    cpu_seconds: float
    others_percent: float  # of all CPUs, what was not this encode's, stolen time included
    digest: str
    frame_ms: tuple = ()  # what each call of the encoder took


class EncodeFailed(Exception):
    """An encode crashed or hung; the text says which and how."""


def use_scheduling(variant):
    if variant.cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: variant.cpus])
    if variant.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def realtime_allowed():
    """Whether this account may use SCHED_RR: tried in a child, so that this process keeps its own policy."""
    child = os.fork()
    if child == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def hang(signum, frame):
    raise EncodeFailed(f"no end after {HANG_SECONDS} s: it hangs")


def machine_cpu_seconds():
    """What all CPUs have spent not idle since the machine started, stolen time included; 0 where it cannot be read."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    except (OSError, ValueError):
        return 0
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run_and_account(command, variant, log, times):
    """Runs a command to its end: (exit code, seconds, its rusage). The file `times` then has those of its frames."""
    start = time.monotonic()
    with open(log, "wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "X264_FRAME_TIMES": times}, preexec_fn=lambda: use_scheduling(variant))
        signal.signal(signal.SIGALRM, hang)
        signal.alarm(HANG_SECONDS)
        try:
            status, usage = os.wait4(child.pid, 0)[1:]
        except EncodeFailed:
            child.kill()
            child.wait()
            raise
        finally:
            signal.alarm(0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, time.monotonic() - start, usage


def read_frame_ms(path, frames):
    """What the calls that frame_times.c noted took, in ms; empty if they are not one a frame, as of a program that pipelines
    frames."""
    try:
        with open(path, encoding="ascii") as lines:
            times = [tuple(map(int, line.split())) for line in lines]
    except FileNotFoundError:
        times = []
    if len(times) < frames:
        raise EncodeFailed(f"{len(times)} frame times of {frames} frames")
    return tuple((end - begin) / 1e6 for begin, end in times) if len(times) == frames else ()


def encode(program, case, variant, work):
    """One encode's Sample."""
    output, log, times = (os.path.join(work, name) for name in ("out.264", "encode.log", "frame.times"))
    if os.path.exists(times):
        os.remove(times)
    before = machine_cpu_seconds()
    try:
        code, seconds, usage = run_and_account([program, *case.arguments(variant, output)], variant, log, times)
        after = machine_cpu_seconds()
        with open(log, encoding="utf-8", errors="replace") as text:
            said = text.read()
        found = re.search(r"encoded (\d+) frames, ([\d.]+) fps", said)
        if code or not found:
            raise EncodeFailed(f"exit code {code}: {said.strip().splitlines()[-1:]}")
        frame_ms = read_frame_ms(times, int(found[1]))
    except EncodeFailed as error:
        words = f"{case.clip} {case.mode} {case.threads} threads, {variant.row_pool()}"
        raise EncodeFailed(f"{words}: {error}") from error
    with open(output, "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
    cpu_seconds = usage.ru_utime + usage.ru_stime
    others = after - before - cpu_seconds
    return Sample(
        fps=float(found[2]),
        frames=int(found[1]),
        context_switches=usage.ru_nvcsw + usage.ru_nivcsw,
        cpu_percent=100 * cpu_seconds / seconds,
        cpu_seconds=cpu_seconds,
        others_percent=100 * max(0, others) / seconds / (os.cpu_count() or 1),
        digest=digest,
        frame_ms=frame_ms,
    )


def control_of(variant):
    """The pool of two workers, under the very same conditions."""
    return dataclasses.replace(variant, pool="control")


def stock_of(variant):
    """The variant that this one is compared with: the stock pool under the same conditions."""
    return dataclasses.replace(variant, pool="stock", realtime=False)


def same_bits(case, variant, samples):
    """Whether every bitstream is the stock pool's; None where stock itself is not stable (sliced, lookahead threads 1)."""
    if case.mode == "sliced" and variant.lookahead_threads == 1:
        return None
    plain = dataclasses.replace(stock_of(variant), cpus=0)
    reference = samples.get(plain) or samples[stock_of(variant)]
    return {sample.digest for sample in samples[variant]} == {reference[0].digest}


def spread(name, values):
    return {name: statistics.median(values), f"{name}_min": min(values), f"{name}_max": max(values)}


def outside_interval(rounds):
    """Of so many sorted ratios, how many on either side the true median is not beyond with 95 % confidence (sign test).
    None: there are too few for any interval."""
    ways = tail = 0.5**rounds
    found = None
    for k in range(rounds // 2):
        if 2 * tail > 0.05:
            break
        found = k
        ways *= (rounds - k) / (k + 1)
        tail += ways
    return found


def interval(ratios):
    """(low, high, whether the true median lies between them with 95 % confidence): else the least and the most."""
    outside = outside_interval(len(ratios))
    ordered = sorted(ratios)
    return ordered[outside or 0], ordered[-1 - (outside or 0)], outside is not None


def verdict(ratios):
    """Of fps over another's, round by round: as `weft race` says it of times."""
    low, high, is_sure = interval(ratios)
    if not is_sure:
        return "undecided"
    if low > 1 or high < 1:
        return "first" if low > 1 else "behind"
    return "level" if low >= 1 / LEVEL_WITHIN and high <= LEVEL_WITHIN else "undecided"


def beside(name, mine, other):
    """The ratios of fps, round by round: their median and range, their mean and its error, interval and verdict."""
    ratios = [one.fps / another.fps for one, another in zip(mine, other)]
    low, high, _ = interval(ratios)
    told = {f"{name}_low": low, f"{name}_high": high, f"{name}_verdict": verdict(ratios)}
    return spread(name, ratios) | mean_ratio(name, ratios) | told


def mean_ratio(name, ratios):
    """The geometric mean of the rounds' ratios and its standard error, which says what the rounds can show."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = math.exp(statistics.mean(logs))
    error = mean * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None
    return {f"{name}_mean": mean, f"{name}_error": error}


def percentile(values, percent):
    """The nearest rank."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def frame_times(mine, stock):
    """Of all rounds' frames together; and p99 over stock's, round by round, its mean and error."""
    if not all(sample.frame_ms for sample in (*mine, *stock)):
        return {}
    all_mine, all_stock = ([ms for sample in samples for ms in sample.frame_ms] for samples in (mine, stock))
    values = {f"frame_ms_p{percent}": percentile(all_mine, percent) for percent in (50, 90, 99)}
    values["frame_p99_of_stock"] = values["frame_ms_p99"] / percentile(all_stock, 99)
    return values | mean_ratio("frame_p99_to_stock", [percentile(one.frame_ms, 99) / percentile(other.frame_ms, 99)
                                                      for one, other in zip(mine, stock)])


def row(case, variant, samples):
    """The figures of one variant. Ratios are taken round by round: what drifts hits both sides of a round."""
    mine = samples[variant]
    pairs = list(zip(mine, samples[stock_of(variant)]))
    values = {"clip": case.clip, "mode": case.mode, "threads": case.threads, "pool": variant.row_pool()}
    values |= {"lookahead_threads": variant.lookahead_threads or None}
    values |= {"cpus": variant.cpus or len(os.sched_getaffinity(0)), "rounds": len(mine), "frames": mine[0].frames}
    values |= spread("fps", [sample.fps for sample in mine])
    values |= beside("ratio_to_stock", mine, samples[stock_of(variant)])
    values |= mean_ratio("use_to_stock", [one.cpu_percent / stock.cpu_percent for one, stock in pairs])
    values |= mean_ratio("cpu_to_stock", [one.cpu_seconds / stock.cpu_seconds for one, stock in pairs])
    values |= frame_times(mine, samples[stock_of(variant)])
    others = {"control": control_of(variant)} if variant.pool != "control" else {}
    if variant.realtime:
        others["stock_rr"] = dataclasses.replace(variant, pool="stock")
    if not variant.lookahead_threads:
        others["serial_lookahead"] = dataclasses.replace(variant, lookahead_threads=1)
    for name, other in others.items():
        if other in samples:
            values |= beside(f"ratio_to_{name}", mine, samples[other])
    values["context_switches_per_frame"] = statistics.median(sample.context_switches / sample.frames for sample in mine)
    values["cpu_percent"] = statistics.median(sample.cpu_percent for sample in mine)
    values["others_percent"] = statistics.median(sample.others_percent for sample in mine)
    values["identical"] = same_bits(case, variant, samples)
    return values


def measure(case, programs, rounds, work, progress):
    """The rows of one case: each round runs every variant once, and begins with another one than the last."""
    samples = {variant: [] for variant in case.variants}
    for turn in range(rounds):
        first = turn % len(case.variants)
        for variant in case.variants[first:] + case.variants[:first]:
            progress(case, variant)
            samples[variant].append(encode(programs[variant.pool], case, variant, work))
    return [row(case, variant, samples) for variant in case.variants]
