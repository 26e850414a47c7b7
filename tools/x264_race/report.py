"""The rows as a table and as JSON, and the progress on a terminal."""

import json
import sys

HEAD = ("clip", "mode", "threads", "lookahead", "cpus", "pool", "fps", "of stock, mean and its error", "of control", "of stock under RR", "use of CPUs", "CPU/frame",
        "frame ms p50/p99", "p99 of stock's", "round by round",
        "of serial la.", "switches/frame", "CPU %", "others %", "bits")


def with_range(row, name, digits):
    if name not in row:
        return ""
    low, high = f"{row[name + '_min']:.{digits}f}", f"{row[name + '_max']:.{digits}f}"
    return f"{row[name]:.{digits}f} ({low}-{high})"


def with_error(row, name):
    if f"{name}_mean" not in row:
        return ""
    error = row[f"{name}_error"]
    return f"{row[f'{name}_mean']:.3f}" + (f" +- {error:.3f}" if error is not None else "")


def frames(row):
    if "frame_ms_p99" not in row:
        return "", "", ""
    told = with_error(row, "frame_p99_to_stock")
    return f"{row['frame_ms_p50']:.2f}/{row['frame_ms_p99']:.2f}", f"{row['frame_p99_of_stock']:.3f}", told


def cells(row):
    return (
        row["clip"],
        row["mode"],
        str(row["threads"]),
        str(row["lookahead_threads"] or "default"),
        str(row["cpus"]),
        row["pool"],
        with_range(row, "fps", 0),
        with_error(row, "ratio_to_stock"),
        with_error(row, "ratio_to_control"),
        with_error(row, "ratio_to_stock_rr"),
        with_error(row, "use_to_stock"),
        with_error(row, "cpu_to_stock"),
        *frames(row),
        with_error(row, "ratio_to_serial_lookahead"),
        f"{row['context_switches_per_frame']:.1f}",
        f"{row['cpu_percent']:.0f}",
        f"{row['others_percent']:.0f}",
        {True: "same", False: "DIFFER", None: "-"}[row["identical"]],
    )


def table(rows):
    lines = [HEAD, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def beside(row, name, whom):
    if f"ratio_to_{name}_verdict" not in row:
        return ""
    word = {"first": "ahead of", "behind": "BEHIND", "level": "level with", "undecided": "undecided beside"}
    return f"{word[row[f'ratio_to_{name}_verdict']]} {whom} {row[f'ratio_to_{name}']:.2f} " \
           f"({row[f'ratio_to_{name}_low']:.2f} to {row[f'ratio_to_{name}_high']:.2f})"


def verdicts(rows):
    """A line for each of weft's rows: beside stock, and beside the pool of two workers where it runs."""
    lines = []
    for row in rows:
        if row["pool"] not in ("weft", "weft-rr"):
            continue
        lookahead = ", serial lookahead" if row["lookahead_threads"] else ""
        what = f"{row['clip']} {row['mode']}{lookahead}, {row['threads']} threads, {row['cpus']} CPUs, {row['pool']}"
        others = [beside(row, "stock", "stock"), beside(row, "control", "the control of two workers")]
        lines.append(f"{what}: {row['fps']:.0f} fps; " + "; ".join(filter(None, others)))
    return "\n".join(lines)


def write_json(path, rows, **about):
    with open(path, "w", encoding="utf-8") as out:
        json.dump({**about, "rows": rows}, out, indent=1)
        out.write("\n")


class Progress:
    """Tells on a terminal how far the race is; silent elsewhere."""

    def __init__(self, total):
        self.total, self.done = total, 0

    def __call__(self, case, variant):
        self.done += 1
        self.say(f"x264 {self.done}/{self.total}: {case.clip} {case.mode} {case.threads} threads, {variant.row_pool()}")

    def say(self, text=""):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
