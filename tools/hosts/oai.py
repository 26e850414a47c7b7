"""OpenAirInterface, from a source tree: the own test of each pool that the tree has, compiled from the tree's files with the few others
that it needs. Its whole build is far larger, and no part of it knows the pool's inside.

 - common/utils/threadPool, tasks by value (2025): thread-pool.c and task_ans.c are exchanged;
 - common/utils/task_manager/thread_pool (2024): task_manager.c and task_ans.c;
 - messages (until 2024): thread-pool.c, and thread-pool.h with its inline half. Until 2024 its test is a part of thread-pool.c.
"""

import dataclasses
import os
import re
import subprocess

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, STOCK, WEFT, Broken, Case, Unavailable, passes

OWN = os.path.join(ADAPTERS, "oai")
FOLDERS = ("", "common", "common/utils", "common/utils/T", "common/utils/LOG", "common/config", "nfapi/open-nFAPI/nfapi/public_inc",
           "openair2/COMMON")
BESIDE = ("common/utils/system.c", "common/utils/LOG/log.c", "common/utils/minimal_stub.c", "common/config/config_userapi.c",
          "common/config/config_load_configmodule.c", "common/config/config_cmdline.c", "common/config/config_common.c")
TIMES = r"(In [^ ]*s, Total time|Waiting|Done|Total elapsed|Tpool:|create a thread|\[LOG\]|.*threadCreate)[^\n]*\n"
HANG_SECONDS = 120  # a test takes a few; the tree's own pool of September 2025 sometimes never ends in abortTpool
# Its tests pin threads to the CPUs 1 to 5 and end where one is absent, but only where they may ask for real time.
ORDINARY = ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]


@dataclasses.dataclass(frozen=True)
class Pool:
    name: str
    test: str
    folders: tuple
    files: dict  # build -> sources
    before: str = ""  # with weft: a folder of headers that stand in for the tree's own


class Host:
    name, package = "oai", None

    def __init__(self, work, source, remarks):
        if source is None:
            raise Unavailable("no package has its source: scripts/host oai=DIR names a tree")
        self.work, self.source, self.remarks = work, source, remarks
        self.pools = []
        for pool in self.find():
            if os.path.exists(pool.test):
                self.pools.append(pool)
            else:
                remarks.append(f"skipped, {pool.name}: there is no {os.path.relpath(pool.test, source)}")
        if not self.pools:
            raise Unavailable(f"{source} has no pool that is known here, with its test")
        for pool in self.pools:
            for build in BUILDS:
                self.compile(pool, build)

    def path(self, *names):
        return os.path.join(self.source, *names)

    def find(self):
        utils = self.path("common", "utils")
        manager, older = os.path.join(utils, "task_manager"), os.path.join(utils, "threadPool")
        if os.path.exists(os.path.join(older, "task.h")):
            yield self.tasks(older)
        if os.path.exists(os.path.join(manager, "thread_pool", "task_manager.c")):
            yield self.manager(manager)
        for folder in (os.path.join(manager, "threadPool"), older):
            if os.path.exists(os.path.join(folder, "thread-pool.c")) and not os.path.exists(os.path.join(folder, "task.h")):
                yield self.messages(folder)

    def tasks(self, folder):
        stock = [os.path.join(folder, name) for name in ("thread-pool.c", "task_ans.c")]
        weft = [os.path.join(OWN, name) for name in ("thread-pool.c", "task_ans.c")]
        return Pool("thread pool of tasks", os.path.join(folder, "test", "test_thread-pool.c"), (folder,), {STOCK: stock, WEFT: weft})

    def manager(self, folder):
        inner, rest = os.path.join(folder, "thread_pool"), [os.path.join(folder, "task.c")]
        stock = [os.path.join(inner, "task_manager.c"), os.path.join(folder, "task_ans.c")] + rest
        weft = [os.path.join(OWN, "task_manager.c"), os.path.join(OWN, "task_ans.c")] + rest
        return Pool("task manager", os.path.join(inner, "tests", "test_thread_pool.c"), (inner, folder), {STOCK: stock, WEFT: weft})

    def messages(self, folder):
        """The header of ours goes before the tree's own, under each name that it has there."""
        overlay = os.path.join(self.work, "overlay")
        for name in ("", "threadPool", "common/utils/threadPool"):
            os.makedirs(os.path.join(overlay, name), exist_ok=True)
            with open(os.path.join(overlay, name, "thread-pool.h"), "w", encoding="utf-8") as header:
                header.write(f'#include "{os.path.join(OWN, "fifo", "thread-pool.h")}"\n')
        test = os.path.join(folder, "test", "test_thread-pool.c")
        if not os.path.exists(test):
            test = self.cut_test(os.path.join(folder, "thread-pool.c")) or test
        return Pool("pool of messages", test, (folder,),
                    {STOCK: [os.path.join(folder, "thread-pool.c")], WEFT: [os.path.join(OWN, "fifo", "thread-pool.c")]}, overlay)

    def cut_test(self, source):
        """The test that stands at the end of the pool's file, as a file of its own; None: there is none. exit_function is in the tree's stub, too; the log that
        the tree's threads write has to be begun."""
        with open(source, encoding="utf-8") as text:
            whole = text.read()
        includes = "".join(re.findall(r"^#include.*\n", whole, re.M))
        shows = re.search(r"^void displayList\(.*?^}\n", whole, re.M | re.S)
        body = re.search(r"^#ifdef TEST_THREAD_POOL\n(.*)^#endif", whole, re.M | re.S)
        if not shows or not body:
            return None
        body = re.sub(r"^(int oai_exit[^\n]*\n|void exit_function\(.*?^}\n)", "", body[1], flags=re.M | re.S)
        path = os.path.join(self.work, "test_thread-pool.c")
        again = "" if "displayList" in body.split("int main")[0] else shows[0].replace("displayList", "showList")
        with open(path, "w", encoding="utf-8") as out:
            body = body.replace("displayList", "showList").replace("int main() {", "int main() {\n  logInit();")
            out.write(f'#define _GNU_SOURCE\n{includes}#include "log.h"\n{again}{body}')
        return path

    def program(self, pool, build):
        return os.path.join(self.work, f"{pool.name.replace(' ', '-')}-{build}")

    def compile(self, pool, build):
        ours = [folder for folder in (pool.before, INCLUDE) if folder] if build == WEFT else []
        folders = [*ours, *pool.folders, *(self.path(name) for name in FOLDERS)]
        beside = [self.path(name) for name in BESIDE if os.path.exists(self.path(name))]
        command = ["gcc", "-O2", "-w", "-DMAX_NUM_CCs=1", *(f"-I{folder}" for folder in folders), pool.test, *pool.files[build], *beside,
                   *([LIBRARY] if build == WEFT else []), "-pthread", "-ldl", "-lm", "-o", self.program(pool, build)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
            raise (Broken if build == WEFT else Unavailable)(f"{pool.name}, {build}: {(lines or ['?'])[0]}")

    def words(self, pool, build):
        return [*(ORDINARY if os.geteuid() == 0 else []), self.program(pool, build)]

    def suite(self):
        for pool in self.pools:
            passed = {build: passes(self.words(pool, build), f"{self.program(pool, build)}.log", self.work, seconds=HANG_SECONDS) for build in BUILDS}
            yield f"{pool.name}: {os.path.basename(pool.test)}", passed

    def cases(self):
        for pool in self.pools:
            yield Case(f"{pool.name}: its test", lambda build, pool=pool: self.words(pool, build), ignore=TIMES, seconds=HANG_SECONDS)
