#!/usr/bin/env python3
"""The rewriter of schemata.py: a sample file, rewritten and compiled, prints the same without a mutant and something else with each.
Each survivor that conditions.md explains is in the sources. What is no property kills no mutant.

    verify/test_schemata.py
"""
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import conditions
import hunting
import orders
import schemata

SAMPLE = r"""
/* No sites: a + 1 < 2 in a comment. */
#include <stdio.h>
#define FLAG 4
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define store_rlx(a, v) (*(a) = (v))
#define add_rlx(a, v) ((*(a) += (v)) - (v))
#define ASSERT(x) ((void)sizeof((x) ? 1 : 0))
static const int table[1 + 1] = {1, 2};
struct counts { unsigned n; unsigned flags; };
static void print(int n) { printf("%d ", n); }
static int early(const int *p) {
    if (p == NULL) return 7;
    return *p;
}
static int first_above(const int *items, int count, int least) {
    ASSERT(count > 0 && items != NULL);
    for (int i = 0; i < count; i++)
        if (LIKELY(items[i] > least) && items[i] != 5) return i;
    return -1;
}
static void change(struct counts *c) {
    if (!(c->flags & FLAG)) c->flags |= FLAG;
    c->n += 3;
    store_rlx(&c->n, c->n + 1), (void)0;
    add_rlx(&c->n, 2);
    c->flags = c->n ? c->flags : 0;
    switch (c->n) {
    case 1 + 1: break;
    default: { print((int)c->n); }
    }
}
int main(void) {
    const int items[] = {5, 1, 3, 9}, four = 4;
    struct counts c = {.n = 2, .flags = 9}, none = {0, 8};
    print(early(&four));
    print(early(NULL) == 7 ? table[0] : table[1]);
    print(first_above(items, 4, 3));
    print(first_above(items, 3, 3));
    print(first_above(items, 3, 9));
    change(&c);
    change(&none);
    print((int)c.n), print((int)c.flags), print((int)none.flags);
    puts("");
    return 0;
}
"""
# Whether a body has a bound: none where the sides of the comparison may stand for one another.
BOUNDS = {
    "if (a > b) a = b;": False,
    "if (a < c->n) { c->n = a; }": False,
    "if (LIKELY((b - 1) >= a)) a = (b - 1);": False,
    "b = a <= b ? b : a;": False,
    "c->n = a < c->n ? c->n - a : 0;": False,
    "a = b >= a ? 0 : (a) - b;": False,
    "a = b > a ? 0 : a - 1;": True,
    "a = b > a ? 1 : a - b;": True,
    "if (a > b) a = c->n;": True,
    "if (a > b) a += b;": True,
    "if (a > b) a = b; else c->n = 1;": True,
    "if (a > b) { a = b; c->n = 1; }": True,
    "if (a > next()) a = next();": True,
    "if (a > c->n++) a = c->n++;": True,
    "if (c->real > a) c->real = a;": True,
    "if (real < 0) real = 0;": True,
    "b = a < b ? b : 3;": True,
    "while (a < b && !cas_rlx(T, &c->n, &a, b)) {}": False,
    "while (b > a && !cas_rlx(T, &c->n, &a, b)) {}": False,
    "while (a < b && !cas_rlx(T, &c->n, &a, c->n)) {}": True,
    "while (a < b && !cas_rlx(T, &c->n, &b, b)) {}": True,
    "while (a < b || !cas_rlx(T, &c->n, &a, b)) {}": True,
    "if (os_ticks() - a > b) next();": False,
    "a = os_now_ns(); if (a - 1 >= b) next();": False,
    "if (now_ns < b) next();": False,
    "if (now < b) next();": True,
    "a = os_now_ns(); if (a > 0) next();": True,
    "b = next(); if (a > b) next();": True,
}
DECLARED = "struct counts { int n; double real; }; void f(int a, int b, struct counts *c, double real) { %s }"
KINDS = "bound call early equal flag not operand reverse step truth".split()


def output(program, number):
    ran = subprocess.run([program], capture_output=True, text=True, timeout=5, check=False,
                         env={**os.environ, "WEFT_MUTANT": str(number)})
    return ran.returncode, ran.stdout


