"""Mutants of orders: the explorer itself weakens a tagged operation, in its ordinary build (`--mutant TAG/KIND`).

Kinds: order (relaxed instead), acq or rel (only that half of acq_rel), sc (acq_rel instead), split (a read-modify-write that is a
load and a store), drop (no fence), recheck (the answer that lets the race happen).
"""
import json
import os
import re
import sys
from dataclasses import dataclass

from hunting import NEVER_SEEN, ROOT, digest, first_failure, is_limit

sys.path.insert(0, str(ROOT / "scripts"))
import tags

FIRST_SCHEDULES = 2000
GROWTH = 3
COVERAGE_SCHEDULES = 400
PARTS = ("acq", "rel", "sc")
LATE = ("order",)  # may let a load come after a later store; tried with --buffering, too
LATE_SCHEDULES = 8000
LATE_FIRST = 500 # for each second of the shares
SHARES_S = (0.1, 0.6)  # of processor time for a driver, before the rounds that go by schedules
HANG_S = 20


@dataclass
class Order:
    tag: str
    kind: str
    file: str
    lines: tuple

    def key(self):
        return f"{self.tag}/{self.kind}"


def read_reasons():
    """{key: reason} from the rows of the ordering tables: "survives KIND: reason" up to the row's end."""
    reasons = {}
    for row in tags.read(ROOT).rows:
        for kinds, reason in re.findall(r"survives ([a-z_, ]+): (.*?)(?=\.? survives |$)", row.text):
            reasons.update({f"{row.tag}/{kind}": reason for kind in re.findall(r"[a-z_]+", kinds)})
    return reasons


def read_pairs():
    """{tag: the tags that its row pairs it with}"""
    orders = ((row.tag, tags.ORDER.search(row.text)) for row in tags.read(ROOT).rows)
    return {tag: re.findall(tags.TAG, order[2]) for tag, order in orders if order}


class Hunter:
    def __init__(self, explorer, schedules):
        self.explorer, self.effort = explorer, schedules
        self.reasons, self.pairs = read_reasons(), read_pairs()
        self.orders = self.read_sites()
        self.costs, self.hits = {}, {}

    def read_sites(self):
        """Every mutant of an operation that stands in src/ or the public header."""
        names = {file.name for folder in (ROOT / "src", ROOT / "include") for file in folder.rglob("*") if file.is_file()}
        kinds, places, others = {}, {}, set()
        for line in self.explorer.run("--sites").output.splitlines():
            tag, file, number, *of = line.split()
            if os.path.basename(file) not in names:
                others.add(tag)
            else:
                known = kinds.setdefault(tag, [])
                known.extend(kind for kind in of if kind not in known)
                places.setdefault(tag, (os.path.basename(file), []))[1].append(int(number))
        if not others.isdisjoint(kinds):  # it would be weakened there, too, and die of that
            sys.exit(f"mutants: drivers use tags of the library: {' '.join(sorted(others & kinds.keys()))}")
        return [Order(tag, kind, places[tag][0], tuple(places[tag][1])) for tag in kinds for kind in kinds[tag]]

    def read_coverage(self, path):
        """Which drivers run a tag's operation, and what a schedule costs: asked once for each build of the explorer."""
        of = self.explorer.digest()
        known = json.loads(path.read_text()) if path.exists() else {}
        if known.get("of") != of:
            self.ask_coverage()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"of": of, "costs": self.costs, "hits": self.hits}))
        else:
            self.costs, self.hits = known["costs"], known["hits"]

    def ask_coverage(self):
        for driver in self.explorer.drivers:
            start = os.times()
            ran = self.explorer.run(driver, "--coverage", "--schedules", COVERAGE_SCHEDULES)
            end = os.times()
            if ran.failed():
                sys.exit(f"mutants: {driver} fails without a mutant:\n{ran.output}")
            self.costs[driver] = max(end.children_user - start.children_user, 0.004) / COVERAGE_SCHEDULES
            for line in ran.output.splitlines():
                words = line.split()
                if words[0] == "hits" and int(words[4]) > 0:
                    counts = self.hits.setdefault(words[1], {})
                    counts[driver] = counts.get(driver, 0) + int(words[4]) / self.costs[driver]

    def drivers_of(self, tag):
        """Those that run it, first those that run what it pairs with, too, and do it most often in the time."""
        counts = self.hits.get(tag, {})
        pairs = [self.hits.get(other, {}) for other in self.pairs.get(tag, [])]
        return sorted(counts, key=lambda name: (bool(pairs) and not any(name in hits for hits in pairs), -counts[name]))

    def explore(self, order, driver, seed, schedules, *modes):
        cost = self.costs.get(driver, 0.005) * schedules * (3 if modes else 1)
        ran = self.explorer.run(driver, "--quiet", "--mutant", order.key(), "--seed", seed, "--schedules", schedules, *modes,
                                cpu_s=HANG_S + 3 * cost)
        if not ran.failed():
            return None
        if "explore --list" in ran.output:
            sys.exit(f"mutants: {driver} {order.key()}: {ran.output}")
        schedule, how = first_failure(ran, seed)
        # A weaker order only adds outcomes: where one is missing, the schedules were too few.
        if is_limit(how) or how.startswith(NEVER_SEEN):
            return None
        return {"by": driver, "after": schedule, "how": how, "modes": list(modes)}

    def again(self, order, known):
        killer = known.get("by")
        if killer not in self.explorer.drivers:
            return None
        after, modes = known["after"], known.get("modes", [])
        return self.explore(order, killer, after, 1, *modes) or self.explore(order, killer, 1, after + after // 2 + 50, *modes)

    def tries(self, order):
        """(driver, first seed, schedules, modes...) in their turn. One whose row says why it lives gets the first rounds alone."""
        drivers = self.drivers_of(order.tag)
        limit = self.effort_for(order)
        seed = dict.fromkeys(drivers, 1)

        def round_of(counts):
            for driver in drivers:
                count = min(counts(driver), limit + 1 - seed[driver])
                if count > 0:
                    yield driver, seed[driver], count
                    seed[driver] += count

        def late(schedules):
            for driver in drivers if order.kind in LATE else ():
                yield driver, 1, min(schedules, limit), "--buffering"

        for share in SHARES_S:
            yield from round_of(lambda driver, share=share: int(min(max(share / self.costs[driver], 20), FIRST_SCHEDULES)))
            yield from late(int(LATE_FIRST * share))
        yield from round_of(lambda driver: FIRST_SCHEDULES + 1 - seed[driver])
        yield from late(LATE_SCHEDULES)
        count = FIRST_SCHEDULES * GROWTH
        while any(seed[driver] <= limit for driver in drivers):
            yield from round_of(lambda driver, count=count: count)
            count *= GROWTH

    def effort_for(self, order):
        return min(FIRST_SCHEDULES, self.effort) if order.key() in self.reasons else self.effort

    def places(self, order):
        count = len(self.drivers_of(order.tag))
        return f"{count} drivers, {self.effort_for(order)} schedules each" if count else "no driver runs it"

    def survivor(self, order):
        return {"how": self.places(order)}

    def hunt(self, order, known):
        """{"by", "after", "how", "modes"}, or None."""
        found = self.again(order, known) if known else None
        if found:
            return found
        for attempt in self.tries(order):
            found = self.explore(order, *attempt)
            if found:
                return found
        return None
