"""Mutants of conditions, all in one build: every site of the sources asks `mutant(N)` which of its forms to take.

`find(text)` reads a C file as this project writes C (declarations, statements, expressions; macros look like calls) and gives its
sites. `rewrite(text, sites)` is the same file, line for line, with the sites' other forms in it: `a < b` becomes
`(mutant(7) ? a <= b : a < b)`. What it cannot read it reports; nothing is passed over in silence.

Kinds: equal (== for !=), bound (< for <=), reverse (< for >=), not (! gone), truth (a plain condition turned round), operand (one of
&& or || gone), early (`if (...) return` that goes on), step (+ 1, ++, +=, added atomically: gone), flag (| FLAG, & MASK, a stored
constant: gone), call (a call for its effect: gone).

A comparison that only chooses between its two sides is no bound, for where they are equal either will do: `if (a > b) a = b;`,
`a < b ? a : b` and `a > b ? a - b : 0`, in each order, with sides that are plain integers, read without a call. IDLE_BOUNDS counts them.
Nor is `while (was < mine && !cas(..., &was, mine))`, which for equal sides stores what is there (IDLE_STORES), or a comparison of a
moment, one of whose sides reads the clock, now or just before: in that very tick either answer is right (MOMENTS).
"""
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<space>(?:\s+|/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)+)
  | (?P<string>(?:L|u8)?"(?:[^"\\\n]|\\.)*")
  | (?P<char>'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])
""", re.X | re.S | re.M)

LEVELS = {operator: level for level, operators in enumerate(
    ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")) for operator in operators.split()}
ASSIGN = set("= += -= *= /= %= &= |= ^= <<= >>=".split())
TYPE_WORDS = set("void char short int long unsigned signed float double bool const struct union enum static register extern "
                 "typedef ATOMIC _Alignas __typeof__ typeof ALIGNED FILE va_list cpu_set_t DIR".split())
WRAPPERS = {"LIKELY", "UNLIKELY", "__builtin_expect"}

# Names whose calls are no sites, nor anything in their arguments, each for its reason. The count of each reason is printed.
LEFT_OUT = {reason: set(names.split()) for reason, names in {
    "an assertion is itself a check": "ASSERT static_assert _Static_assert",
    "asks the processor for memory early or to wait a moment, changes nothing else": "prefetch_read prefetch_write os_pause",
    "tells the explorer or AddressSanitizer, nothing in an ordinary build": "plain_read plain_write poison unpoison PROBE handed_out "
                                                                       "given_back",
    "an order, which is a mutant of its own kind": "fence_acq fence_rel fence_sc fence_rmw_sc fence_compiler os_fence_light os_fence_heavy "
                                                   "os_settle_heavy weft_fence_light",
    "a constant for the compiler": "offsetof sizeof _Alignof __alignof__ UINT64_C UINT32_C __builtin_offsetof",
}.items()}
REASON = {name: reason for reason, names in LEFT_OUT.items() for name in names}
ADDS = re.compile(r"add_\w+$")
ORS = re.compile(r"or_\w+$")
ANDS = re.compile(r"and_\w+$")
STORES = re.compile(r"(weft_)?store_(rlx|rel|sc)$")
ATOMICS = re.compile(r"(load|store|cas|add|or|and|xchg)_(rlx|acq|rel|acq_rel|sc)$")
CONSTANT = re.compile(r"\(?(?:\(\w+\)\s*)?-?(?:\d\w*|true|false|[A-Z][A-Z0-9_]+(?:\([\w]+\))?)\)?$")


CLOCKS = re.compile(r"\bos_(?:ticks|now_ns)\(\)")
NOW = re.compile(r"\bnow_ns\b")
IDLE_STORES = "bounds of a stored maximum or minimum: where the sides are equal the same is stored"
MOMENTS = "bounds of a moment: in the very tick of a limit either side is right"
IDLE_BOUNDS = "bounds that choose between two values that are the same where the sides are equal"


class Unreadable(Exception):
    pass


@dataclasses.dataclass
class Node:
    kind: str  # name number string call unary postfix binary assign ternary cast paren member comma opaque statement
    begin: int
    end: int
    parts: list = dataclasses.field(default_factory=list)
    operator: str = ""
    alternatives: list = dataclasses.field(default_factory=list)  # (kind, text)
    suffix: list = dataclasses.field(default_factory=list)        # a kind; a condition that may be false in spite of itself
    effect: list = dataclasses.field(default_factory=list)        # a kind; a statement that may be left out
    idle: dict = dataclasses.field(default_factory=dict)          # {kind: why nobody can see it}


@dataclasses.dataclass
class Site:
    function: str
    line: int
    kind: str
    text: str    # as written
    other: str   # what the mutant has instead
    number: int = 0
    ordinal: int = 1
    idle: str = ""  # why nobody can see it

    def key(self):
        return f"{self.function} {self.kind} `{self.text}`" + (f" ({self.ordinal})" if self.ordinal > 1 else "")


def typedefs(text):
    names = set(re.findall(r"\btypedef\b[^;{]*?\(\*(\w+)\)\s*\(", text))
    names |= set(re.findall(r"\btypedef\b[^;{}()]*?\b(\w+)\s*;", text))
    names |= set(re.findall(r"\btypedef\b[^;{}()]*?\b(\w+)\(", text))
    names |= set(re.findall(r"\btypedef\s+(?:struct|union|enum)\b[^;{}]*{(?:[^{}]|{[^{}]*})*}\s*(\w+);", text))
    return names | set(re.findall(r"\btypedef\s+ATOMIC\([^;]*\)\s*(\w+);", text))


def floating(text):
    """Names of what is declared as floating point."""
    return set(re.findall(r"\b(?:float|double)\b[\s*]*(\w+)", text))


class Reader:
    def __init__(self, text, types, floats):
        self.text, self.types = text, types | TYPE_WORDS
        self.tokens = []
        at = 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise Unreadable(f"line {self.line(at)}: no token")
            if match.lastgroup != "space":
                self.tokens.append((match.lastgroup, match[0], match.start(), match.end()))
            at = match.end()
        self.tokens.append(("end", "", len(text), len(text)))
        self.at = 0
        self.left_out = {}
        self.floats = floats | floating(text)

    def line(self, offset):
        return self.text.count("\n", 0, offset) + 1

    # ---- tokens

    def word(self, ahead=0):
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)][1]

    def begin(self):
        return self.tokens[self.at][2]

    def last_end(self):
        return self.tokens[self.at - 1][3]

    def take(self, wanted=None):
        if wanted is not None and self.word() != wanted:
            raise Unreadable(f"line {self.line(self.begin())}: {self.word()!r} where {wanted!r} should be")
        if self.tokens[self.at][0] == "end":
            raise Unreadable("the file ends")
        self.at += 1
        return self.tokens[self.at - 1]

    def skip_pair(self):
        """From an opening mark to behind the one that closes it."""
        pairs = {"(": ")", "[": "]", "{": "}"}
        close = [pairs[self.take()[1]]]
        while close:
            word = self.take()[1]
            if word in pairs:
                close.append(pairs[word])
            elif word == close[-1]:
                close.pop()

    def is_type(self, ahead=0):
        kind, word = self.tokens[min(self.at + ahead, len(self.tokens) - 1)][:2]
        return kind == "name" and (word in self.types or word.endswith("_t"))

    # ---- expressions

    def leave_out(self, name):
        self.left_out[REASON[name]] = self.left_out.get(REASON[name], 0) + 1

    def primary(self):
        kind, word, begin, _ = self.tokens[self.at]
        if word == "(":
            if self.is_type(1):
                self.skip_pair()
                if self.word() == "{":
                    return Node("cast", begin, 0, [self.initializer()])
                return Node("cast", begin, 0, [self.unary()])
            if self.word(1) == "{":
                self.take()
                block = self.statement()
                self.take(")")
                return Node("paren", begin, 0, [block])
            self.take()
            inner = self.expression()
            self.take(")")
            return Node("paren", begin, 0, [inner])
        if kind == "string":
            while self.tokens[self.at][0] == "string" or (self.tokens[self.at][0] == "name" and self.word().startswith("PRI")):
                self.take()
            return Node("string", begin, 0)
        if kind in ("name", "number", "char"):
            self.take()
            return Node("number" if kind != "name" else "name", begin, 0)
        raise Unreadable(f"line {self.line(begin)}: {word!r} begins no expression")

    def close(self, node):
        node.end = self.last_end()
        return node

    def arguments(self, name):
        """Of a call; the opening mark is next."""
        parts = []
        if name in REASON or name == "__builtin_types_compatible_p":
            self.skip_pair()
            return parts
        self.take("(")
        while self.word() != ")":
            if self.is_type():
                begin = self.begin()
                while self.word() not in (",", ")"):
                    self.skip_pair() if self.word() in "([{" else self.take()
                parts.append(self.close(Node("opaque", begin, 0)))
            else:
                parts.append(self.assignment())
            if self.word() == ",":
                self.take()
        self.take(")")
        return parts

    def postfix(self):
        node = self.close(self.primary())
        while True:
            word, begin = self.word(), node.begin
            if word == "[":
                self.take()
                index = self.expression()
                self.take("]")
                node = Node("member", begin, 0, [node, index])
            elif word == "(":
                name = self.text[node.begin:node.end] if node.kind == "name" else ""
                if name in REASON:
                    self.leave_out(name)
                node = Node("call", begin, 0, [node, *self.arguments(name)], operator=name)
            elif word in (".", "->"):
                self.take()
                self.take()
                node = Node("member", begin, 0, [node])
            elif word in ("++", "--"):
                self.take()
                node = Node("postfix", begin, 0, [node], operator=word)
            else:
                return node
            self.close(node)

    def unary(self):
        word, begin = self.word(), self.begin()
        if word in ("sizeof", "_Alignof"):
            self.take()
            if self.word() == "(":
                self.skip_pair()
            else:
                while self.word() in ("*", "&"):
                    self.take()
                self.postfix()
            return self.close(Node("opaque", begin, 0))
        if word in ("!", "~", "-", "+", "*", "&", "++", "--", "__extension__"):
            self.take()
            return self.close(Node("unary", begin, 0, [self.unary()], operator=word))
        return self.postfix()

    def binary(self, level=0):
        left = self.unary()
        while self.word() in LEVELS and LEVELS[self.word()] >= level:
            operator = self.take()[1]
            right = self.binary(LEVELS[operator] + 1)
            left = self.close(Node("binary", left.begin, 0, [left, right], operator=operator))
        return left

    def assignment(self):
        if self.word() == "{":
            return self.initializer()
        left = self.binary()
        if self.word() == "?":
            self.take()
            middle = self.expression()
            self.take(":")
            right = self.assignment()
            return self.close(Node("ternary", left.begin, 0, [left, middle, right]))
        if self.word() in ASSIGN:
            operator = self.take()[1]
            right = self.assignment()
            return self.close(Node("assign", left.begin, 0, [left, right], operator=operator))
        return left

    def expression(self):
        node = self.assignment()
        while self.word() == ",":
            self.take()
            right = self.assignment()
            node = self.close(Node("comma", node.begin, 0, [node, right]))
        return node

    def initializer(self):
        """{...}; a designator's index is a constant."""
        begin, parts = self.begin(), []
        self.take("{")
        while self.word() != "}":
            if self.word() in (".", "["):
                while self.word() != "=":
                    self.skip_pair() if self.word() == "[" else self.take()
                self.take("=")
            parts.append(self.assignment())
            if self.word() == ",":
                self.take()
        self.take("}")
        return self.close(Node("opaque", begin, 0, parts))

    # ---- statements

    def declaration(self):
        """Up to its semicolon."""
        begin, parts = self.begin(), []
        is_constant = self.word() in ("static", "typedef", "extern", "enum") and self.word(2) != "="
        while self.word() != ";":
            if self.word() == "=" and not is_constant:
                self.take()
                parts.append(self.assignment())
            elif self.word() in ("(", "[", "{"):
                self.skip_pair()
            else:
                self.take()
        self.take(";")
        return self.close(Node("statement", begin, 0, parts, operator="declaration"))

    def paren(self):
        self.take("(")
        node = self.expression()
        self.take(")")
        return node

    def loop_for(self, begin):
        self.take("(")
        parts, condition = [], None
        if self.is_type():
            parts.append(self.declaration())
        else:
            if self.word() != ";":
                parts.append(self.expression())
            self.take(";")
        if self.word() != ";":
            condition = self.expression()
            parts.append(condition)
        self.take(";")
        if self.word() != ")":
            parts.append(self.expression())
        self.take(")")
        parts.append(self.statement())
        node = self.close(Node("statement", begin, 0, parts, operator="for"))
        node.condition = condition
        return node

    def statement(self):
        word, begin = self.word(), self.begin()
        if word == "{":
            self.take()
            parts = []
            while self.word() != "}":
                parts.append(self.statement())
            self.take("}")
            return self.close(Node("statement", begin, 0, parts, operator="block"))
        if word in ("if", "while", "switch"):
            self.take()
            parts = [self.paren(), self.statement()]
            if word == "if" and self.word() == "else":
                self.take()
                parts.append(self.statement())
            return self.close(Node("statement", begin, 0, parts, operator=word))
        if word == "do":
            self.take()
            parts = [self.statement()]
            self.take("while")
            parts.insert(0, self.paren())
            self.take(";")
            # in the order of the text
            node = self.close(Node("statement", begin, 0, parts[::-1], operator="do"))
            return node
        if word == "for":
            self.take()
            return self.loop_for(begin)
        if word in ("case", "default"):
            while self.take()[1] != ":":
                pass
            return self.close(Node("opaque", begin, 0))
        if word in ("return", "goto", "break", "continue"):
            self.take()
            parts = [] if self.word() == ";" or word != "return" else [self.assignment()]
            while self.word() != ";":
                self.take()
            self.take(";")
            return self.close(Node("statement", begin, 0, parts, operator="jump"))
        if word == ";":
            self.take()
            return self.close(Node("opaque", begin, 0))
        if word in ("__asm__", "asm"):
            while self.take()[1] != ";":
                pass
            return self.close(Node("opaque", begin, 0))
        if self.tokens[self.at][0] == "name" and self.word(1) == ":":
            self.take()
            self.take()
            return self.close(Node("opaque", begin, 0))
        if self.is_type() or word in ("_Static_assert", "static_assert"):
            return self.declaration()
        node = self.expression()
        if self.word() == ";":
            self.take()
        elif not (node.kind == "call" and node.operator.isupper()):
            raise Unreadable(f"line {self.line(self.begin())}: {self.word()!r} after an expression")
        return self.close(Node("statement", begin, 0, [node], operator="expression"))

    def functions(self):
        """(name, body) of each function that is defined here."""
        while self.tokens[self.at][0] != "end":
            if self.word() == "{":
                before = self.tokens[self.at - 1][1]
                if before == ")":
                    yield self.name_before(), self.statement()
                elif self.tokens[self.at - 1][0] == "string" and self.tokens[self.at - 2][1] == "extern":
                    self.take()  # extern "C" {
                else:
                    self.skip_pair()
            elif self.word() in ("(", "["):
                self.skip_pair()
            else:
                self.take()

    def name_before(self):
        depth, at = 0, self.at - 1
        while True:
            depth += {")": 1, "(": -1}.get(self.tokens[at][1], 0)
            at -= 1
            if depth == 0:
                return self.tokens[at][1]


# ---- mutants ------------------------------------------------------------------------------------------------------------


def one_line(text):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r"\s+", " ", text).strip()


