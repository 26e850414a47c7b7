#!/usr/bin/env python3
"""`weft doctor` on trees of files made up for it: it finds what is wrong, changes nothing, and its script changes what it says and puts
it back.

Usage: test_doctor.py WEFT"""
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

WEFT = sys.argv[1]
CPU = "/sys/devices/system/cpu"
CLOCK = "/sys/devices/system/clocksource/clocksource0"

# A machine that costs time in every way.
BAD = {
    "/proc/sys/kernel/osrelease": "6.1.0-test\n",
    "/boot/config-6.1.0-test": "CONFIG_NO_HZ_FULL=y\n# CONFIG_RCU_NOCB_CPU is not set\n",
    "/proc/cmdline": "root=/dev/sda quiet\n",
    f"{CPU}/online": "0-3\n",
    f"{CPU}/isolated": "\n",
    f"{CPU}/nohz_full": "(null)\n",
    "/proc/irq/1/smp_affinity_list": "0-3\n",
    "/proc/irq/2/smp_affinity_list": "0\n",
    "/sys/bus/workqueue/devices/writeback/cpumask": "f\n",
    "/sys/devices/virtual/workqueue/cpumask": "0000000f\n",
    "/proc/1/status": "Name:\tinit\nVmSize:\t 10 kB\nCpus_allowed_list:\t0-3\n",
    "/proc/2/status": "Name:\tkthreadd\nCpus_allowed_list:\t0-3\n",
    "/proc/sys/vm/stat_interval": "1\n",
    "/proc/sys/kernel/watchdog": "1\n",
    "/proc/sys/kernel/sched_rt_runtime_us": "950000\n",
    "/proc/stat": "cpu  50 0 0 40 0 0 0 10 0 0\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu0/cpuidle/state0/latency": "0\n",
    f"{CPU}/cpu0/cpuidle/state0/name": "POLL\n",
    f"{CPU}/cpu0/cpuidle/state0/disable": "0\n",
    f"{CPU}/cpu0/cpuidle/state1/latency": "133\n",
    f"{CPU}/cpu0/cpuidle/state1/name": "C6\n",
    f"{CPU}/cpu0/cpuidle/state1/disable": "0\n",
    "/sys/module/haltpoll/parameters/guest_halt_poll_ns": "0\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "/proc/self/timerslack_ns": "50000\n",
    "/proc/self/status": "Cpus_allowed_list:\t0-1\n",
    f"{CLOCK}/current_clocksource": "hpet\n",
    f"{CLOCK}/available_clocksource": "hpet acpi_pm tsc \n",
    "/proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n"
                         "Max locked memory         65536                65536                bytes     \n"
                         "Max realtime priority     0                    0                    \n",
    "/proc/self/cgroup": "0::/slice/job\n",
    "/sys/fs/cgroup/slice/cpu.max": "50000 100000\n",
    "/sys/fs/cgroup/slice/job/cpu.max": "max 100000\n",
}
COSTS = {
    "CONFIG_RCU_NOCB_CPU", "isolcpus", "nohz_full", "interrupts", "writeback", "work queues", "other programs", "vm.stat_interval",
    "kernel.watchdog", "kernel.sched_rt_runtime_us", "frequency", "idle states", "halt polling", "huge pages", "timer slack",
    "clock source", "CPU quota", "Max realtime priority", "Max locked memory",
}
GIVEN = {"rcu_nocbs", "rcu_nocb_poll", "steal time", "CPUs"}  # no option in the kernel, no command
# What the script writes.
WRITTEN = {
    "/proc/irq/1/smp_affinity_list": "0", "/sys/bus/workqueue/devices/writeback/cpumask": "1",
    "/sys/devices/virtual/workqueue/cpumask": "1", "/proc/sys/vm/stat_interval": "120", "/proc/sys/kernel/watchdog": "0",
    "/proc/sys/kernel/sched_rt_runtime_us": "-1", f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/cpu0/cpuidle/state1/disable": "1", "/sys/module/haltpoll/parameters/guest_halt_poll_ns": "200000",
    "/sys/kernel/mm/transparent_hugepage/enabled": "madvise", f"{CLOCK}/current_clocksource": "tsc",
}
# The same machine as it should be.
GOOD = {
    **BAD,
    "/boot/config-6.1.0-test": "CONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n",
    "/proc/cmdline": "quiet isolcpus=1-3 nohz_full=1-3 rcu_nocbs=1-3 rcu_nocb_poll\n",
    f"{CPU}/isolated": "1-3\n", f"{CPU}/nohz_full": "1-3\n",
    **{path: text + "\n" for path, text in WRITTEN.items()},
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/proc/1/status": "VmSize:\t 10 kB\nCpus_allowed_list:\t0\n",
    "/proc/stat": "cpu  50 0 0 40 0 0 0 0 0 0\n",
    "/proc/self/status": "Cpus_allowed_list:\t0-3\n",
    "/proc/self/timerslack_ns": "1\n",
    "/proc/self/limits": "Max locked memory  unlimited unlimited bytes\nMax realtime priority 95 95 \n",
    "/sys/fs/cgroup/slice/cpu.max": "max 100000\n",
}


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def plant(root, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())


