#!/usr/bin/env python3
"""A profile as tools read it: pprof's message field by field, by `go tool pprof` where Go is there, and as folded text.

    test_heap_profile.py SCENE

What the scene allocates is known; with its fixed seed an estimate is 4.5 deviations off at most: of n samples a part of 1/sqrt(n) each."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

INTERVAL = 512 * 1024
FRAMES, TABLES, TEXT = 64_000_000, 32_000_000, 200_000_000


def fields(message):
    """(number, value) of a protocol buffer's message; a value is a number or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 2:
            length = number()
            yield key >> 3, message[at : at + length]
            at += length
        else:
            raise AssertionError(f"kind {key & 7}")


def packed(numbers):
    value = shift = 0
    for byte in numbers:
        value |= (byte & 127) << shift
        shift = shift + 7 if byte >= 128 else 0
        if byte < 128:
            yield value
            value = 0


def check_message(path):
    found = {}
    for number, value in fields(path.read_bytes()):
        found.setdefault(number, []).append(value)
    strings = [string.decode() for string in found[6]]
    assert strings[0] == "" and found[12] == [INTERVAL], (strings[0], found[12])
    types = [tuple(strings[value] for _, value in fields(kind)) for kind in found[1]]
    assert types == [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")], types
    mappings = {}
    for mapping in map(dict, map(fields, found[3])):
        assert mapping[1] not in mappings and mapping[2] < mapping[3]
        mappings[mapping[1]] = mapping
        assert Path(strings[mapping[5]]).exists(), strings[mapping[5]]
    assert strings[next(iter(mappings.values()))[5]].endswith("heap_profile_scene"), "the program is not the first mapping"
    locations = {}
    for location in map(dict, map(fields, found[4])):
        assert location[1] not in locations
        locations[location[1]] = location
        mapping = mappings.get(location[2])
        assert mapping is None or mapping[2] <= location[3] < mapping[3]
    for sample in map(dict, map(fields, found[2])):
        assert all(location in locations for location in packed(sample[1]))
        assert len(list(packed(sample[2]))) == 4
    return len(found[2])


def near(name, bytes_found, bytes_there):
    off = 4.5 * (bytes_there * INTERVAL) ** 0.5
    assert abs(bytes_found - bytes_there) <= off, f"{name}: {bytes_found} of {bytes_there}, may be off {off:.0f}"


def pprof(index, *files):
    command = ["go", "tool", "pprof", "-top", "-unit=B", f"-sample_index={index}", *map(str, files)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: int(flat) for flat, name in re.findall(r"^\s*(-?\d+)B\s.*%\s+(\S+)$", out, re.M)}


def main():
    with tempfile.TemporaryDirectory() as place:
        first, second, folded = (Path(place, name) for name in ("first", "second", "folded"))
        subprocess.run([sys.argv[1], first, second, folded], check=True)
        print(f"ok message: {check_message(first)} and {check_message(second)} stacks")
        sums = {}
        for line in folded.read_text().splitlines():
            stack, value = line.rsplit(" ", 1)
            for name in set(stack.split(";")):
                sums[name] = sums.get(name, 0) + int(value)
        if "frames_allocate" not in sums:
            print("skipped, names and go tool pprof: no backtrace in this C library")
            return
        near("folded, frames", sums["frames_allocate"], FRAMES)
        near("folded, tables", sums["tables_allocate"], TABLES)
        assert sums.get("text_passes", 0) == 0, sums
        print("ok folded")
        if shutil.which("go") is None:
            print("skipped, go tool pprof: Go is not installed")
            return
        allocated, live, grown = pprof("alloc_space", second), pprof("inuse_space", second), pprof("inuse_space", "-base", first, second)
        near("allocated, text", allocated["text_passes"], TEXT)
        near("live, frames", live["frames_allocate"], FRAMES)
        near("live, tables", live["tables_allocate"], TABLES)
        assert live.get("text_passes", 0) == 0 and grown.get("frames_allocate", 0) == 0, (live, grown)
        near("grown, tables", grown["tables_allocate"], TABLES)
        print("ok go tool pprof")


if __name__ == "__main__":
    main()
