"""What a piece of our code depends on: the definitions of ours that it refers to, and those that they refer to."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import exportcompat
from exportcompat import patches, registry

from ._normal_form import OPEN, NormalForm, entries, normal_form
from ._source_tree import Definition, SourceTree


@lru_cache(maxsize=1)
def own_source() -> SourceTree:
    """Return the source of the package that is running."""
    packages = (exportcompat, patches, registry)
    folders = {package.__name__: Path(package.__path__[0]) for package in packages}
    return SourceTree({**folders, "exportcompat.matrix": Path(__file__).parents[1]})


@dataclass(frozen=True)
class Part:
    """A definition, as far as something depends on it.

    Attributes:
        definition: the definition; with an empty name, what its module does besides, when it is imported.
        is_called: what it returns is called as well.
    """

    definition: Definition
    is_called: bool = True


class Dependencies:
    """What is needed for some definitions, in an order that depends on nothing but the code.

    Args:
        tree: the source.
        picks: of a table that has entries of these names, they alone count.
        left_out: names of definitions that do not count.
    """

    def __init__(self, tree: SourceTree, picks: Collection[str] = (), left_out: Collection[str] = ()) -> None:
        self._tree = tree
        self._picks = tuple(picks)
        self._left_out = left_out

    def walk(self, roots: Iterable[Part]) -> Iterator[tuple[Part, str]]:
        """Yield each part with its normal form, in which a reference is the number of what it leads to."""
        numbers = {part: number for number, part in enumerate(roots)}
        queue = list(numbers)
        for part in queue:
            form = self._form(part)
            texts = form.text.split(OPEN)
            for place, target in enumerate(self._targets(part, form)):
                if target.definition.name not in self._left_out:
                    texts[place] += f"<{_number(target, numbers, queue)}>"
            yield part, "".join(texts)
            beside = Part(Definition(part.definition.module, ""))
            if self._tree.module(part.definition.module).statements:
                _number(beside, numbers, queue)

    def digest(self, roots: Iterable[Part]) -> str:
        """Return a digest of all that is needed for some parts."""
        texts = (text for _, text in self.walk(roots))
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def _form(self, part: Part) -> NormalForm:
        name = (part.definition.module, part.definition.name, part.is_called, self._picks)
        if name not in self._tree.forms:
            picked = entries(self._tree, part.definition, self._picks) if self._picks else None
            self._tree.forms[name] = picked or normal_form(self._tree, part.definition, is_called=part.is_called)
        found: NormalForm = self._tree.forms[name]
        return found

    def _targets(self, part: Part, form: NormalForm) -> Iterator[Part]:
        """Yield what a part refers to. The methods of a class, and what a table holds, may be called by anybody."""
        for reference in form.references:
            yield Part(reference, part.is_called or not self._tree.is_function(reference))


def _number(part: Part, numbers: dict[Part, int], queue: list[Part]) -> int:
    if part not in numbers:
        numbers[part] = len(queue)
        queue.append(part)
    return numbers[part]
