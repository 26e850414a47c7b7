"""The parts of tools/hosts and adapters/edits.py that need no host's tree: turns, intervals, what is a fault, edits at anchors."""

import argparse
import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
sys.path[:0] = [os.path.join(ROOT, "tools", "hosts"), os.path.join(ROOT, "adapters")]

import aom  # noqa: E402
import common  # noqa: E402
import edits  # noqa: E402
import ffmpeg  # noqa: E402
import libvmaf  # noqa: E402
import source  # noqa: E402

STARTS = importlib.util.spec_from_file_location("hosts_main", os.path.join(ROOT, "tools", "hosts", "__main__.py"))
hosts_main = importlib.util.module_from_spec(STARTS)
STARTS.loader.exec_module(hosts_main)


class FakeHost:
    name = "fake"

    def __init__(self, passed, command, ignore="", output=None):
        self.passed, self.command, self.ignore, self.output = passed, command, ignore, output

    def suite(self):
        yield "a test", self.passed

    def cases(self):
        yield common.Case("a case", self.command, ignore=self.ignore, output=self.output)


def play(passed, command, ignore="", rounds=2, no_tests=False, only="", output=None):
    result = common.Result("fake")
    chosen = argparse.Namespace(rounds=rounds, no_tests=no_tests, only=only)
    with tempfile.TemporaryDirectory() as work:
        common.measure(FakeHost(passed, command, ignore, output), work, chosen, result)
    return result


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def outcome(code, *good):
    return common.Outcome(code, "log", frozenset(good))


BOTH = {common.STOCK: True, common.WEFT: True}


class Measure(unittest.TestCase):
    def test_equal_hosts_have_no_fault(self):
        result = play(BOTH, lambda build: ["echo", "same"])
        self.assertEqual((result.faults, result.rows[0]["output"]), ([], "same"))

    def test_an_output_that_differs_is_a_fault(self):
        result = play(BOTH, lambda build: ["echo", build])
        self.assertEqual((len(result.faults), result.rows[0]["output"]), (1, "DIFFERS"))

    def test_what_may_differ_is_left_out(self):
        self.assertEqual(play(BOTH, lambda build: ["echo", f"fps {build}, same"], "fps [^,]*").faults, [])

    def test_a_test_that_fails_with_weft_alone_is_a_fault(self):
        self.assertEqual(len(play({common.STOCK: True, common.WEFT: False}, lambda build: ["true"]).faults), 1)

    def test_tests_that_are_not_wanted_do_not_run(self):
        result = play({common.STOCK: True, common.WEFT: False}, lambda build: ["true"], rounds=0, no_tests=True)
        self.assertEqual((result.suites, result.faults, len(result.rows)), ([], [], 1))

    def test_cases_that_are_not_wanted_do_not_run(self):
        self.assertEqual([len(play(BOTH, lambda build: ["true"], only=only).rows) for only in ("^a c", "^b")], [1, 0])

    def test_a_test_that_fails_with_the_hosts_pool_is_told(self):
        result = play({common.STOCK: False, common.WEFT: True}, lambda build: ["echo", "same"])
        self.assertEqual((result.faults, len(result.remarks), result.unknown), ([], 1, []))

    def test_a_test_that_fails_with_both_tells_nothing(self):
        for bad in (False, outcome(1)):
            result = play({common.STOCK: bad, common.WEFT: bad}, lambda build: ["echo", "same"])
            self.assertEqual((result.faults, len(result.unknown)), ([], 1))

    def test_names_of_tests_are_compared(self):
        for stock, weft, faults, remarks in ((outcome(1, "a", "b"), outcome(1, "a"), 1, 0), (outcome(1, "a"), outcome(1, "a"), 0, 1),
                                             (outcome(0, "a", "b"), outcome(0, "a"), 1, 0), (outcome(0, "a"), outcome(0, "a"), 0, 0),
                                             (outcome(0, "a"), outcome(-11, "a"), 1, 0), (outcome(1, "a"), outcome(-9, "a"), 1, 0),
                                             (outcome(1, "a"), outcome(0, "a", "b"), 0, 1)):
            result = play({common.STOCK: stock, common.WEFT: weft}, lambda build: ["echo", "same"])
            self.assertEqual((len(result.faults), len(result.remarks), result.unknown), (faults, remarks, []), (stock, weft))

    def test_names_are_those_that_pass(self):
        with tempfile.TemporaryDirectory() as work:
            log = os.path.join(work, "log")
            write(log, "TEST    vsynth1-a\nTEST    vsynth1-b\nmake: *** [tests/Makefile:310: fate-vsynth1-b] Error 1\n")
            self.assertEqual(common.Outcome(2, log).naming(ffmpeg.TESTED, ffmpeg.FAILED).good, {"vsynth1-a"})
            write(log, "[       OK ] A.B/1 (3 ms)\n[  FAILED  ] A.C (1 ms)\n")
            self.assertEqual(common.Outcome(1, log).naming(aom.GOOD).good, {"A.B/1"})

    def test_an_output_that_is_not_written_is_a_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "output")
            for command, faults in (("true", 1), (f": >{path}", 1), (f"echo fps 3 >{path}", 1), (f"echo same >{path}", 0)):
                write(path, "of an earlier run\n")
                result = play(BOTH, lambda build, command=command: ["sh", "-c", command], ignore="fps [0-9]", output=lambda build: path)
                self.assertEqual((len(result.faults), len(result.rows)), (faults, 1 - faults), command)

    def test_what_prints_nothing_is_not_called_the_same(self):
        result = play(BOTH, lambda build: ["echo", "fps 3"], ignore="fps [0-9]")
        self.assertEqual((result.faults, result.rows[0]["output"], len(result.remarks)), ([], "-", 1))
        self.assertEqual(len(play(BOTH, lambda build: ["echo", "a" if build == common.STOCK else ""]).faults), 1)

    def test_a_program_that_ends_badly(self):
        self.assertEqual(len(play(BOTH, lambda build: ["false" if build == common.WEFT else "true"]).faults), 1)
        result = play(BOTH, lambda build: ["false" if build == common.STOCK else "true"])
        self.assertEqual((result.faults, result.rows, len(result.remarks)), ([], [], 1))


