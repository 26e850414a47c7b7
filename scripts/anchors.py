"""The names that headings of a Markdown page have in links: `page.md#name`."""
import re


def without_code(text):
    """The text with code blanked, fenced, indented and in backticks; lines keep their numbers."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r"^```.*?^```[^\n]*$", blank, text, flags=re.M | re.S)
    text = re.sub(r"(?<=\n\n)(?:(?: {4}|\t)[^\n]*\n?|\n(?=(?: {4}|\t)))+", blank, text)
    return re.sub(r"`[^`\n]*`", blank, text)


def of(text):
    """In the order of the headings."""
    found, times = [], {}
    fenced = re.sub(r"^```.*?^```[^\n]*$", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.M | re.S)
    for heading in re.findall(r"^#{1,6} +(.*?)#* *$", fenced, re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).strip().replace(" ", "-")
        times[name] = times.get(name, -1) + 1
        found.append(f"{name}-{times[name]}" if times[name] else name)
    return found
