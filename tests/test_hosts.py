"""The parts of tools/hosts and adapters/edits.py that need no host's tree: turns, intervals, what is a fault, edits at anchors."""

import argparse
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
sys.path[:0] = [os.path.join(ROOT, "tools", "hosts"), os.path.join(ROOT, "adapters")]

import common  # noqa: E402
import edits  # noqa: E402


class FakeHost:
    name = "fake"

    def __init__(self, passed, command, ignore=""):
        self.passed, self.command, self.ignore = passed, command, ignore

    def suite(self):
        yield "a test", self.passed

    def cases(self):
        yield common.Case("a case", self.command, ignore=self.ignore)


def play(passed, command, ignore="", rounds=2, no_tests=False, only=""):
    result = common.Result("fake")
    chosen = argparse.Namespace(rounds=rounds, no_tests=no_tests, only=only)
    with tempfile.TemporaryDirectory() as work:
        common.measure(FakeHost(passed, command, ignore), work, chosen, result)
    return result


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
        result = play({common.STOCK: False, common.WEFT: True}, lambda build: ["true"])
        self.assertEqual((result.faults, len(result.remarks)), ([], 1))

    def test_a_program_that_ends_badly(self):
        self.assertEqual(len(play(BOTH, lambda build: ["false" if build == common.WEFT else "true"]).faults), 1)
        result = play(BOTH, lambda build: ["false" if build == common.STOCK else "true"])
        self.assertEqual((result.faults, result.rows, len(result.remarks)), ([], [], 1))


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