class Marker:
    """Gives the nodes of a function their other forms."""

    def __init__(self, reader, body):
        self.reader = reader
        assigned = re.findall(r"\b(\w+) = ([^;]*)", reader.text[body.begin:body.end])
        self.clocks = {name for name, value in assigned if CLOCKS.search(value)}

    def source(self, node):
        return one_line(self.reader.text[node.begin:node.end])

    def core(self, node):
        """A condition without its parentheses and hints."""
        while True:
            if node.kind == "paren" and node.parts[0].kind != "statement":
                node = node.parts[0]
            elif node.kind == "call" and node.operator in WRAPPERS and len(node.parts) > 1:
                node = node.parts[1]
            else:
                return node

    def truth(self, node):
        core = self.core(node)
        if core.kind in ("number", "string", "assign", "comma") or (core.kind == "name" and self.source(core) in ("true", "false")):
            return
        if core.kind == "binary" and LEVELS[core.operator] in (0, 1, 5, 6):
            return
        if core.kind == "unary" and core.operator == "!":
            return
        text = self.source(core)
        core.alternatives.append(("truth", f"!({text})"))

    def expression(self, node):
        if node.kind == "binary":
            self.binary(node)
        elif node.kind == "unary" and node.operator == "!":
            node.alternatives.append(("not", f"!!({self.source(node.parts[0])})"))
        elif node.kind == "postfix" or (node.kind == "unary" and node.operator in ("++", "--")):
            node.alternatives.append(("step", f"({self.source(node.parts[0])})"))
        elif node.kind == "assign" and node.operator in ("+=", "-="):
            node.alternatives.append(("step", f"({self.source(node.parts[0])})"))
        elif node.kind == "assign" and node.operator in ("|=", "&="):
            node.alternatives.append(("flag", f"({self.source(node.parts[0])})"))
        elif node.kind == "ternary":
            self.truth(node.parts[0])
        elif node.kind == "call" and len(node.parts) > 2:
            self.atomic(node)

    def binary(self, node):
        left, right = (self.source(part) for part in node.parts)
        operator = node.operator
        if operator in ("==", "!="):
            node.alternatives.append(("equal", f"({left} {'!=' if operator == '==' else '=='} {right})"))
        elif operator in ("<", ">", "<=", ">="):
            other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[operator]
            reverse = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
            node.alternatives.append(("bound", f"({left} {other} {right})"))
            node.alternatives.append(("reverse", f"({left} {reverse} {right})"))
        elif operator in ("&&", "||"):
            node.alternatives.append(("operand", f"!!({left})"))
            inner = node.parts[0]
            if not (inner.kind == "binary" and inner.operator == operator):
                node.alternatives.append(("operand", f"!!({right})"))
        elif operator in ("+", "-") and re.fullmatch(r"1[uUlL]*", right):
            node.alternatives.append(("step", f"({left})"))
        elif operator == "+" and re.fullmatch(r"1[uUlL]*", left):
            node.alternatives.append(("step", f"({right})"))
        elif operator in ("|", "&"):
            if re.fullmatch(r"~?\(?[A-Z][A-Z0-9_|& ]*\)?", right):
                node.alternatives.append(("flag", f"({left})"))
            elif operator == "|" and re.fullmatch(r"[A-Z][A-Z0-9_]*", left):
                node.alternatives.append(("flag", f"({right})"))

    def atomic(self, node):
        name, last = node.operator, node.parts[-1]
        if not ATOMICS.match(name) or last.alternatives:
            return
        if ADDS.match(name):
            last.alternatives.append(("step", "0"))
        elif ORS.match(name):
            last.alternatives.append(("flag", "0"))
        elif ANDS.match(name):
            last.alternatives.append(("flag", "~UINT64_C(0)"))

    def effect(self, statement):
        """An expression that is a statement."""
        node = statement.parts[0]
        if node.kind == "cast":  # (void)call(...)
            return
        if node.kind == "call":
            name = node.operator
            if STORES.match(name):
                if CONSTANT.match(self.source(node.parts[-1])):
                    statement.effect.append("flag")
            elif name == "count_one" or name == "count_up":
                statement.effect.append("step")
            elif name not in REASON and not ATOMICS.match(name) and not name.isupper():
                statement.effect.append("call")
        elif node.kind == "assign" and node.operator == "=" and node.parts[0].kind in ("member", "unary"):
            if CONSTANT.match(self.source(node.parts[1])):
                statement.effect.append("flag")

    def is_plain(self, node):
        """Read twice it is the same, and where two of them are equal one is the other: no call, no change, no floating point."""
        text = self.source(node)
        if node.kind == "name":
            return text not in self.reader.floats
        if node.kind == "number":
            return re.fullmatch(r"0[xX][0-9a-fA-F]+[uUlL]*|[0-9]+[uUlL]*", text) is not None
        if node.kind == "unary" and node.operator not in "*-~+":
            return False
        if node.kind == "member":
            name = re.search(r"(\w+)$", text)
            return all(map(self.is_plain, node.parts)) and not (name and name[1] in self.reader.floats)
        return node.kind in ("paren", "unary", "binary") and all(map(self.is_plain, node.parts))

    def sides(self, node):
        """Of a comparison by size of two plain integers: {the one, the other} as written; else None."""
        if node.kind != "binary" or node.operator not in ("<", ">", "<=", ">=") or not all(map(self.is_plain, node.parts)):
            return None
        return {self.source(self.core(part)) for part in node.parts}

    def is_difference(self, node, sides):
        """Of the two, whichever is the larger."""
        core = self.core(node)
        return core.kind == "binary" and core.operator == "-" and {self.source(self.core(part)) for part in core.parts} == sides

    def drop(self, node, reason):
        """Its bound. It keeps its number, so that what is built stays as it is."""
        if any(kind == "bound" for kind, _ in node.alternatives) and "bound" not in node.idle:
            node.idle["bound"] = reason
            self.reader.left_out[reason] = self.reader.left_out.get(reason, 0) + 1

    def drop_moment(self, node):
        """A comparison of the clock with something other than a number. One with 0 tells whether there is a moment at all."""
        if node.operator not in ("<", ">", "<=", ">="):
            return
        texts = [self.source(self.core(part)) for part in node.parts]
        if any(part.kind == "number" for part in map(self.core, node.parts)):
            return
        if any(CLOCKS.search(text) or NOW.search(text) or set(re.findall(r"\w+", text)) & self.clocks for text in texts):
            self.drop(node, MOMENTS)

    def drop_maximum(self, node):
        """`a < b && !cas_x(TAG, to, &a, b)`."""
        if node.operator != "&&":
            return
        left, right = self.core(node.parts[0]), self.core(node.parts[1])
        call = self.core(right.parts[0]) if right.kind == "unary" and right.operator == "!" else right
        if left.kind != "binary" or left.operator not in ("<", ">", "<=", ">=") or call.kind != "call" or not call.operator.startswith("cas_"):
            return
        old, new = (self.source(part) for part in call.parts[-2:])
        if {f"&{self.source(left.parts[0])}", self.source(left.parts[1])} == {old, new} or \
                {f"&{self.source(left.parts[1])}", self.source(left.parts[0])} == {old, new}:
            self.drop(left, IDLE_STORES)

    def drop_bound(self, condition, *chosen):
        """Where the sides of the condition are equal, it only decides which of the two is taken, or their difference or 0: no mutant."""
        core, texts = self.core(condition), {self.source(self.core(part)) for part in chosen}
        sides = self.sides(core)
        if sides is None or len(sides) != 2:
            return
        if texts == sides or ("0" in texts and any(self.is_difference(part, sides) for part in chosen)):
            self.drop(core, IDLE_BOUNDS)

    def drop_choice(self, node):
        """`if (a > b) a = b;`, with or without braces."""
        body = node.parts[1]
        if body.operator == "block" and len(body.parts) == 1:
            body = body.parts[0]
        if len(node.parts) == 2 and body.operator == "expression" and body.parts[0].kind == "assign" and body.parts[0].operator == "=":
            self.drop_bound(node.parts[0], *body.parts[0].parts)

    def is_jump(self, node):
        if node.kind != "statement":
            return False
        if node.operator == "block":
            return bool(node.parts) and self.is_jump(node.parts[-1])
        return node.operator == "jump"

    def walk(self, node):
        for part in node.parts:
            self.walk(part)
        if node.kind == "ternary":
            self.drop_bound(*node.parts)
        if node.kind == "statement":
            if node.operator == "if":
                self.truth(node.parts[0])
                self.drop_choice(node)
                if len(node.parts) == 2 and self.is_jump(node.parts[1]):
                    node.parts[0].suffix.append("early")
            elif node.operator == "while":
                self.truth(node.parts[0])
            elif node.operator == "do":
                self.truth(node.parts[-1])
            elif node.operator == "for" and node.condition is not None:
                self.truth(node.condition)
            elif node.operator == "expression":
                self.effect(node)
        else:
            self.expression(node)
            if node.kind == "binary":
                self.drop_moment(node)
                self.drop_maximum(node)


