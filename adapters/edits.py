"""Edits of a source tree at anchors: what adapters/*/upstream/apply share."""

import os
import sys


class Tree:
    """A tree whose files are edited in memory and written together: either all edits fit, or nothing is changed."""

    def __init__(self, root):
        self.root, self.texts = root, {}

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))

    def text(self, path):
        if path not in self.texts:
            try:
                with open(os.path.join(self.root, path), encoding="utf-8") as file:
                    self.texts[path] = file.read()
            except OSError as error:
                sys.exit(f"{error.filename}: {error.strerror}: is that the right tree?")
        return self.texts[path]

    def replace(self, path, old, new, times=1):
        """Exchanges `old`, which must be there so often."""
        found = self.text(path).count(old)
        if found != times:
            sys.exit(f"{path}: {found} times, not {times}: {old.strip()!r}: the tree has changed, or this has been applied")
        self.texts[path] = self.texts[path].replace(old, new)

    def append(self, path, new):
        self.texts[path] = self.text(path).rstrip("\n") + "\n" + new

    def add(self, path, text):
        if self.has(path):
            sys.exit(f"{path} is there already")
        self.texts[path] = text

    def write(self):
        for path, text in self.texts.items():
            with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
                file.write(text)
            print(path)
