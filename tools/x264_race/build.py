"""x264's command-line program in four builds: stock, with the control pool, with weft, with weft and one pool for all.

The variants are copies of the stock build with one file exchanged, so all else, flags included, is the same object code. Each is
linked with frame_times.c, which notes when calls of the encoder begin and end.
"""

import glob
import os
import re
import shutil
import subprocess

from source import Broken, Unavailable, made_of, run

# Only what encodes y4m, at 8 bits; everything else x264 would look for on the machine is left out.
CONFIGURE = ["--bit-depth=8", "--disable-opencl"] + [
    f"--disable-{name}" for name in ("lavf", "swscale", "avs", "ffms", "gpac", "lsmash")
]

POOL_FILE = "common/threadpool.c"
MADE_OF_POOL = ("common/threadpool-8.o", "libx264.a", "x264")


def make(tree, log, fault, *variables):
    jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
    run(["make", "-j", jobs, "x264", *variables], log, fault, cwd=tree)


def build_stock(source, work):
    """The program as the source makes it, built once."""
    made_of(source, work, "stock")
    program = os.path.join(work, "stock", "x264")
    if os.path.exists(program):
        return program
    for tool in ("nasm", "make"):
        if not shutil.which(tool):
            raise Unavailable(f"no {tool} to build x264 with")
    tree, log = os.path.join(work, "stock.part"), os.path.join(work, "stock.log")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree, symlinks=True)
    run(["./configure", *CONFIGURE], log, cwd=tree)
    make(tree, log, Unavailable)
    shutil.rmtree(os.path.dirname(program), ignore_errors=True)
    os.rename(tree, os.path.dirname(program))
    return program


def pool_variables(link=(), flags=""):
    """What makes x264's makefile compile and link a pool that needs more: it appends these two, which it has for profiling, to its own."""
    return [*([f"CFLAGSPROF={flags}"] if flags else []), *([f"LDFLAGSPROF={' '.join(link)}"] if link else [])]


def build_variant(name, pool_file, work, link=(), flags=""):
    """The stock build with `pool_file` as its thread pool, linked with the files and options `link`. Made anew when a file is newer."""
    tree, log = os.path.join(work, name), os.path.join(work, f"{name}.log")
    program = os.path.join(tree, "x264")
    headers = [header for word in flags.split() if word.startswith("-I") for header in glob.glob(os.path.join(word[2:], "*.h"))]
    inputs = [pool_file, os.path.join(work, "stock", "x264"), *headers, *(word for word in link if not word.startswith("-"))]
    if os.path.exists(program) and os.path.getmtime(program) > max(os.path.getmtime(path) for path in inputs):
        return program
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(os.path.join(work, "stock"), tree, symlinks=True)  # keeps times: make rebuilds nothing else
    for made in MADE_OF_POOL:
        os.remove(os.path.join(tree, made))
    shutil.copyfile(pool_file, os.path.join(tree, POOL_FILE))
    make(tree, log, Broken, *pool_variables(link, flags))
    return program


def build_frame_times(work):
    """What links a program with frame_times.c: the object, made anew when its source is newer, and the linker's option."""
    source, made = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frame_times.c"), os.path.join(work, "frame_times.o")
    if not os.path.exists(made) or os.path.getmtime(made) <= os.path.getmtime(source):
        run([os.environ.get("CC", "cc"), "-O2", "-c", "-o", made, source], os.path.join(work, "frame_times.log"))
    return [made, "-Wl,--wrap=x264_encoder_encode"]


def build_all(source, work, root, library):
    """{pool: program} of every build."""
    adapters = os.path.join(root, "adapters", "x264")
    weft = os.path.join(adapters, "threadpool.c")
    flags = f"-I{os.path.join(root, 'include')} -I{os.path.join(root, 'adapters')}"
    build_stock(source, work)
    times = build_frame_times(work)
    stock = build_variant("stock-timed", os.path.join(source, POOL_FILE), work, times)
    return {
        "stock": stock,
        "stock-again": stock,
        "control": build_variant("control", os.path.join(adapters, "fifo-control.c"), work, times),
        "weft": build_variant("weft", weft, work, [library, *times], flags),
        "weft-shared": build_variant("weft-shared", weft, work, [library, *times], f"{flags} -DWEFT_VIEW_SHARED"),
    }


def describe(work):
    """The compiler, x264's flags and its version, for the record."""
    with open(os.path.join(work, "stock", "config.mak"), encoding="utf-8") as config:
        settings = dict(line.rstrip("\n").split("=", 1) for line in config if re.match(r"\w+=", line))
    compiler = subprocess.run([settings["CC"], "--version"], capture_output=True, text=True, check=False).stdout
    version = subprocess.run([os.path.join(work, "stock", "x264"), "--version"], capture_output=True, text=True, check=False).stdout
    return {
        "x264": version.splitlines()[0] if version else "unknown",
        "compiler": compiler.splitlines()[0] if compiler else settings["CC"],
        "flags": settings["CFLAGS"],
    }
