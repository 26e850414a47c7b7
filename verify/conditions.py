"""Mutants of conditions: the rewritten sources (schemata.py), built for the explorer, the unit tests and the machine in virtual time,
and the hunt for each mutant."""
import collections
import concurrent.futures
import itertools
import json
import math
import os
import re
import resource
import struct
import subprocess
import sys
import threading
from pathlib import Path

import schemata
from hunting import MEMORY_MAX, NEVER_SEEN, ROOT, digest, first_failure, is_limit, run

# The files with an ordering table, the group, the graph, the loop, sleep, the pool, the heap and what keeps profiles' records and asks the
# system. The rest of src/ is left out: what guesses (expect, affinity, realtime), what reads the machine (cpus) and what shows (dump,
# text, counters).
MODULES = set("""lane claim group park store segment fork join chunk loop graph continuation after task wait pool seat worker depot slab heap heap_api
    heap_check block misuse heap_life heap_private heap_purge heap_asleep heap_overflow heap_watch poke large kept records priority lanes fence trace pattern
    fit find idle observe samples heads stacks os_linux""".split())
PUBLIC = re.compile(r"weft_fork_slot_\w+$")  # of weft/pattern.h: what is inline for fork-join
KINDS = "equal bound reverse not truth operand early step flag call".split()
COVERAGE_SCHEDULES = 600  # what runs out of memory or time is seen in one of hundreds
SHARES_S = (0.02, 0.2, 2.0)  # of processor time for a driver, round by round
SCHEDULES_MAX = 12000        # from 10,000 on a driver must also have seen what it is for
FIRST_DRIVERS = 4
SAVE_EACH = 20
HANG_S = 5
NUMBERS = 2000  # for each file; 0 is no mutant's
NO_MUTANT = 0
PROTOTYPE = "int mutant(unsigned); "
SAME = "survivors of which the compiler makes the very same code"
TRAPS = "-fsanitize=bounds,shift -fsanitize-undefined-trap-on-error"  # as make test's sanitized build does: an index beyond its array is seen
COSTS = ROOT / "verify/costs"
TEST_CPU_MAX = 15
COUNTING_SLOWS = 4          # at most: a test that counts which sites it runs
COST_UNCERTAIN = 0.5        # from so many seconds on it is measured without counting
TEST_SETTINGS = {"WEFT_TEST_POOLS": "20"}  # test_random: fewer of them
TEST_ARGUMENTS = {          # in the place of a test's own: less of the same
    "test heap_fuzz_checked": ["1", "800", "3", "checked"],
    "test work": ["!*very_many*"],
    "test heap_large": ["!*frames_decay*"],  # waits until all have gone back
}
TEST_PARTS = {              # each a test of its own, for all together take too long
    "test faults": "mmap malloc mremap pthread_create pthread_key_create".split(),
}
NEAR = 8  # of what has killed others in the same function or file


