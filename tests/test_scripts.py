"""Scripts that must not call something good which they have not looked at: scripts/test, need, lint and cluster."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def module_of(name):
    loader = importlib.machinery.SourceFileLoader(f"script_{name}", str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Commands(unittest.TestCase):
    """Scripts among commands that are not the system's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def command(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run_script(self, name, *words):
        return subprocess.run([SCRIPTS / name, *words], capture_output=True, text=True, check=False, timeout=600, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})

    def packages(self, states):
        """What need says where packages have these states in turn; nothing can be installed."""
        self.command("dpkg-query", "shift 3; for name; do for state in " + " ".join(states) + '; do echo "$state  $name"; done; done')
        for name in ("apt-get", "apt-cache", "sudo", "dpkg"):
            self.command(name, f'echo "called {name}"; exit 1')
        return self.run_script("need", "build")

    def test_a_held_package_is_installed(self):
        for states in (["ii"], ["hi"], ["rc", "hi"]):
            done = self.packages(states)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), states)
        for states in (["rc"], ["un"], ["iU"], ["hc"]):
            self.assertNotEqual(self.packages(states).returncode, 0, states)

    def test_lint_needs_the_list_of_files(self):
        self.command("git", "echo 'fatal: detected dubious ownership' >&2; exit 128")
        done = self.run_script("lint", "sizes")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("dubious ownership", done.stderr)
        self.assertNotIn("ok", done.stdout)


class Trees(unittest.TestCase):
    def test_one_that_is_not_there_is_refused(self):
        script = module_of("test")
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder)
            (build / "release").mkdir()
            (build / "release" / "CTestTestfile.cmake").write_text("")
            (build / "empty").mkdir()
            with mock.patch.object(script, "ALL", build / "all"), mock.patch.object(script, "LOGS", build / "all" / "logs"):
                script.prepare(["release"])
                for presets in (["release", "asan"], ["empty"], ["release", "none"]):
                    with self.assertRaisesRegex(SystemExit, presets[-1]):
                        script.prepare(presets)


class Cluster(unittest.TestCase):
    def setUp(self):
        self.script = module_of("cluster")

    def test_a_cut_link_is_told_by_name(self):
        for code, output in ((1, "weft_dist: rank 0 of 3: rank 2 has been silent\n"), (205, "ORTE has lost communication with a remote daemon.\n"),
                             (15, "application called MPI_Abort(MPI_COMM_WORLD, 1)\n")):
            self.assertIn(self.script.cut_judge(code, output, "a job"), output)
        said = "weft_dist: rank 0 of 3: rank 2 has been silent\n"
        for code, output in ((0, said), (1, ""), (127, "mpirun: not found\n"), (139, said), (-11, said), (1, said + "a result\n"),
                             (1, said + "exited on signal 11 (Segmentation fault)\n")):
            with self.assertRaises(self.script.Wrong, msg=(code, output)):
                self.script.cut_judge(code, output, "a job")

    def test_ranks_begin_before_a_link_is_cut(self):
        spaces, job = mock.Mock(), mock.Mock(returncode=127)
        spaces.ranks.side_effect = [[], [1], [1, 2, 3]]
        job.poll.return_value = None
        with mock.patch.object(self.script.time, "sleep"):
            self.script.ranks_begin(spaces, "dist_scenes", job)
            spaces.ranks.side_effect = [[]]
            job.poll.return_value = 127
            job.communicate.return_value = ("not found", None)
            self.assertRaises(self.script.Wrong, self.script.ranks_begin, spaces, "dist_scenes", job)

    def test_namespaces_that_cannot_be_made_are_skipped(self):
        told = io.StringIO()
        with mock.patch.object(self.script.shutil, "which", lambda name: None), contextlib.redirect_stdout(told):
            self.script.namespaces(None, None, None, None)
        refused = subprocess.CompletedProcess([], 1, "", "Operation not permitted")
        with mock.patch.object(self.script.os, "geteuid", lambda: 0), mock.patch.object(self.script.shutil, "which", lambda name: name), \
                mock.patch.object(self.script.subprocess, "run", lambda *_, **__: refused), contextlib.redirect_stdout(told):
            self.script.namespaces(None, None, None, None)
        self.assertEqual([line.split(":")[0] for line in told.getvalue().splitlines()], ["skipped, namespaces"] * 2)
        self.assertIn("not permitted", told.getvalue())

    def test_namespaces_are_removed_when_their_making_fails(self):
        removed = []
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(self.script, "namespaces_denied", lambda: None), \
                mock.patch.object(self.script.Spaces, "ip", mock.Mock(side_effect=self.script.Wrong("no bridge"))), \
                mock.patch.object(self.script.Spaces, "pids", lambda spaces: []), \
                mock.patch.object(self.script.Spaces, "remove", lambda *_: removed.append(1)):
            self.assertRaises(self.script.Wrong, self.script.namespaces, None, None, None, Path(folder))
        self.assertEqual(len(removed), 2)  # before, and after

    def test_scenes_that_are_not_built_are_told(self):
        told = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(told), \
                mock.patch.object(self.script, "run", lambda *_, **__: "seed 1\nkills: 1\n"):
            self.script.kills(self.script.Tree(Path(folder)), 1)
        self.assertEqual(told.getvalue().count("skipped, "), 2)


if __name__ == "__main__":
    unittest.main()