FOR_SANITIZER = "in a part that is compiled for AddressSanitizer alone"


def is_for_sanitizer(text, line):
    """Between `#if defined(WEFT_POISONS)` and the #else or #endif that follows."""
    directives = re.findall(r"^#(if.*|el.*|endif)", "\n".join(text.split("\n")[:line]), re.M)
    return bool(directives) and directives[-1].startswith("if defined(WEFT_POISONS)")


def find(text, types, wanted=lambda name: True, floats=frozenset()):
    """(function bodies with their marks, sites in their order, {reason: what was left out})"""
    reader = Reader(text, types, floats)
    bodies, sites = [], []
    for name, body in reader.functions():
        if not wanted(name):
            continue
        Marker(reader, body).walk(body)
        bodies.append(body)
        collect(reader, body, name, sites)
    seen = {}
    for site in sites:
        key = (site.function, site.kind, site.text)
        site.ordinal = seen[key] = seen.get(key, 0) + 1
    return bodies, sites, reader.left_out


def collect(reader, node, function, sites):
    source = reader.text[node.begin:node.end]
    if re.search(r"^[ \t]*#", source, re.M):
        node.alternatives.clear()
    node.numbers = []
    others = [*node.alternatives, *((kind, "false") for kind in node.suffix), *((kind, "left out") for kind in node.effect)]
    for kind, other in others:
        site = Site(function, reader.line(node.begin), kind, one_line(source).rstrip(";"), other, idle=node.idle.get(kind, ""))
        node.numbers.append(site)
        sites.append(site)
    for part in node.parts:
        collect(reader, part, function, sites)


def render(text, node):
    out, at = [], node.begin
    for part in sorted(node.parts, key=lambda part: part.begin):
        out += [text[at:part.begin], render(text, part)]
        at = part.end
    base = "".join([*out, text[at:node.end]])
    numbers = iter(node.numbers)
    chosen = "".join(f"mutant({next(numbers).number}) ? {other} : " for _, other in node.alternatives)
    if chosen:
        base = f"({chosen}({base}))"
    for _ in node.suffix:
        base = f"({base}) && !mutant({next(numbers).number})"
    for _ in node.effect:
        base = f"if (mutant({next(numbers).number})) {{}} else {base}"
    return base


def rewrite(text, bodies):
    out, at = [], 0
    for body in bodies:
        out += [text[at:body.begin], render(text, body)]
        at = body.end
    return "".join([*out, text[at:]])
