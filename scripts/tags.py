"""Ordering tables and the tags of ordered accesses in src/.

A file with ordered accesses has in its head comment a section that starts with `Ordering table`, with one row per tag:

     *   L1  lane_push: store tail  release  L2  a taker would read an unwritten cell

that is tag, site, order, the tags it pairs with (or words), what breaks without it. Deeper lines continue a row. ` x2 ` says that
two accesses bear the tag, ` xN ` any number. The order is the one in the operation's name.
Run as a program it prints `tag file line operation` for each access.
"""
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

TAG = r"[A-Z][A-Za-z]*[0-9]+[a-z]?"
# The order, then the tags it pairs with.
ORDER = re.compile(rf"(?<!\S)(relaxed|acquire|release|acq_rel|sc|seq_cst|light|heavy|(?<=\s\s)-)\s+((?:{TAG}(?:,\s*|\s|$))*)")
ORDERS = {"acq_rel": ("acq_rel", "acquire", "release"), "acq": ("acquire",), "rel": ("release",), "rlx": ("relaxed",),
          "sc": ("sc", "seq_cst"), "light": ("light",), "heavy": ("heavy",)}


def order_of(row):
    """The order a row names, and the tags after it. A site's own words may look like an order: the one before tags counts."""
    found = ORDER.findall(row.text)
    return next((pair for pair in found if pair[1]), found[0] if found else None)


def orders_of(operation):
    """What a row may say of an operation; a recheck has no order."""
    return next((words for ending, words in ORDERS.items() if operation.endswith(f"_{ending}")), ("-",))


@dataclass
class Row:
    tag: str
    file: str
    line: int
    text: str

    def sites_wanted(self):
        match = re.search(r"\bx(\d+|N)\b", self.text)
        return None if match and match[1] == "N" else int(match[1]) if match else 1


@dataclass
class Site:
    tag: str
    file: str
    line: int
    operation: str


def module(place):
    """A header and its source are one; the public header's inline functions belong to fork.c."""
    return {"pattern": "fork"}.get(Path(place.file).stem, Path(place.file).stem)


@dataclass
class Table:
    rows: list = field(default_factory=list)
    sites: list = field(default_factory=list)

    def problems(self):
        found = []
        known = {(module(row), row.tag) for row in self.rows}
        names = [row.tag for row in self.rows]
        for site in self.sites:
            if not re.fullmatch(TAG, site.tag):
                found.append(f"{site.file}:{site.line}: {site.operation} without a tag")
            elif (module(site), site.tag) not in known:
                found.append(f"{site.file}:{site.line}: {site.tag} has no row in the ordering table of this file or its header's source")
        for row in self.rows:
            where = f"{row.file}:{row.line}"
            sites = [site for site in self.sites if (module(site), site.tag) == (module(row), row.tag)]
            wanted = row.sites_wanted()
            if not sites:
                found.append(f"{where}: no access bears {row.tag}")
            elif wanted is not None and len(sites) != wanted:
                found.append(f"{where}: {len(sites)} accesses bear {row.tag}, the row says {wanted}")
            if names.count(row.tag) > 1:
                found.append(f"{where}: {row.tag} has more than one row")
            order = order_of(row)
            if order is None:
                found.append(f"{where}: the row of {row.tag} names no order")
                continue
            found += [f"{where}: {row.tag} pairs with {other}, which has no row"
                      for other in re.findall(TAG, order[1]) if other not in names]
            found += [f"{site.file}:{site.line}: the row of {row.tag} says {order[0]}, the code {site.operation}"
                      for site in sites if order[0] not in orders_of(site.operation)]
        return found


def without_comments(text):
    """The text with comments and literals blanked; lines keep their numbers."""
    def blank(match):
        return match[0][0] + " " if match[0][0] in "\"'" else re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def operations(root):
    """The macros whose first parameter is a tag."""
    text = "".join((root / "src/os" / name).read_text() for name in ("atomics.h", "os.h"))
    return set(re.findall(r"^#define (\w+)\(tag\b", text, re.M))


def rows_of(name, text):
    head = re.match(r"\s*/\*.*?\*/", text, re.S)
    inside, row, depth = False, None, None
    for number, line in enumerate(head[0].splitlines() if head else (), 1):
        match = re.match(rf" \*( +)({TAG})\s+(.*)", line)
        deeper = re.match(r" \*( +)(\S.*)", line)
        if line.startswith(" * Ordering table"):
            inside = True
        elif inside and match and depth in (None, len(match[1])):
            row, depth = Row(match[2], name, number, match[3]), len(match[1])
            yield row
        elif row and deeper and len(deeper[1]) > depth:
            row.text += " " + deeper[2]
        else:
            row = None


def sites_of(name, text, names):
    code = without_comments(text)
    if Path(name).name in ("atomics.h", "os.h"):  # these define the operations
        code = re.sub(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", lambda match: re.sub(r"[^\n]", " ", match[0]), code, flags=re.M)
    for match in re.finditer(rf"\b({'|'.join(sorted(names))})\(\s*([^,()\s]*)", code):
        yield Site(match[2], name, code.count("\n", 0, match.start()) + 1, match[1])


def read(root):
    table, names = Table(), operations(root)
    for path in sorted((root / "src").rglob("*.[ch]")):
        name, text = str(path.relative_to(root)), path.read_text()
        table.rows += rows_of(name, text)
        table.sites += sites_of(name, text, names)
    public = root / "include" / "weft" / "pattern.h"
    if public.exists():
        code = re.sub(r"^#define weft_\w+\(tag[^\n]*", "", public.read_text(), flags=re.M)
        table.sites += sites_of("include/weft/pattern.h", code, {f"weft_{name}" for name in names | {"fence_light"}})
    return table


if __name__ == "__main__":
    for site in read(Path(__file__).resolve().parent.parent).sites:
        print(site.tag, site.file, site.line, site.operation)
    sys.exit(0)