class Tree:
    """A copy of the project whose sources are rewritten, and its builds."""

    def __init__(self, build, jobs):
        self.place, self.jobs = build / "mutants", jobs
        self.tree = self.place / "tree"
        self.sites, self.left_out = [], {}
        self.rewritten = {}

    def sources(self):
        files = sorted([*(ROOT / "src").rglob("*.[ch]"), ROOT / "include/weft/pattern.h"])
        return [file for file in files if file.stem in MODULES]

    def write(self, path, text):
        if not path.exists() or path.read_text(errors="surrogateescape") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, errors="surrogateescape")

    def find_sites(self):
        """Numbers them, each file's from a number of its own, so that a change has one file compiled again. {path: rewritten}"""
        self.sites, self.left_out = [], {}
        types, floats = set(), set()
        for path in [*(ROOT / "src").rglob("*.[ch]"), *(ROOT / "include").rglob("*.h")]:
            types |= schemata.typedefs(path.read_text())
            floats |= schemata.floating(path.read_text())
        rewritten = {}
        for index, path in enumerate(self.sources()):
            text = path.read_text()
            wanted = PUBLIC.match if path.name == "pattern.h" else lambda _: True
            try:
                bodies, sites, left_out = schemata.find(text, types, wanted, floats)
            except schemata.Unreadable as problem:
                sys.exit(f"mutants: {path.name}: {problem}")
            if len(sites) >= NUMBERS:
                sys.exit(f"mutants: {path.name} has more than {NUMBERS} sites")
            for number, site in enumerate(sites, 1):
                site.file, site.number = path.name, index * NUMBERS + number
            seen = [site for site in sites if not site.idle]
            here = [site for site in seen if not schemata.is_for_sanitizer(text, site.line)]
            left_out[schemata.FOR_SANITIZER] = len(seen) - len(here)
            self.sites += here
            for reason, count in left_out.items():
                self.left_out[reason] = self.left_out.get(reason, 0) + count
            rewritten[path.relative_to(ROOT)] = PROTOTYPE + schemata.rewrite(text, bodies)
        self.rewritten = rewritten
        return rewritten

    def assembly(self, path, number):
        """What the compiler makes of a file of src/ as it is shipped, with that mutant alone."""
        text = f"#define mutant(n) ((n) == {number})\n" + self.rewritten[path].removeprefix(PROTOTYPE)
        flags = ["-O3", "-std=c17", "-w", "-fPIC", "-fvisibility=hidden", "-fno-semantic-interposition", "-DWEFT_SDT"]
        folders = ["-iquote", ROOT / "src", "-iquote", (ROOT / path).parent, "-I", ROOT / "include"]
        return subprocess.run(["cc", *flags, *folders, "-x", "c", "-S", "-", "-o", "-"], input=text, capture_output=True, text=True,
                              errors="surrogateescape", check=True).stdout

    def is_same(self, site):
        """Does the compiler make the same of it? A header's is not looked at: who includes it would have to be."""
        path = next(path for path in self.rewritten if path.name == site.file)
        if path.suffix == ".h":
            return False
        return self.assembly(path, site.number) == self.assembly(path, NO_MUTANT)

    def rewrite(self):
        """Writes the tree."""
        rewritten = self.find_sites()
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = [Path(name) for name in listed.stdout.splitlines() if (ROOT / name).is_file() and not name.startswith("docs/")]
        for name in names:
            text = rewritten.get(name) or (ROOT / name).read_text(errors="surrogateescape")
            self.write(self.tree / name, text)
            if os.access(ROOT / name, os.X_OK):
                (self.tree / name).chmod(0o755)
        for old in self.tree.rglob("*"):
            if old.is_file() and old.relative_to(self.tree) not in names:
                old.unlink()

    def build(self, name, targets, *options):
        """Configures and builds one of them, or only those targets; returns its folder."""
        folder, linked = self.place / name, self.place / "mutant.o"
        log = self.place / f"{name}.log"
        self.write(self.place / "mutant.c", (ROOT / "verify/mutant.c").read_text())
        commands = [["cc", "-std=c17", "-O2", "-fPIC", "-c", self.place / "mutant.c", "-o", linked],
                    ["cmake", "-S", self.tree, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
                     f"-DCMAKE_EXE_LINKER_FLAGS={linked}", f"-DCMAKE_SHARED_LINKER_FLAGS={linked}",
                     f"-DCMAKE_MODULE_LINKER_FLAGS={linked}", *options],
                    ["cmake", "--build", folder, "-j", str(self.jobs), "--target", *targets]]
        with log.open("w") as file:
            for command in commands:
                if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode != 0:
                    sys.exit(f"mutants: {name}: {' '.join(map(str, command))} failed; see {log}")
        return folder

    def build_all(self, tests):
        """The explorer, the unit tests' folder, the machine in virtual time. `tests`: targets, or none for all; that machine's is
        weft_simulate."""
        self.rewrite()
        explore = self.build("explore", ["all"], "-DWEFT_EXPLORE=ON", f"-DCMAKE_C_FLAGS=-O2 -w {TRAPS}", "-DCMAKE_CXX_FLAGS=-O2 -w")
        unit = self.build("unit", [test for test in tests if test != "weft_simulate"] or ["all"], "-DWEFT_CHECKED=ON", "-DWEFT_TOOLS=OFF", "-DWEFT_MALLOC=OFF", "-DWEFT_MACHINES=OFF",
                          "-DWEFT_TESTS=ON", "-DWEFT_RAYON=OFF",
                          f"-DCMAKE_C_FLAGS=-O1 -w {TRAPS}", "-DCMAKE_CXX_FLAGS=-O1 -w")
        if tests and "weft_simulate" not in tests:
            return explore / "verify/explore", unit, None
        simulate = self.build("simulate", ["weft_simulate"], "-DWEFT_TESTS=OFF", "-DWEFT_RAYON=OFF",
                              "-DCMAKE_C_FLAGS=-O2 -w", "-DCMAKE_CXX_FLAGS=-O2 -w")
        return explore / "verify/explore", unit, simulate / "tools/weft-simulate"


