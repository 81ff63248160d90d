"""Papers of the methods: BibTeX entries of ``papers.bib``, and citations in a sentence."""

from __future__ import annotations

import re
from importlib import resources

from fedkin import __version__
from fedkin.experiment.registry import target_of
from fedkin.report.numbers import join_words

_FEDKIN = f"""@software{{fedkin,
  author = {{{{The authors of fedkin}}}},
  title = {{{{fedkin: federated clustering and clustered federated learning}}}},
  version = {{{__version__}}},
}}"""


def papers_of(method: str) -> list[str]:
    """Return the BibTeX entries of a method's papers; kin-graph, local, declared and methods of one's own have none."""
    entries = resources.files("fedkin.studies").joinpath("papers.bib").read_text(encoding="utf-8").split("\n\n")[1:]
    return [entry.strip() for entry in entries if method in field(entry, "keywords").split(", ")]


def field(entry: str, name: str) -> str:
    """Return a field of a BibTeX entry, without the braces that keep its case."""
    match = re.search(rf"^  {name} = {{(.*)}},$", entry, re.MULTILINE)
    return "" if match is None else match[1].strip("{}")


def cite(method: str | None = None) -> str:
    """Return the BibTeX entries of a method's papers, if one is given, and that of fedkin.

    Raises FedkinError if the method does not exist.
    """
    if method is not None:
        target_of("method", method)
    return "\n\n".join([*([] if method is None else papers_of(method)), _FEDKIN])


def in_text(entry: str) -> str:
    """Return the citation of a BibTeX entry in a sentence, such as ``Dennis, Li and Smith, 2021``."""
    names = field(entry, "author").split(" and ")
    authors = f"{names[0]} et al." if len(names) > 3 or "others" in names else join_words(names)
    return f"{authors}, {field(entry, 'year')}"