def contents(root):
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)[len(root):]] = file.read()
    return found


def doctor(*options, environment=None):
    done = subprocess.run([WEFT, "doctor", *options], capture_output=True, text=True, timeout=600, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def findings(root):
    """Item -> finding, by the JSON, which must say what the report says."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "findings.json")
        status, output, errors = doctor("--root", root, "--json", file)
        check(status == 0, f"status {status}: {errors}")
        with open(file, encoding="utf-8") as text:
            found = {finding["item"]: finding for finding in json.load(text)["findings"]}
    for item, finding in found.items():
        check(f"{finding['verdict']:6} {item} " in output, f"{item} is in the report")
        shown = f"> {finding['command']}\n" in output
        check(shown or not finding["command"] or finding["verdict"] in ("good", "-"), f"the command for {item} is in the report")
    return found


def of_verdict(found, verdict):
    return {item for item, finding in found.items() if finding["verdict"] == verdict}


def bad_machine(root):
    plant(root, BAD)
    found = findings(root)
    check(of_verdict(found, "COSTS") == COSTS, f"what costs: {of_verdict(found, 'COSTS') ^ COSTS}")
    check(of_verdict(found, "given") == GIVEN, f"what is given: {of_verdict(found, 'given') ^ GIVEN}")
    check(of_verdict(found, "good") == {"CONFIG_NO_HZ_FULL"}, f"what is good: {of_verdict(found, 'good')}")
    for item in COSTS:
        check(found[item]["command"] and found[item]["cost"], f"{item} has a cost and a command")
    for item, now in (("interrupts", "1 of 2 may"), ("other programs", "1 of 1 may"), ("steal time", "10.00 %"), ("CPUs", "2 of 4"),
                      ("idle states", "C6, 133 us"), ("CPU quota", "0.50 CPUs (/sys/fs/cgroup/slice)"), ("frequency", "powersave, perf"),
                      ("isolcpus", "no CPU")):
        check(now in found[item]["now"], f"{item}: {found[item]['now']}")
    check("isolcpus=1-3" in found["isolcpus"]["command"], found["isolcpus"]["command"])
    check(contents(root) == {path: text.encode() for path, text in BAD.items()}, "nothing was changed")


def good_machine(root):
    plant(root, GOOD)
    found = findings(root)
    check(of_verdict(found, "good") == set(found) - {"cores", "time slices"}, f"not good: {[f for f in found.values() if f['verdict'] != 'good']}")
    _, script, _ = doctor("--root", root, "--script")
    check("\n    put " not in script, f"nothing to write: {script}")


def script(root):
    plant(root, BAD)
    before = contents(root)
    file = root + "/script"
    status, text, errors = doctor("--root", root, "--script")
    check(status == 0, f"status {status}: {errors}")

    def run(*words, expect=0):
        done = subprocess.run(["sh", "-c", text, file, *words], env={**os.environ, "ROOT": root}, capture_output=True, text=True,
                              timeout=600, check=False)
        check(done.returncode == expect, f"{words}: status {done.returncode}: {done.stderr}")
        return contents(root)

    changed = run()
    differs = {path: changed[path].decode().strip() for path in changed if changed[path] != before[path]}
    check(differs == WRITTEN, f"the script changes {differs}")
    plant(root, {"/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n"})  # as the kernel shows it
    check(of_verdict(findings(root), "COSTS").isdisjoint({"interrupts", "frequency", "idle states", "clock source"}), "it helped")
    undone = run("undo")
    undone["/sys/kernel/mm/transparent_hugepage/enabled"] = b"[always] madvise never\n"
    check(undone == before, "undo puts back what was there")
    booted = run("boot")
    added = {path: booted[path].decode() for path in booted if path not in before}
    want = {"/etc/default/grub.d/weft.cfg": 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=1-3 nohz_full=1-3"\n'}
    check(added == want, f"boot adds {added}")
    check(set(run("undo-boot")) == set(before), "undo-boot takes it away")
    run("nonsense", expect=2)
    os.unlink(root + "/proc/sys/kernel/watchdog")
    os.mkdir(root + "/proc/sys/kernel/watchdog")
    run(expect=1)  # one file cannot be written: it says so and goes on


def other_places(root):
    """Older cgroups, a packed configuration, one CPU."""
    plant(root, {
        "/proc/sys/kernel/osrelease": "6.1.0-test\n", "/proc/config.gz": gzip.compress(b"CONFIG_NO_HZ_FULL=y\n"),
        f"{CPU}/online": "0\n", "/proc/self/cgroup": "3:cpu,cpuacct:/a/b\n1:name=systemd:/c\n",
        "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "150000\n", "/sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
        "/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us": "-1\n", "/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us": "100000\n",
    })
    found = findings(root)
    check(found["CONFIG_NO_HZ_FULL"]["verdict"] == "good" and found["CONFIG_RCU_NOCB_CPU"]["verdict"] == "COSTS", "config.gz is read")
    check(found["CPU quota"]["now"] == "1.50 CPUs (/sys/fs/cgroup/cpu/a)", found["CPU quota"]["now"])
    check(found["isolcpus"]["verdict"] == "given", "one CPU cannot be kept free")


def cores(root):
    """Two quick CPUs and two slow ones."""
    for cpu in range(4):
        own = f"{CPU}/cpu{cpu}"
        plant(root, {f"{own}/topology/core_id": f"{cpu}\n", f"{own}/topology/physical_package_id": "0\n",
                     f"{own}/topology/core_cpus": f"{1 << cpu:x}\n", f"{own}/topology/package_cpus": "f\n",
                     f"{own}/cpu_capacity": "1024\n" if cpu in (1, 3) else "400\n"})
    plant(root, {f"{CPU}/online": "0-3\n", f"{CPU}/possible": "0-3\n", "/proc/cpuinfo": "processor\t: 0\n"})
    found = findings(root)
    if "without hwloc" in found["cores"]["now"]:
        print("skipped, cores: libhwloc-dev is not installed")
        return
    check(found["cores"]["now"].startswith("4 cores, 4 CPUs"), found["cores"]["now"])
    check("CPUs 1,3; 0,2" in found["kinds of cores"]["now"], found["kinds of cores"]["now"])
    check("WEFT_CPUS=1,3 " in found["kinds of cores"]["command"], found["kinds of cores"]["command"])


def nonsense(root):
    """A tree without files, then one whose files make no sense: nothing is known, nothing breaks."""
    found = findings(root)
    check(of_verdict(found, "COSTS") == set(), f"an empty tree costs {of_verdict(found, 'COSTS')}")
    for text in ("\0\xff;'$(false)\n", "", "-,9999999999999999999-1,,\n" * 1000):
        plant(root, {path: text for path in BAD})
        findings(root)
        _, output, _ = doctor("--root", root, "--script")
        done = subprocess.run(["sh", "-n"], input=output, text=True, capture_output=True, check=False)
        check(done.returncode == 0, f"a script that a shell can read: {done.stderr}")


def this_machine(_):
    status, output, errors = doctor()
    check(status == 0 and "Nothing was changed" in output, f"status {status}: {errors}")
    lines = [line for line in output.splitlines() if line[7:].startswith("time slices ")]
    check(len(lines) == 1 and ("of 60 wakes beside a busy thread" in lines[0]), f"slices are tried: {lines}")


def under_make(root):
    """Whether make's tokens are there for this program."""
    os.mkfifo(root + "/fifo")
    server = os.open(root + "/fifo", os.O_RDWR)
    os.write(server, b"+")
    try:
        for flags, verdict in (("", None), (" -j2", None), (f" -j2 --jobserver-auth=fifo:{root}/fifo", "good"),
                               (f" -j2 --jobserver-auth=fifo:{root}/none", "COSTS"), (" -j2 --jobserver-auth=-2,-2", "COSTS")):
            status, output, errors = doctor(environment=os.environ | {"MAKEFLAGS": flags})
            lines = [line for line in output.splitlines() if line[7:].startswith("make's tokens ")]
            check(status == 0 and len(lines) == (verdict is not None), f"status {status}, {lines}: {errors}")
            check(verdict is None or lines[0].startswith(verdict), f"{flags}: {lines}")
            advises = "> begin the recipe's line with +" in output
            check(advises == flags.endswith("-2,-2"), f"{flags}: advice, {output}")  # a pipe that is gone is not mended by it
        check(os.read(server, 10) == b"+", "the token is there")
    finally:
        os.close(server)


def instances_left():
    """Trace instances of runs that have ended; others may be running."""
    folder = "/sys/kernel/tracing/instances"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {name for name in names if name.startswith("weft-") and not os.path.exists("/proc/" + name[len("weft-"):])}


def loop(root):
    """The loop runs, tells what disturbed it or why it cannot, and leaves no trace instance behind."""
    picture = ["--plot", root + "/loop.svg"] if shutil.which("gnuplot") else []
    before = instances_left()  # of runs that somebody has killed
    status, output, errors = doctor("loop", "--seconds", "0.05", *picture)
    check(status == 0, f"status {status}: {errors}")
    check(output.startswith("fib(19) on CPU ") and "of the time went elsewhere" in output, output)
    check("\nno trace events: /" in output or "\nwhat the kernel did on this CPU" in output, output)
    check(instances_left() <= before, f"instances are left: {instances_left() - before}")
    if picture:
        check("<svg" in contents(root)["/loop.svg"].decode(), "there is a picture")
    else:
        print("skipped, plot: gnuplot is not installed")


def interrupted_loop(command, until):
    """Of a loop for ten minutes: its output, and its memory in KiB. It is interrupted when `until` of its pid holds."""
    run = subprocess.Popen([*command, WEFT, "doctor", "loop", "--seconds", "600"], stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            with open(f"/proc/{run.pid}/comm", encoding="utf-8") as name:
                if name.read() == "weft-loop\n" and until(run.pid):
                    break
            time.sleep(0.1)
        else:
            raise AssertionError("it does not come to that")
    finally:
        run.send_signal(signal.SIGINT)
        output = run.stdout.read()
        _, status, usage = os.wait4(run.pid, 0)
    check(os.waitstatus_to_exitcode(status) == 130 and "of the time went elsewhere" in output, f"status {status}: {output}")
    return output, usage.ru_maxrss


def long_loop(_):
    """Its memory does not depend on its time."""
    _, kib = interrupted_loop([], lambda _: True)
    check(kib < 500000, f"{kib} KiB")


def lost_events(_):
    """If the kernel has had no room for events, the output says so."""
    mounts = ["unshare", "--mount", "sh", "-c", 'mount -t tracefs tracefs /sys/kernel/tracing && exec "$0" "$@"']
    if os.geteuid() != 0 or subprocess.run([*mounts, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped, lost_events: no tracefs for this user")
        return

    def overrun(pid):
        folder = f"/proc/{pid}/root/sys/kernel/tracing/instances/weft-{pid}/per_cpu"
        counts = []
        for cpu in os.listdir(folder):
            with open(f"{folder}/{cpu}/stats", encoding="utf-8") as stats:
                counts += [int(line.split()[1]) for line in stats if line.startswith("overrun:")]
        return sum(counts) > 0

    echo = subprocess.Popen([sys.executable, "-c", "import os\na, b = os.pipe(), os.pipe()\nif os.fork():\n"
                             "    while os.write(a[1], b'x'): os.read(b[0], 1)\n"
                             "else:\n    while os.getppid() != 1 and os.read(a[0], 1): os.write(b[1], b'x')"],
                            start_new_session=True)
    try:
        output, _ = interrupted_loop(mounts, overrun)
    finally:
        os.killpg(echo.pid, signal.SIGKILL)
        echo.wait()
    check(" events were lost (" in output, output)


def other_bytes(root):
    """What is in a file need not be UTF-8: the JSON is."""
    plant(root, {**BAD, f"{CLOCK}/current_clocksource": b"h\xffet\n"})
    done = subprocess.run([WEFT, "doctor", "--root", root, "--json", root + "/found.json"], capture_output=True, timeout=600, check=False)
    check(done.returncode == 0, f"{done}")
    with open(root + "/found.json", encoding="utf-8") as file:
        check(any("\ufffd" in finding["now"] for finding in json.load(file)["findings"]), "the byte is replaced")


def wrong_options(root):
    for options in (["--nonsense"], ["--root", root + "/nowhere"], ["--root"], ["loop", "--cpu", "1023"], ["loop", "--seconds", "0"]):
        status, _, errors = doctor(*options)
        check(status == 2 and errors.strip(), f"{options}: status {status}")
    status, _, errors = doctor("--root", root, "--json", "/nonexistent/file")
    check(status == 2 and "/nonexistent/file" in errors, f"status {status}: {errors}")


def main():
    for case in (bad_machine, good_machine, script, other_places, cores, nonsense, this_machine, under_make, loop, long_loop, lost_events, other_bytes, wrong_options):
        with tempfile.TemporaryDirectory() as root:
            case(root)
        print("ok", case.__name__)


main()