class Coverage:
    """Which driver and which test runs which site, and what a run of it costs."""

    def __init__(self, tree, explorer, unit, simulate, killers, targets=()):
        self.tree, self.explorer, self.unit, self.simulate, self.killers = tree, explorer, unit, simulate, killers
        self.targets = targets  # of unit tests; none: all. Others that are there are of an older build, with other numbers
        self.drivers, self.tests = {}, {}  # name: {"cost": seconds, "hits": {number: count}}
        self.commands = {**self.read_tests(), **self.read_costs()}

    def read_costs(self):
        """{name: command} of the costs in virtual time, held against those without a mutant."""
        if self.simulate is None:
            return {}
        table = self.tree.place / "costs.txt"
        costs = [COSTS, "--simulate", self.simulate, "--table", table]
        subprocess.run([*costs, "--renew"], check=True)
        cases = [line.split()[0] for line in table.read_text().splitlines() if not line.startswith("#")]
        return {f"test costs {case}": [*costs, "--only", case] for case in cases}

    def read_tests(self):
        """{name: command} of the unit tests that are programs of this build."""
        shown = subprocess.run(["ctest", "--test-dir", self.unit, "--show-only=json-v1"], capture_output=True, text=True, check=True)
        tests = {}
        for test in json.loads(shown.stdout)["tests"]:
            labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), [])
            program = test.get("command", [""])[0]  # none: it is not built
            if "unit" in labels and program.startswith(str(self.unit)) and (not self.targets or Path(program).name in self.targets):
                name = "test " + test["name"]
                for part in TEST_PARTS.get(name, []):
                    tests[f"{name} {part}"] = ["env", "WEFT_TEST_SEED=1", test["command"][0], part]
                if name in TEST_PARTS:
                    continue
                tests[name] = [test["command"][0], *TEST_ARGUMENTS[name]] if name in TEST_ARGUMENTS else test["command"]
        return tests

    def run_test(self, command, cpu_s, wall_s, environment):
        """The machine in virtual time reserves far more memory than it has."""
        is_simulated = command[0] == COSTS
        return run(command, cpu_s, wall_s, {**TEST_SETTINGS, **environment}, resource.RLIM_INFINITY if is_simulated else MEMORY_MAX)

    def hits_of(self, command, cpu_s):
        path = self.tree.place / f"hits.{os.getpid()}.{threading.get_ident()}"
        count = NUMBERS * len(self.tree.sources())
        path.write_bytes(bytes(4 * count))
        ran = self.run_test(command, cpu_s, cpu_s * 8 + 60, {"WEFT_MUTANT_HITS": str(path)})
        counts = struct.unpack(f"{count}I", path.read_bytes())
        path.unlink()
        if ran.timed_out:
            return {"fails": f"takes longer than {cpu_s} s"}
        if ran.failed():
            return {"fails": f"fails: {ran.output.strip()[-200:]}"}
        return {"cost": max(ran.cpu_s, 0.002), "wall": ran.wall_s, "hits": {number: hits for number, hits in enumerate(counts) if hits}}

    def hits_of_test(self, command):
        """The same; where counting may have slowed it, the cost is that of a run which does not count."""
        about = self.hits_of(command, TEST_CPU_MAX * COUNTING_SLOWS)
        if "fails" in about or about["cost"] < COST_UNCERTAIN:
            return about
        ran = self.run_test(command, TEST_CPU_MAX, TEST_CPU_MAX * 8 + 60, {})
        if ran.timed_out or ran.cpu_s >= TEST_CPU_MAX:
            return {"fails": f"takes longer than {TEST_CPU_MAX} s"}
        return {"fails": "fails now and then"} if ran.failed() else {**about, "cost": ran.cpu_s, "wall": ran.wall_s}

    def read(self):
        """From the file of the last run, as far as the programs are what they were; else measured, as many at once as there are jobs."""
        path = self.tree.place / "coverage.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        of = {name: digest(self.killers.of(name), self.killers.rewriter) for name in self.explorer.drivers}
        for name, command in self.commands.items():
            of[name] = digest(*(Path(part).read_bytes() if os.path.isfile(part) else part for part in command))

        def measure(name):
            if name in self.commands:
                return self.hits_of_test(self.commands[name])
            return self.hits_of([self.explorer.binary, name, "--quiet", "--schedules", str(COVERAGE_SCHEDULES)], 300)

        unknown = [name for name in of if known.get(name, {}).get("of") != of[name]]
        with concurrent.futures.ThreadPoolExecutor(self.tree.jobs) as pool:
            try:
                for index, (name, about) in enumerate(zip(unknown, pool.map(measure, unknown)), 1):
                    known[name] = {**about, "of": of[name]}
                    if index % SAVE_EACH == 0:
                        path.write_text(json.dumps(known))
            finally:
                pool.shutdown(cancel_futures=True)
                path.write_text(json.dumps(known))
        for name in of:
            about = {**known[name], "hits": {int(number): hits for number, hits in known[name].get("hits", {}).items()}}
            if name in self.commands and "fails" in about:
                print(f"mutants: left out: {name} {about['fails']} without a mutant")
            elif name in self.commands:
                self.tests[name] = about
            elif "fails" in about:
                sys.exit(f"mutants: {name} {about['fails']} without a mutant")
            else:
                self.drivers[name] = {**about, "cost": about["cost"] / COVERAGE_SCHEDULES}

    def drivers_of(self, number):
        """Those that run the site, first those that do it most often in the time."""
        found = [(name, about) for name, about in self.drivers.items() if number in about["hits"]]
        return [name for name, about in sorted(found, key=lambda pair: -pair[1]["hits"][number] / pair[1]["cost"])]

    def tests_of(self, number):
        found = [(name, about) for name, about in self.tests.items() if number in about["hits"]]
        return [name for name, about in sorted(found, key=lambda pair: pair[1]["cost"])]