class Lists(unittest.TestCase):
    def count(self, stock, weft):
        words = {build: ["sh", "-c", script] for build, script in ((common.STOCK, stock), (common.WEFT, weft))}
        return aom.count_tests(words, "*")

    def test_tests_are_those_of_the_hosts_own(self):
        listed = "printf 'A.\n  one\n  two\n'"
        self.assertEqual(self.count(listed, listed), 2)
        self.assertEqual(*(self.count(*(f"printf 'A.\n  one  # GetParam() = (0x{number})\n'" for number in numbers)) for numbers in ("11", "12")))
        for weft in ("kill -11 $$", f"{listed}; exit 1", "printf 'A.\n  one\n'"):
            self.assertRaises(common.Broken, self.count, listed, weft)
        self.assertRaises(common.Unavailable, self.count, "true", listed)

    def test_what_meson_notes_is_of_this_run(self):
        with tempfile.TemporaryDirectory() as work:
            notes = os.path.join(work, common.WEFT, "libvmaf", "build", "meson-logs")
            os.makedirs(notes)
            host, noted = mock.Mock(work=work, tree=lambda build: os.path.join(work, build, "libvmaf")), os.path.join(notes, "testlog.json")
            good, bad = '{"name": "a", "result": "OK"}\n', '{"name": "b", "result": "FAIL"}\n'

            def run(code, text):
                def passes(*_):
                    if text is not None:
                        write(noted, text)
                    return outcome(code)
                with mock.patch.object(libvmaf, "passes", passes):
                    return libvmaf.Host.tests(host, common.WEFT)

            self.assertEqual(run(0, good), {"a": True})
            self.assertEqual(run(1, good + bad), {"a": True, "b": False})
            for code, text in ((0, None), (1, None), (0, ""), (1, good), (-9, good)):
                self.assertRaises(common.Broken, run, code, text)


