"""OpenCV as Debian has it, on its own backend and with weft as a plugin: functions of imgproc on a picture, byte by byte, and those of its
own tests of core and imgproc that run loops. Of its source these tests alone are built."""

import concurrent.futures
import os
import subprocess

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, ROOT, STOCK, WEFT, Broken, Case, Unavailable, passes, run
from source import unpack

HEADERS = "/usr/include/opencv4"
HERE = os.path.join(ROOT, "tools", "hosts")
# Its frame of tests, and the files of tests whose functions have parallel loops.
FRAME = ("ts", "ts_arrtest", "ts_func", "ts_gtest", "ts_tags", "ts_perf", "ocl_test")
TESTS = {
    "core": ("main", "misc", "utils", "rand", "dxt", "operations"),
    "imgproc": ("main", "canny", "filter", "imgwarp", "color", "histograms", "bilateral_filter", "smooth_bitexact", "resize_bitexact", "thresh",
                "connectedcomponents"),
}
MODULES = ("core", "imgproc", "ts", "imgcodecs", "videoio", "highgui")
# What its configuration would write: the tests' own code is compiled for any x86-64 or other CPU, without what is detected at run time.
WRITTEN = {
    "cvconfig.h": "",
    "opencv_tests_config.hpp": "",
    "cv_cpu_config.h": "#define CV_CPU_BASELINE_FEATURES 0\n#define CV_CPU_DISPATCH_FEATURES 0\n",
}
# Some tenths of a second each.
ROUNDS = {"blur": 60, "median": 8, "canny": 40, "resize": 120, "warp": 60, "colours": 150, "bilateral": 10}


class Host:
    name, package = "opencv", "libopencv-core-dev"

    def __init__(self, work, source, remarks):
        self.work = work
        if source is not None:
            raise Unavailable("it is tried as Debian has it: name no tree")
        if not os.path.exists(os.path.join(HEADERS, "opencv2", "imgproc.hpp")):
            raise Unavailable("libopencv-imgproc-dev is not installed")
        log = os.path.join(work, "build.log")
        flags = ["-O2", f"-I{INCLUDE}", f"-I{ADAPTERS}", "-isystem", HEADERS]
        self.program, plugin = os.path.join(work, "opencv_run"), os.path.join(work, "libopencv_core_parallel_weft.so")
        run(["g++", *flags, os.path.join(ROOT, "tools", "hosts", "opencv_run.cpp"), "-lopencv_imgproc", "-lopencv_core", "-o", self.program], log)
        run(["g++", *flags, "-shared", "-fPIC", "-fvisibility=hidden", os.path.join(ADAPTERS, "opencv", "plugin.cpp"), LIBRARY, "-o", plugin], log,
            Broken)
        self.settings = [f"OPENCV_CORE_PLUGIN_PATH={work}", "OPENCV_PARALLEL_PRIORITY_LIST=WEFT"]
        self.check()
        self.log, self.folder = log, os.path.join(work, "tests")
        self.tests()
        remarks.append("its tests that need pictures from elsewhere are skipped or see one of ours; files of tests without parallel loops are left out")

    def check(self):
        """OpenCV goes on with its own backend where a plugin does not fit: what it says about that is looked for."""
        command = ["env", *self.settings, "OPENCV_LOG_LEVEL=INFO", self.program, "resize", "1", "0"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if "using backend: WEFT" not in told.stdout + told.stderr:
            raise Broken("OpenCV does not take the plugin")

    def tests(self):
        """A program of each module's tests, on the library that is installed."""
        source, made = unpack(self.work, "opencv"), os.path.join(self.folder, "include")
        os.makedirs(made, exist_ok=True)
        for name, text in WRITTEN.items():
            with open(os.path.join(made, name), "w", encoding="utf-8") as out:
                out.write(text)
        folders = [f"-I{made}", *(f"-I{os.path.join(source, 'modules', module, 'include')}" for module in MODULES), "-isystem", HEADERS]
        flags = ["-O1", "-w", "-DNDEBUG", "-D__OPENCV_BUILD", "-D__OPENCV_TESTS", *folders]
        wanted = {"images": os.path.join(HERE, "opencv_images.cpp")}
        wanted |= {f"ts-{name}": os.path.join(source, "modules", "ts", "src", f"{name}.cpp") for name in FRAME}
        wanted |= {f"{module}-{name}": os.path.join(source, "modules", module, "test", f"test_{name}.cpp")
                   for module, names in TESTS.items() for name in names}

        def build(name):
            done = os.path.join(self.folder, f"{name}.o")
            if not os.path.exists(done):
                run(["g++", *flags, "-c", wanted[name], "-o", f"{done}.part"], self.log)
                os.rename(f"{done}.part", done)

        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", len(os.sched_getaffinity(0))))) as builders:
            list(builders.map(build, wanted))
        for module in TESTS:
            objects = [os.path.join(self.folder, f"{name}.o") for name in wanted if name.split("-")[0] in (module, "ts", "images")]
            run(["g++", *objects, "-lopencv_imgproc", "-lopencv_core", "-lz", "-ldl", "-pthread", "-o", self.test(module)], self.log)

    def test(self, module):
        return os.path.join(self.folder, f"opencv_test_{module}")

    def run_tests(self, module, build):
        """How they end, and the names of those that pass; what it prints is kept."""
        log = os.path.join(self.folder, f"{module}.{build}.log")
        done = passes(["env", *(self.settings if build == WEFT else []), self.test(module)], log, self.folder)
        with open(log, encoding="utf-8", errors="replace") as out:
            told = out.read()
        if build == WEFT and "Parallel framework: weft" not in told:
            raise Broken(f"its tests do not run on the plugin; see {log}")
        return done.naming(r"^\[ +OK \] (\S+)")

    def suite(self):
        for module in TESTS:
            passed = {build: self.run_tests(module, build) for build in BUILDS}
            if not passed[STOCK].good:
                raise Unavailable(f"none of its tests of {module} passes; see {self.folder}")
            yield f"{module}, {len(passed[STOCK].good)} tests that pass with its own backend", passed
        for threads in (0, 1):
            words = ["loops", "50", str(threads)]
            yield f"loops, {threads or 'its own number of'} threads", {
                build: passes(self.words(build, words), os.path.join(self.work, f"loops{threads}.{build}.log"), self.work) for build in BUILDS
            }

    def cases(self):
        for name, rounds in ROUNDS.items():
            yield self.case(name, name, rounds, 0)
        yield self.case("blur, 1 thread", "blur", ROUNDS["blur"], 1)

    def case(self, title, name, rounds, threads):
        return Case(title, lambda build: self.words(build, [name, str(rounds), str(threads)]))

    def words(self, build, words):
        return ["env", *(self.settings if build == WEFT else []), self.program, *words]