class Hunter:
    """`results`: what is known of all mutants; what kills one is likely to kill its neighbours."""

    def __init__(self, coverage, budget_s, results):
        self.coverage, self.effort, self.results = coverage, budget_s, results

    def explore(self, site, driver, seed, schedules, *modes):
        ran = self.explore_once(site.number, driver, seed, schedules, *modes)
        if not ran.failed():
            return None
        if "explore --list" in ran.output:
            sys.exit(f"mutants: {driver}: {ran.output}")
        schedule, how = first_failure(ran, seed)
        if is_limit(how):
            return None
        # An outcome may be missing by chance.
        if how.startswith(NEVER_SEEN) and self.explore_once(NO_MUTANT, driver, seed, schedules, *modes).failed():
            return None
        return {"by": driver, "after": schedule, "how": how}

    def explore_once(self, number, driver, seed, schedules, *modes):
        cost = self.coverage.drivers[driver]["cost"] * schedules
        return self.coverage.explorer.run(driver, "--quiet", "--seed", seed, "--schedules", schedules, *modes,
                                          cpu_s=HANG_S + 3 * cost, environment={"WEFT_MUTANT": str(number)})

    def test(self, site, name):
        """One that fails now and then by itself would kill everything in time: it has to fail twice, and not without the mutant."""
        found = self.test_once(site.number, name) and self.test_once(site.number, name)
        return found if found and not self.test_once(NO_MUTANT, name) else None

    def test_once(self, number, name):
        about = self.coverage.tests[name]
        ran = self.coverage.run_test(self.coverage.commands[name], HANG_S + 3 * about["cost"], HANG_S + 3 * about["wall"],
                                     {"WEFT_MUTANT": str(number)})
        if not ran.failed():
            return None
        failed = re.search(r"\[ *ERROR *\] --- (.*)|^(.*(?:panic|[Aa]ssert|REQUIRE|ERROR).*)$", ran.output, re.M)
        text = (failed[1] or failed[2]).strip() if failed else ran.output.strip()[-80:]
        how = f"does not end ({ran.timed_out})" if ran.timed_out else f"ends with {ran.status}: {text}"
        return {"by": name, "after": 1, "how": " ".join(how.split())[:160]}

    def again(self, site, known):
        """What killed it once."""
        killer = known.get("by")
        if killer in self.coverage.tests:
            return self.test(site, killer)
        if killer in self.coverage.drivers:
            after = known["after"]
            return self.explore(site, killer, after, 1) or self.explore(site, killer, 1, min(after * 2 + 50, SCHEDULES_MAX))
        return None

    def near(self, site):
        """Drivers and tests that run the site and have killed others of its function, then of its file, most of them first; then
        tests named after the file."""
        inside, beside = collections.Counter(), collections.Counter()
        for key, row in list(self.results.rows.items()):
            if row["by"] and key.startswith(site.file + ": "):
                (inside if key.split()[1] == site.function else beside)[row["by"]] += 1
        stem = site.file.split(".")[0]
        named = [name for name in self.coverage.tests if stem in name]
        ranked = [name for counts in (inside, beside) for name, _ in counts.most_common()] + named
        runs = {*self.coverage.drivers_of(site.number), *self.coverage.tests_of(site.number)}
        return [name for name in dict.fromkeys(ranked) if name in runs][:NEAR]

    def rounds(self, site):
        """Each try in its turn: a function that says what was found, and what it costs."""
        drivers = self.coverage.drivers_of(site.number)
        seed = dict.fromkeys(drivers, 1)
        near = self.near(site)

        def tries(share_s, names):
            for name in names:
                cost = self.coverage.drivers[name]["cost"]
                count = int(min(max(share_s / cost, 20), SCHEDULES_MAX))
                first = 1 if count >= SCHEDULES_MAX else seed[name]
                seed[name] = first + count
                yield count * cost, lambda name=name, first=first, count=count: self.explore(site, name, first, count)

        def tests(least_s, most_s):
            for name in self.coverage.tests_of(site.number):
                cost = self.coverage.tests[name]["cost"]
                if least_s <= cost < most_s and name not in near:
                    yield cost, lambda name=name: self.test(site, name)

        for name in near:
            if name in seed:
                yield from tries(SHARES_S[1], [name])
            else: # whatever it costs: what is for these very lines must not be what there is no time for
                yield 0, lambda name=name: self.test(site, name)
        few, others = drivers[:FIRST_DRIVERS], drivers[FIRST_DRIVERS:]
        yield from tries(SHARES_S[0], few)
        yield from tests(0, 0.1)
        yield from tries(SHARES_S[0], others)
        yield from tries(SHARES_S[1], few)
        yield from tests(0.1, 1)
        yield from tries(SHARES_S[1], others)
        yield from tests(1, math.inf)
        yield from tries(SHARES_S[2], drivers)

    def places(self, site):
        drivers, tests = self.coverage.drivers_of(site.number), self.coverage.tests_of(site.number)
        return f"{len(drivers)} drivers and {len(tests)} tests run it" if drivers or tests else "nothing runs it"

    def effort_for(self, _):
        return self.effort

    def survivor(self, site):
        return {"how": self.places(site), "same": self.coverage.tree.is_same(site)}

    def hunt(self, site, known):
        """{"by", "after", "how"}, or None."""
        found = self.again(site, known) if known else None
        spent = 0.0
        if found:
            return found
        for cost, attempt in self.rounds(site):
            if spent > 0 and spent + cost > self.effort:
                continue
            spent += cost + 0.01
            found = attempt()
            if found:
                return found
        return None


def read_reasons(path):
    """{(file, key): reason}: what lives, and why. `## file`, then lines `- function[, function] kind[, kind] `expression`[ (2)]: reason`."""
    reasons, file = {}, None
    for line in path.read_text().splitlines() if path.exists() else []:
        heading = re.match(r"## (\S+)", line)
        row = re.match(r"- ([\w, ]+?) ((?:%s)(?:, \w+)*) `(.*?)`((?: \(\d+\))*): (.*)" % "|".join(KINDS), line)
        if heading:
            file = heading[1]
        elif row:
            for function, kind in itertools.product(re.findall(r"\w+", row[1]), re.findall(r"\w+", row[2])):
                for ordinal in re.findall(r" \(\d+\)", row[4]) or [""]:
                    reasons[(file, f"{function} {kind} `{row[3]}`{ordinal.replace(' (1)', '')}")] = row[5]
    return reasons
