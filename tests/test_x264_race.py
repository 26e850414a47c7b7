"""The parts of tools/x264_race that need neither network nor x264: apt's sources, which cases run, what a row says."""

import contextlib
import dataclasses
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tools", "x264_race"))

import build  # noqa: E402
import cases  # noqa: E402
import clips  # noqa: E402
import measure  # noqa: E402
import neighbours  # noqa: E402
import report  # noqa: E402
import source  # noqa: E402

ONE_LINE = """# the archive
deb [arch=amd64 signed-by=/keys/a.gpg] http://mirror.invalid/debian stable main # all of it
deb-src http://mirror.invalid/debian stable main
#deb http://mirror.invalid/debian unstable main
"""

STANZAS = """Types: deb
# a remark
URIs: http://mirror.invalid/debian
Suites: stable stable-updates
Components: main
Signed-By:
 -----BEGIN KEY-----
 .
 abc: def

Types: deb deb-src
URIs: http://second.invalid/debian
Suites: stable
Components: main

Types: deb
Enabled: no
URIs: http://third.invalid/debian
Suites: stable
Components: main

Types: deb-src
URIs: http://fourth.invalid/debian
Suites: stable
Components: main
"""


class Arguments(unittest.TestCase):
    def test_wrong_ones_are_told_before_anything_is_set_up(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tools", "x264_race")
        for options in (["--rounds", "0"], ["--rounds", "-1"], ["--threads", "0"], ["--mode", "none"], ["--size", "4k"], ["--hogs", "0"], ["--hogs", "1", "--compile"], ["--clip", "/nonexistent"],
                        ["--json", "/nonexistent/file"], ["--json", "/"], ["--work", "/dev/null/folder"]):
            done = subprocess.run([sys.executable, program, "--library", __file__, *options], capture_output=True, text=True,
                                  timeout=600, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), f"{options}: {done}")
            self.assertIn("error: ", done.stderr)
            self.assertNotIn("setting up", done.stderr)


class Sources(unittest.TestCase):
    def test_versions(self):
        listed = "Package: one\nVersion: 1-2\nBinary: two\n\nPackage: two\nVersion: 9\n\nPackage: one\nVersion: 1-1\n\nPackage: one\nVersion: 1-2\n"
        self.assertEqual(source.source_versions(listed, "one"), ["1-2", "1-1"])
        self.assertEqual(source.source_versions("", "one"), [])

    def test_a_version_that_is_gone_is_passed_over(self):
        asked = []

        def answer(command, log, **options):
            asked.append(command[-1])
            if command[-1] != "one=1-1":
                raise source.Unavailable("gone")

        listed = mock.Mock(stdout="Package: one\nVersion: 1-2\n\nPackage: one\nVersion: 1-1\n")
        with mock.patch.object(source, "run", answer), mock.patch.object(source.subprocess, "run", return_value=listed):
            source.fetch_source("apt", "one", "log")
            self.assertEqual(asked, ["one", "one=1-2", "one=1-1"])
            listed.stdout = ""
            self.assertRaises(source.Unavailable, source.fetch_source, "apt", "one", "log")

    def test_one_line(self):
        expected = "deb-src [arch=amd64 signed-by=/keys/a.gpg] http://mirror.invalid/debian stable main\n"
        self.assertEqual(source.source_list(ONE_LINE), expected)

    def test_stanzas(self):
        text = source.source_stanzas(STANZAS)
        self.assertEqual([line for line in text.splitlines() if line.startswith("Types")], ["Types: deb-src"] * 2)
        self.assertIn(" abc: def\n", text)
        self.assertIn("second.invalid", text)
        self.assertNotIn("third.invalid", text)
        self.assertNotIn("fourth.invalid", text)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            parts = os.path.join(folder, "sources.list.d")
            os.mkdir(parts)
            for path, text in (("sources.list", ONE_LINE), ("sources.list.d/a.sources", STANZAS),
                               ("sources.list.d/b.list", "# empty\n"), ("sources.list.d/c.list.save", ONE_LINE)):
                with open(os.path.join(folder, path), "w", encoding="utf-8") as out:
                    out.write(text)
            made = os.path.join(folder, "made")
            self.assertEqual(source.write_sources(made, folder), 2)
            self.assertEqual(sorted(os.listdir(made)), ["a.sources", "sources.list"])


    def test_a_list_that_is_not_utf8(self):
        with tempfile.TemporaryDirectory() as folder:
            made, name = os.path.join(folder, "made"), "sources.list"
            with open(os.path.join(folder, name), "wb") as out:
                out.write(b"deb http://mirror.invalid/debian stable main\n# M\xfcller's\ndeb http://mirror.invalid/\xfc stable main\n")
            self.assertEqual(source.write_sources(made, folder), 1)
            with open(os.path.join(made, name), "rb") as text:
                self.assertEqual(text.read().splitlines()[1], b"deb-src http://mirror.invalid/\xfc stable main")


