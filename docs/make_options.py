"""Fills the lists of options on the pages of methods, scenarios and experiments: ``python docs/make_options.py``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from fedkin.core.options import Option, first_sentences, options_of
from fedkin.experiment import registry, sections
from fedkin.experiment.option_models import FROM_DATA, options_of_section

_DOCS = Path(__file__).parent
_BETWEEN = re.compile(r"(?<=<!-- options -->\n).*?(?=<!-- /options -->)", re.DOTALL)

_MANY_WORDS = 400
"""Length from which a list of options leaves meanings to the reference: method pages have 700 words."""
_SENTENCE_END = re.compile(r"(?<=[.])(?<!\bal\.)(?<!\beq\.)\s+(?=[A-Z\"`])")

_SHARED = {"scfc": "ccfc", "ppfc-gan": "sda-fc"}
"""Methods that are another one with a part exchanged, with the other one."""

INDEX = _DOCS / "methods" / "index.md"
"""The page of all methods, which has the options of several."""

SCENARIOS = _DOCS / "scenarios.md"
"""The page of all scenarios."""
EXPERIMENTS = _DOCS / "experiments.md"
"""The page of an experiment's other sections."""


def filled(name: str) -> str:
    """The page of a method with its options as the method has them now; those of another page by name alone."""
    options, other = options_of(registry.resolve("method", name)), _page_with_the_rest(name)
    if other is None:
        return _with_lists(page_of(name), _own_and_several(options))
    there = {_looks(option): option.default for option in options_of(registry.resolve("method", other))}
    rest = [option for option in options if _looks(option) in there]
    changed = [f"`{option.name} = {option.default_text}`" for option in rest if option.default != there[_looks(option)]]
    named = "" if len(rest) == len(there) else f": {', '.join(f'`{option.name}`' for option in rest)}"
    text = f"{'those' if named else 'all'} of [{other}]({other}.md#options){named}"
    text += f". Other defaults here: {', '.join(changed)}." if changed else "."
    own = [option for option in options if option not in rest]
    listed = f"{_own_and_several(own)}\n\nAnd {text}" if own else f"{text[0].upper()}{text[1:]}"
    return _with_lists(page_of(name), listed)


def filled_index() -> str:
    """The page of all methods with the options of several of them."""
    return _with_lists(INDEX, _listed([*_of_several().values()], default=False))


@cache
def _of_several() -> dict[tuple[str, str, str], Option]:
    """Options that need a long description and look alike in three methods or more, those of other pages aside."""
    pages = [name for name in registry.METHODS if name not in _SHARED]
    options = [option for name in pages for option in options_of(registry.resolve("method", name))]
    common = {_looks(option) for option in options_of(registry.resolve("method", "fedavg"))}
    times = Counter(map(_looks, options))
    return {
        _looks(option): option
        for option in options
        if times[_looks(option)] > 2 and len(option.meaning.split()) > 20 and _looks(option) not in common
    }


def _own_and_several(options: Sequence[Option]) -> str:
    """A method's options; those of several methods by name and default."""
    several = [f"`{option.name} = {option.default_text}`" for option in options if _looks(option) in _of_several()]
    text = _listed([option for option in options if _looks(option) not in _of_several()], short=True)
    if len(text.split()) > _MANY_WORDS:
        return f"{', '.join(f'`{option.name} = {option.default_text}`' for option in options)}."
    return f"{text}\n\n[Of several methods](index.md#options-of-several): {', '.join(several)}." if several else text


def _page_with_the_rest(name: str) -> str | None:
    """The method on whose page the options are that several share."""
    if name in _SHARED:
        return _SHARED[name]
    return "fedavg" if name != "fedavg" and registry.resolve("method", name).traits.clusters == "clients" else None


def _looks(option: Option) -> tuple[str, str, str]:
    """All of an option but its default."""
    return option.name, option.allowed, option.meaning


def filled_scenarios() -> str:
    """The page of the scenarios with each one's options as it has them now; those that several have come first."""
    made = {name: registry.resolve("scenario", name) for name in registry.SCENARIOS}
    times = Counter(_looks(option) for one in made.values() for option in _own(one))
    common = {_looks(option): option for one in made.values() for option in _own(one) if times[_looks(option)] > 1}
    parts = [f"## Options of several\n\n{_listed([*common.values()], default=False, short=True)}"]
    for name, one in made.items():
        shared = [f"`{o.name} = {o.default_text}`" for o in _own(one) if _looks(o) in common]
        rest = [option for option in _own(one) if _looks(option) not in common]
        parts.append(f"## {name}\n\n{_as_markdown(first_sentences(one))}")
        if shared:
            parts.append(f"Options of several: {', '.join(shared)}.")
        if rest:
            parts.append(_listed(rest, short=True))
    return _with_lists(SCENARIOS, "\n\n".join(parts))


def filled_experiments() -> str:
    """The page of experiments with the options of each section as it has them now."""
    parts = []
    for name in ("data", "engine", "federation", "evaluation", "target", "tracking"):
        section = getattr(sections, f"{name.capitalize()}Section")
        about = _as_markdown(first_sentences(section)).partition(": ")[2]
        text = f"{about[0].upper()}{about[1:].partition(', see')[0].partition('; see')[0].rstrip('.')}."
        parts.append(f"## {name}\n\n{text}\n\n{_listed(options_of_section(section), short=True)}")
    return _with_lists(EXPERIMENTS, "\n\n".join(parts))


def page_of(name: str) -> Path:
    """The file of a method's page."""
    return _DOCS / "methods" / f"{name}.md"


def _with_lists(page: Path, lists: str) -> str:
    text, places = _BETWEEN.subn(lambda _: f"\n{lists}\n\n", page.read_text())
    if places != 1:
        raise ValueError(f"{page} has {places} places for options; it needs one.")
    return text


def _listed(options: Sequence[Option], default: bool = True, short: bool = False) -> str:
    """Options with their default, what they take and their meaning, or its first sentence."""
    heads = [f"{each.name} = {each.default_text}" if default and each.default_text else each.name for each in options]
    return "\n".join(
        f"* `{head}` (`{each.allowed}`): {_first_sentence(each.meaning) if short else each.meaning}"
        for head, each in zip(heads, options, strict=True)
    )


def _first_sentence(text: str) -> str:
    """The first sentence that says something; the reference has the others."""
    parts = _SENTENCE_END.split(text)
    return parts[0] if len(parts[0].split()) > 3 else " ".join(parts[:2])


def _own(scenario: type) -> list[Option]:
    """The options of a scenario, less those that the section ``[data]`` gives."""
    return [option for option in options_of(scenario) if option.name not in FROM_DATA]


def _as_markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    for method in registry.METHODS:
        page_of(method).write_text(filled(method))
    INDEX.write_text(filled_index())
    SCENARIOS.write_text(filled_scenarios())
    EXPERIMENTS.write_text(filled_experiments())