class Says:
    """An explorer that fails with that report; without a mutant only where `always`."""

    def __init__(self, how, always):
        self.how, self.always, self.drivers = how, always, ["drive"]

    def run(self, *_, cpu_s=0, environment=None):
        fails = self.always or environment != {"WEFT_MUTANT": "0"}
        return hunting.Ran(int(fails), f"drive: FAILED{self.how}\n" if fails else "", "", cpu_s, cpu_s)


def kills(how, always=False):
    """Whether that report kills (an order, a condition)."""
    order, condition = object.__new__(orders.Hunter), object.__new__(conditions.Hunter)
    order.explorer, order.costs = Says(how, always), {}
    condition.coverage = types.SimpleNamespace(explorer=order.explorer, drivers={"drive": {"cost": 0.001}})
    return (order.explore(orders.Order("L1", "order", "lane.c", ()), "drive", 1, 10) is not None,
            condition.explore(types.SimpleNamespace(number=7), "drive", 1, 10) is not None)


def hunters():
    """Each case that they judge wrongly."""
    for how, always, wanted in ((" in schedule 3: expected at x.c:1: a", False, (True, True)),
                                (f" in schedule 3: {hunting.LIMIT}more than 16 threads", False, (False, False)),
                                (f": {hunting.NEVER_SEEN}: 0x1", False, (False, True)),
                                (f": {hunting.NEVER_SEEN}: 0x1", True, (False, False))):
        if kills(how, always) != wanted:
            yield f"kills (an order, a condition) {kills(how, always)}: {how}"
    engine = (HERE / "engine.h").read_text() + (HERE / "explore.c").read_text()
    yield from (f"the explorer never says: {text}" for text in (hunting.LIMIT, hunting.NEVER_SEEN) if text not in engine)


def main():
    problems = []
    bodies, sites, left_out = schemata.find(SAMPLE, schemata.typedefs(SAMPLE))
    for number, site in enumerate(sites, 1):
        site.number = number
    rewritten = schemata.rewrite(SAMPLE, bodies)
    if rewritten.count("\n") != SAMPLE.count("\n"):
        problems.append("lines have moved")
    if sorted({site.kind for site in sites}) != KINDS:
        problems.append(f"kinds: {sorted({site.kind for site in sites})}")
    if sum(left_out.values()) != 1:
        problems.append(f"left out: {left_out}")
    if len({site.key() for site in sites}) != len(sites):
        problems.append("two sites have one name")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("plain.c", SAMPLE), ("sample.c", "int mutant(unsigned);" + rewritten)):
            Path(folder, name).write_text(text)
        for name, files in (("plain", ["plain.c"]), ("sample", ["sample.c", HERE / "mutant.c"])):
            command = ["cc", "-std=c17", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", name, *files]
            subprocess.run(command, cwd=folder, check=True)
        plain = output(f"{folder}/plain", 0)
        if output(f"{folder}/sample", 0) != plain:
            problems.append("it does something else without a mutant")
        for site in sites:
            try:
                if output(f"{folder}/sample", site.number) == plain:
                    problems.append(f"changes nothing: {site.key()} -> {site.other}")
            except subprocess.TimeoutExpired:
                pass
    for broken in ("void f(void) { if (a < ) b(); }", "void f(void) { a b; }"):
        try:
            schemata.find(broken, set())
            problems.append(f"read without a word: {broken}")
        except schemata.Unreadable:
            pass
    for text, wanted in BOUNDS.items():
        _, found, left = schemata.find(DECLARED % text, set())
        has = any(site.kind == "bound" and not site.idle for site in found)
        if has != wanted or has == bool(left):
            problems.append(f"{'no ' if wanted else 'a '}bound in {text}")
    killers = hunting.Killers()
    if killers.of(None) == killers.of("drive") or killers.of("test costs fib/1") == killers.of("test fork") or not killers.files:
        problems.append("what a kill rests on is not told apart")
    tree = conditions.Tree(Path(tempfile.gettempdir()), 1)
    tree.find_sites()
    known = {(site.file, site.key()) for site in tree.sites}
    problems += [f"conditions.md explains what is not there: {file}: {key}"
                 for file, key in conditions.read_reasons(HERE / "conditions.md") if (file, key) not in known]
    problems += hunters()
    print("\n".join(problems) or f"{len(sites)} mutants of the sample, each seen")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