class Made(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def clip(self, path):
        """What is encoded for it: here, a copy."""
        def copy(command, log, *_, **__):
            with open(command[command.index("-i") + 1], encoding="utf-8") as old:
                self.write(command[-1], old.read())

        with mock.patch.object(clips, "run", copy), mock.patch.object(clips.shutil, "which", lambda name: name):
            (_, made), = clips.make_clips(self.folder, {"360p": 3}, path)
        with open(made, encoding="utf-8") as text:
            return text.read()

    def test_a_clip_is_the_one_that_is_named(self):
        for name in ("a/clip.mkv", "b/clip.mkv"):
            path = self.write(name, name)
            os.utime(path, (1000, 1000))
            self.assertEqual(self.clip(path), name)
        path = self.write("a/clip.mkv", "another")
        os.utime(path, (900, 900))
        self.assertEqual(self.clip(path), "another")

    def test_a_header_that_is_newer_makes_a_build_anew(self):
        program, pool, header = (self.write(name, "") for name in ("weft/x264", "x264/pool.c", "adapters/view.h"))
        self.write("stock/x264", "")
        for folder, _, names in os.walk(self.folder):
            for name in names:
                os.utime(os.path.join(folder, name), (1000, 1000))
        os.utime(program, (2000, 2000))
        made = []
        with mock.patch.object(build, "make", lambda *words: made.append(words)), mock.patch.object(build, "MADE_OF_POOL", ("x264",)):
            arguments = ("weft", pool, self.folder, (), f"-I{os.path.dirname(header)}")
            build.build_variant(*arguments)
            self.assertEqual(made, [])
            os.utime(header, (3000, 3000))
            with mock.patch.object(build, "POOL_FILE", "pool.c"):
                build.build_variant(*arguments)
            self.assertEqual(len(made), 1)


class Neighbours(unittest.TestCase):
    def pids_beside(self, hogs, compiles):
        """Of those that are this process's children meanwhile, and after."""
        listed = f"/proc/self/task/{os.getpid()}/children"
        with neighbours.neighbours(hogs, compiles), open(listed, encoding="ascii") as children:
            found = children.read().split()
            affinities = [os.sched_getaffinity(int(pid)) for pid in found]
        with open(listed, encoding="ascii") as children:
            return affinities, set(found) & set(children.read().split())

    def test_each_has_a_cpu_and_is_gone_after(self):
        cpus = len(os.sched_getaffinity(0))
        affinities, left = self.pids_beside(cpus + 1, False)
        self.assertEqual((len(affinities), left), (cpus + 1, set()))
        self.assertEqual(set().union(*affinities), os.sched_getaffinity(0))
        self.assertEqual({len(one) for one in affinities}, {1})

    def test_compilers(self):
        with mock.patch.dict(os.environ, {"CC": "true"}):
            affinities, left = self.pids_beside(0, True)
        self.assertEqual((len(affinities), left), (len(os.sched_getaffinity(0)), set()))
        for words in ("false", "/nonexistent/cc"):
            with mock.patch.dict(os.environ, {"CC": words}), self.assertRaises(source.Unavailable):
                self.pids_beside(0, True)

    def test_they_end_with_a_race_that_is_killed(self):
        folder = os.path.dirname(neighbours.__file__)
        code = "import neighbours, os, signal, sys\nwith neighbours.neighbours(1, False):\n" \
               " print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)\n os.kill(os.getpid(), signal.SIGTERM)"
        done = subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, -signal.SIGTERM)
        path = f"/proc/{int(done.stdout)}/stat"
        while os.path.exists(path):  # the kernel ends it; nobody may have reaped it yet
            with contextlib.suppress(OSError), open(path, encoding="ascii") as stat:
                if stat.read().split()[2] in "ZX":
                    break
            time.sleep(0.01)

    def test_none(self):
        self.assertEqual(self.pids_beside(0, False), ([], set()))

    def test_one_that_ends_is_told(self):
        with mock.patch.object(neighbours, "HOG", ["true"]), self.assertRaises(source.Unavailable):
            with neighbours.neighbours(1, False):
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def sample(fps, digest="same", use=100.0):
    return measure.Sample(fps=fps, frames=10, context_switches=50, cpu_percent=use, cpu_seconds=use / fps / 10, others_percent=1.0,
                          digest=digest)


