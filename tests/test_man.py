#!/usr/bin/env python3
"""The manual pages: one for each function of the interface and each subcommand, with all that the sources say, and no mistake in their roff.

    test_man.py COMMAND
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
failures = 0


def check(holds, what):
    global failures
    if not holds:
        failures += 1
        print(f"FAILED: {what}")


def plain(page):
    return re.sub(r"\\f[BIP]|\\&", "", page.read_text()).replace("\\-", "-").replace("\\e", "\\")


def check_roff(pages):
    if shutil.which("groff") is None:
        print("skipped, roff: groff is not installed")
        return
    for page in pages:
        result = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", str(page)], capture_output=True, text=True, check=False)
        check(result.returncode == 0 and result.stderr == "", f"{page.name}: {result.stderr}")


def check_functions(place):
    subprocess.run([ROOT / "scripts" / "man", place], check=True)
    text = "".join(path.read_text() for path in sorted((ROOT / "include" / "weft").glob("*.h")))
    text = re.sub(r"/\*\* @cond \*/.*?/\*\* @endcond \*/", "", text, flags=re.S)
    functions = re.findall(r"^WEFT_API ([^;]*?\**)(\w+)\(", text, re.M)
    check(len(functions) > 50, f"only {len(functions)} functions found")
    for result, name in functions:
        page = place / f"{name}.3"
        check(page.exists(), f"no page {page.name}")
        if page.exists():
            wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "THREADS"] + ([] if result == "void " else ["RETURN VALUE"])
            check(all(f".SH {section}\n" in page.read_text() for section in wanted), f"{page.name}: not all of {wanted}")
    check("struct_size" in plain(place / "weft.3"), "weft.3 does not say what holds for all")
    submit = plain(place / "weft_submit.3")
    check(all(word in submit for word in ("WEFT_EFULL", "payload", "Any thread.")), "weft_submit.3 lacks a return, a parameter or its threads")


def check_command(command, place):
    subprocess.run([command, "man-pages", place], check=True)
    for words in (["race"], ["idle"], ["latency"], ["doctor"], ["doctor", "loop"], ["simulate"], []):
        page = place / ("-".join(["weft", *words]) + ".1")
        check(page.exists(), f"no page {page.name}")
        if not page.exists():
            continue
        shown = subprocess.run([command, *words, "--help"], capture_output=True, text=True, check=True).stdout
        for option in re.findall(r"^ +(?:-\w,)?(--[\w-]+)", shown, re.M):
            check(option in plain(page), f"{page.name} has no {option}")
    result = subprocess.run([command, "man-pages", place / "absent"], capture_output=True, text=True, check=False)
    check(result.returncode == 1 and "cannot write" in result.stderr, "pages that cannot be written")


def main():
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        check_functions(place)
        check_command(sys.argv[1], place)
        check_roff(sorted(place.glob("*.[13]")))
        print(f"{len(list(place.iterdir()))} pages, {failures} failures")
    return 1 if failures else 0


sys.exit(main())