class Trees(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.trees = [os.path.join(self.folder.name, name) for name in ("one", "other")]
        self.work = os.path.join(self.folder.name, "work")
        for path in (*self.trees, self.work):
            os.mkdir(path)
        for path in self.trees:
            write(os.path.join(path, "file"), path)

    def build(self, tree):
        """What the copy of it has."""
        copy = os.path.join(self.work, "stock")
        source.made_of(tree, self.work, "stock", "absent")
        source.copy_once(tree, copy, ".git")
        with open(os.path.join(copy, "file"), encoding="utf-8") as file:
            return file.read()

    def test_another_tree_is_taken(self):
        for tree in (*self.trees, self.trees[0]):
            self.assertEqual(self.build(tree), tree)

    def test_the_same_tree_is_not_copied_again_until_it_changes(self):
        self.build(self.trees[0])
        write(os.path.join(self.work, "stock", "made"), "")
        self.build(self.trees[0])
        self.assertTrue(os.path.exists(os.path.join(self.work, "stock", "made")))
        write(os.path.join(self.trees[0], "file"), "changed")
        os.utime(os.path.join(self.trees[0], "file"), (1 << 33, 1 << 33))
        self.assertEqual(self.build(self.trees[0]), "changed")
        self.assertFalse(os.path.exists(os.path.join(self.work, "stock", "made")))

    def test_a_copy_that_was_interrupted_is_made_again(self):
        with mock.patch.object(source.shutil, "copytree", lambda old, new, **_: os.mkdir(new) or os._exit(3)):
            child = os.fork()
            if child == 0:
                source.copy_once(self.trees[0], os.path.join(self.work, "stock"))
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)
        self.assertEqual(self.build(self.trees[0]), self.trees[0])

    def test_a_configure_that_fails_is_run_again(self):
        tree, log = os.path.join(self.work, "stock"), os.path.join(self.work, "log")
        words = ["sh", "-c", "echo >>runs; exit $0"]
        self.assertRaises(source.Unavailable, source.configure_once, self.trees[0], tree, [*words, "1"], log)
        for _ in range(2):
            source.configure_once(self.trees[0], tree, [*words, "0"], log)
        with open(os.path.join(tree, "runs"), encoding="utf-8") as runs:
            self.assertEqual(runs.read(), "\n")


class Report(unittest.TestCase):
    def run_hosts(self, *ends, only="", named=(), command=("echo", "same")):
        """(exit status, what is printed) of hosts that end so."""
        def host(end):
            def make(work, tree, remarks):
                if isinstance(end, BaseException):
                    raise end
                return FakeHost(end, lambda build: list(command))
            return make

        with tempfile.TemporaryDirectory() as work, contextlib.redirect_stdout(io.StringIO()) as told, \
                contextlib.redirect_stderr(io.StringIO()):
            chosen = argparse.Namespace(rounds=0, no_tests=False, only=only, work=work, long=False, alone=None,
                                        without=[], named=named, wanted={f"host{number}": "" for number, _ in enumerate(ends)})
            hosts = {f"host{number}": host(end) for number, end in enumerate(ends)}
            with mock.patch.object(hosts_main, "HOSTS", hosts), mock.patch.object(hosts_main, "parse_arguments", lambda: chosen):
                return hosts_main.main(), told.getvalue()

    def test_any_fault_of_one_host_leaves_the_others(self):
        status, told = self.run_hosts(BOTH, UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), BOTH)
        self.assertEqual(status, 1)
        self.assertIn("host0: a test: stock passes", told)
        self.assertIn("FAULT: host1: UnicodeDecodeError", told)
        self.assertIn("host2: a test: stock passes", told)

    def test_an_interrupt_ends_it_with_what_there_is(self):
        status, told = self.run_hosts(BOTH, KeyboardInterrupt(), BOTH)
        self.assertEqual((status, "host0: a test" in told, "host1: interrupted" in told, "host2" in told), (1, True, True, False))

    def test_the_status(self):
        neither = {common.STOCK: False, common.WEFT: False}
        weft_alone = {common.STOCK: True, common.WEFT: False}
        left_out = common.Unavailable("no source")
        for ends, status in (((BOTH,), 0), ((neither,), 3), ((weft_alone,), 1), ((neither, weft_alone), 1), ((left_out,), 0),
                             ((common.Broken("bad"),), 1)):
            self.assertEqual(self.run_hosts(*ends)[0], status, ends)
        self.assertIn("nothing is known of weft", self.run_hosts(neither)[1])
        status, told = self.run_hosts(left_out, named=("host0",))
        self.assertEqual((status, "UNKNOWN: host0: left out: no source" in told), (3, True))

    def test_two_runs_do_not_share_a_directory(self):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "lock")
            with open(path, "w", encoding="utf-8") as one, open(path, "w", encoding="utf-8") as other:
                hosts_main.take(one)
                self.assertRaises(common.Unavailable, hosts_main.take, other)
                one.close()
                hosts_main.take(other)

    def test_a_name_that_no_case_has_is_told(self):
        self.assertEqual([self.run_hosts(BOTH, only=only)[0] for only in ("^a c", "^b")], [0, 1])
        self.assertEqual(self.run_hosts(common.Unavailable("no source"), only="^b")[0], 0)