class Rows(unittest.TestCase):
    stock, weft = measure.Variant("stock"), measure.Variant("weft")

    def case(self, mode, *variants):
        return measure.Case("clip", "clip.y4m", mode, 4, variants)

    def test_ratios_are_taken_round_by_round(self):
        samples = {self.stock: [sample(100), sample(200), sample(50)], self.weft: [sample(110), sample(200), sample(60)]}
        row = measure.row(self.case("sliced", *samples), self.weft, samples)
        self.assertEqual((row["fps"], row["fps_min"], row["fps_max"]), (110, 60, 200))
        self.assertEqual((row["ratio_to_stock"], row["ratio_to_stock_min"], row["ratio_to_stock_max"]), (1.1, 1.0, 1.2))
        self.assertEqual((row["context_switches_per_frame"], row["identical"]), (5, True))

    def test_a_mean_comes_with_its_error(self):
        samples = {self.stock: [sample(100), sample(100)], self.weft: [sample(50), sample(200)]}
        row = measure.row(self.case("sliced", *samples), self.weft, samples)
        self.assertAlmostEqual(row["ratio_to_stock_mean"], 1)
        self.assertAlmostEqual(row["ratio_to_stock_error"], 0.693, 3)
        alone = measure.row(self.case("sliced", *samples), self.weft, {variant: few[:1] for variant, few in samples.items()})
        self.assertIsNone(alone["ratio_to_stock_error"])

    def test_fps_are_use_over_cpu_time(self):
        samples = {self.stock: [sample(100), sample(50)], self.weft: [sample(110, use=120.0), sample(60, use=110.0)]}
        row = measure.row(self.case("frame", *samples), self.weft, samples)
        self.assertAlmostEqual(row["use_to_stock_mean"], math.sqrt(1.2 * 1.1))
        self.assertAlmostEqual(row["use_to_stock_mean"] / row["cpu_to_stock_mean"], row["ratio_to_stock_mean"])

    def test_frame_times_of_all_rounds_and_round_by_round(self):
        stock, weft = ([dataclasses.replace(sample(1), frame_ms=tuple(times)) for times in rounds]
                       for rounds in (([4] * 99 + [40], [2] * 98 + [20] * 2), ([4] * 99 + [40], [2] * 98 + [10] * 2)))
        row = measure.row(self.case("sliced", self.stock, self.weft), self.weft, {self.stock: stock, self.weft: weft})
        self.assertEqual((row["frame_ms_p50"], row["frame_ms_p99"], row["frame_p99_of_stock"]), (4, 10, 0.5))
        self.assertAlmostEqual(row["frame_p99_to_stock_mean"], math.sqrt(0.5))
        table = report.table([row])
        self.assertIn("4.00/10.00", table)

    def test_frame_times_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "times")
            with self.assertRaises(measure.EncodeFailed):
                measure.read_frame_ms(path, 1)
            with open(path, "w", encoding="ascii") as out:
                out.write("0 1500000\n2000000 5000000\n")
            self.assertEqual(measure.read_frame_ms(path, 2), (1.5, 3))
            with self.assertRaises(measure.EncodeFailed):
                measure.read_frame_ms(path, 3)

    def test_no_variant_always_comes_first(self):
        case, order = self.case("sliced", self.stock, self.weft), []
        with unittest.mock.patch.object(measure, "encode", lambda program, case, variant, work: order.append(variant) or sample(1)):
            measure.measure(case, {"stock": "", "weft": ""}, 2, "", lambda case, variant: None)
        self.assertEqual(order, [self.stock, self.weft, self.weft, self.stock])

    def test_one_differing_bitstream_shows(self):
        samples = {self.stock: [sample(1), sample(1)], self.weft: [sample(1), sample(1, "other")]}
        self.assertIs(measure.row(self.case("frame", *samples), self.weft, samples)["identical"], False)

    def test_serial_lookahead_of_slices_is_never_compared(self):
        serial = measure.Variant("stock", lookahead_threads=1), measure.Variant("weft", lookahead_threads=1)
        samples = {serial[0]: [sample(2)], serial[1]: [sample(2, "other")], self.stock: [sample(3)], self.weft: [sample(4)]}
        rows = [measure.row(self.case("sliced", *samples), variant, samples) for variant in samples]
        self.assertEqual([row["identical"] for row in rows], [None, None, True, True])
        self.assertEqual([row.get("ratio_to_serial_lookahead") for row in rows], [None, None, 1.5, 2])

    def test_fewer_cpus_keep_the_bits(self):
        few = [measure.Variant(pool, cpus=1) for pool in ("stock", "weft")]
        samples = {self.stock: [sample(1)], few[0]: [sample(1)], few[1]: [sample(1, "other")]}
        self.assertIs(measure.row(self.case("sliced", *samples), few[1], samples)["identical"], False)

    def test_realtime_stock_is_compared_with_plain_stock(self):
        realtime = measure.Variant("stock", realtime=True)
        samples = {self.stock: [sample(100)], realtime: [sample(150)]}
        row = measure.row(self.case("sliced", *samples), realtime, samples)
        self.assertEqual((row["pool"], row["ratio_to_stock"]), ("stock-rr", 1.5))

    def test_every_pool_stands_beside_the_control_of_its_conditions(self):
        kinds = [measure.Variant(pool, realtime=realtime) for realtime in (False, True) for pool in ("stock", "control", "weft")]
        samples = {kind: [sample(fps)] for kind, fps in zip(kinds, (100, 80, 120, 400, 200, 300))}
        rows = [measure.row(self.case("sliced", *kinds), kind, samples) for kind in kinds]
        self.assertEqual([row.get("ratio_to_control") for row in rows], [1.25, None, 1.5, 2, None, 1.5])
        self.assertEqual([row.get("ratio_to_stock_rr") for row in rows], [None, None, None, 1, 0.5, 0.75])
        self.assertEqual([row["ratio_to_stock"] for row in rows], [1, 0.8, 1.2, 4, 2, 3])
        self.assertIn(" 1.500 ", report.table(rows).splitlines()[3])

    def test_verdicts_need_six_rounds_and_a_narrow_interval(self):
        for ratios, word in (([1.5] * 5, "undecided"), ([1.5] * 6, "first"), ([0.9] * 6, "behind"), ([1.01, 0.99] * 3, "level"),
                             ([1.2, 0.99] * 3, "undecided"), ([1.5] * 8 + [0.5], "first"), ([1.5] * 7 + [0.5], "undecided")):
            self.assertEqual(measure.verdict(ratios), word, ratios)

    def test_a_verdict_line_for_each_of_wefts_rows(self):
        kinds = [measure.Variant(pool) for pool in ("stock", "control", "weft")]
        samples = {kind: [sample(fps)] * 6 for kind, fps in zip(kinds, (100, 130, 120))}
        lines = report.verdicts([measure.row(self.case("sliced", *kinds), kind, samples) for kind in kinds]).splitlines()
        self.assertEqual(len(lines), 1)
        self.assertIn("ahead of stock 1.20 (1.20 to 1.20); BEHIND the control of two workers 0.92", lines[0])

    def test_table_has_a_line_for_each_row(self):
        samples = {self.stock: [sample(100)], self.weft: [sample(99, "other")]}
        text = report.table([measure.row(self.case("frame", *samples), variant, samples) for variant in samples])
        self.assertEqual(len(text.splitlines()), 3)
        self.assertIn("DIFFER", text.splitlines()[2])


