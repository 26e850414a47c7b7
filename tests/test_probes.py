#!/usr/bin/env python3
"""The static probes (USDT) of the library: those that docs/howto/observe.md lists, no others.

    test_probes.py LIBRARY DOCS
"""

import re
import subprocess
import sys
from pathlib import Path


def main():
    if not any(Path(directory, "sys/sdt.h").exists() for directory in ("/usr/include", *Path("/usr/include").glob("*-linux-gnu"))):
        print("skipped, test_probes: sys/sdt.h was not there (systemtap-sdt-dev)")
        return
    notes = subprocess.run(["readelf", "--notes", "--wide", sys.argv[1]], check=True, capture_output=True, text=True).stdout
    there = set(re.findall(r"Provider: weft\s+Name: (\w+)", notes))
    listed = set(re.findall(r"^\| `weft:(\w+)`", Path(sys.argv[2]).read_text(), re.M))
    assert listed and there == listed, (sorted(there), sorted(listed))
    print(f"probes: {', '.join(sorted(there))}")


if __name__ == "__main__":
    main()