class Cost(unittest.TestCase):
    def cost(self, *command):
        with tempfile.TemporaryDirectory() as work:
            return common.cost(list(command), os.path.join(work, "log"))

    def test_the_peak_is_the_commands_own(self):
        ballast = b"\1" * (64 << 20)  # this program's is above it
        self.assertLess(self.cost("true").peak_kib, 16 << 10)
        big = "data = b'1' * (96 << 20)"
        self.assertGreater(self.cost(sys.executable, "-c", big).peak_kib, 96 << 10)
        self.assertEqual(len(ballast), 64 << 20)

    def test_a_test_that_hangs_fails_and_ends(self):
        with tempfile.TemporaryDirectory() as work:
            log = os.path.join(work, "log")
            with mock.patch.object(common, "TEST_SECONDS", 0.1):
                self.assertFalse(common.passes(["sh", "-c", "sleep 1000; true"], log, work))
            with open(log, encoding="utf-8") as told:
                self.assertIn("killed", told.read())
            self.assertFalse(common.passes(["sleep", "1000"], log, work, seconds=0.1))
            self.assertTrue(common.passes(["true"], log, work))
            self.assertFalse(common.passes(["false"], log, work))

    def test_a_case_that_hangs_ends_badly(self):
        with tempfile.TemporaryDirectory() as work:
            self.assertNotEqual(common.cost(["sleep", "1000"], os.path.join(work, "log"), seconds=0.1).code, 0)

    def test_how_it_ended(self):
        self.assertEqual(self.cost("true").code, 0)
        self.assertEqual(self.cost("sh", "-c", "exit 3").code, 3)
        self.assertNotEqual(self.cost("sh", "-c", "kill -9 $$").code, 0)
        self.assertNotEqual(self.cost("/nowhere").code, 0)


class Interval(unittest.TestCase):
    def test_order_statistics(self):
        self.assertIsNone(common.median_interval([1, 2, 3, 4, 5]))
        self.assertEqual(common.median_interval([6, 5, 4, 3, 2, 1]), (1, 6))  # 2 in 64 lie outside
        self.assertEqual(common.median_interval(list(range(9))), (1, 7))  # 20 in 512


class Edits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(os.path.join(self.folder.name, "file"), "w", encoding="utf-8") as file:
            file.write("one\ntwo\n")

    def read(self, name="file"):
        with open(os.path.join(self.folder.name, name), encoding="utf-8") as file:
            return file.read()

    def test_edits_are_written_together(self):
        tree = edits.Tree(self.folder.name)
        tree.replace("file", "two", "2")
        tree.append("file", "three\n")
        tree.add("new", "text\n")
        self.assertEqual(self.read(), "one\ntwo\n")
        tree.write()
        self.assertEqual((self.read(), self.read("new")), ("one\n2\nthree\n", "text\n"))

    def test_an_anchor_that_is_not_there_changes_nothing(self):
        tree = edits.Tree(self.folder.name)
        tree.replace("file", "two", "2")
        for wrong in (lambda: tree.replace("file", "four", "4"), lambda: tree.add("file", ""), lambda: tree.replace("none", "a", "b")):
            self.assertRaises(SystemExit, wrong)
        self.assertEqual(self.read(), "one\ntwo\n")


if __name__ == "__main__":
    unittest.main()