class Profiles(unittest.TestCase):
    clips = [("a-360p", "a"), ("a-720p", "b")]

    def test_every_case_has_stock_and_weft(self):
        for quick in (True, False):
            for case in cases.cases(self.clips, cases.MODES, [1, 2, 4, 8], quick):
                self.assertLessEqual({"stock", "weft"}, {variant.pool for variant in case.variants})

    def test_the_control_runs_wherever_x264_makes_a_pool(self):
        for case in cases.cases(self.clips, ["sliced", "frame"], [1, 2, 4, 8], False):
            self.assertEqual("control" in {variant.pool for variant in case.variants}, case.threads > 1)

    def test_real_time_doubles_the_pools(self):
        plain, both = (list(cases.cases(self.clips, ["sliced"], [2], False, realtime)) for realtime in (False, True))
        for one, two in zip(plain, both):
            under_rr = {measure.Variant(variant.pool, realtime=True) for variant in one.variants}
            self.assertEqual(set(two.variants), set(one.variants) | under_rr)

    def test_full_runs_all_threads_on_all_clips(self):
        found = {(case.clip, case.mode, case.threads) for case in cases.cases(self.clips, ["sliced", "frame"], [1, 2, 4, 8], False)}
        self.assertEqual(len(found), 2 * 2 * 4)


if __name__ == "__main__":
    unittest.main()
