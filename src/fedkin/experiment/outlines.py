"""Options of methods and scenarios as their source declares them, without importing it.

Modules of methods import torch, which takes seconds; a mistyped option is refused before. An outline of a class has its
fields with their types and defaults, its docstring, and its traits; it has no functions.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import re
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import fedkin

_ROOT = fedkin.__name__
_LIGHT = (f"{_ROOT}.core.method", f"{_ROOT}.data.options")
"""Modules that are imported instead of read, as they do not import torch: the base class of methods needs its code."""


@functools.cache
def outline(target: str) -> type[Any]:
    """Return the outline of a dataclass of fedkin, ``module:Class``: a class that is never instantiated."""
    module, _, name = target.partition(":")
    declared = _bindings(module)[name]
    assert isinstance(declared, ast.ClassDef)
    bases = [_evaluated(module, base.value if isinstance(base, ast.Subscript) else base) for base in declared.bases]
    parents = tuple(base for base in bases if isinstance(base, type) and base.__module__.partition(".")[0] == _ROOT)
    attributes: dict[str, Any] = {"__module__": module, "__qualname__": name, "__doc__": ast.get_docstring(declared)}
    hints: dict[str, Any] = {}
    for key, annotation, value in _declarations(declared):
        if annotation is not None and "ClassVar" not in ast.unparse(annotation):
            hints[key] = _evaluated(module, annotation)
            if value is not None:
                attributes[key] = _evaluated(module, value)
        elif key == "traits" and value is not None:
            attributes[key] = _evaluated(module, value)
    made = types.new_class(name, parents, {}, lambda body: body.update(attributes, __annotations__=hints))
    is_dataclass = any("dataclass" in ast.unparse(decorator) for decorator in declared.decorator_list)
    return dataclasses.dataclass(init=False, repr=False, eq=False)(made) if is_dataclass else made


def _declarations(declared: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    """Yield the names that a class's body binds, each with its annotation and value, as far as there are any."""
    for line in declared.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id, line.annotation, line.value
        elif isinstance(line, ast.Assign):
            yield from ((name.id, None, line.value) for name in line.targets if isinstance(name, ast.Name))


@functools.cache
def _bindings(module: str) -> dict[str, ast.stmt]:
    """Return by name the statement that binds it in a module of fedkin, also for type checkers only."""
    body = ast.parse(_file(module).read_text(encoding="utf-8")).body
    found: dict[str, ast.stmt] = {}
    for line in [*body, *(inner for outer in body if isinstance(outer, ast.If) for inner in outer.body)]:
        if isinstance(line, ast.ClassDef):
            found[line.name] = line
        elif isinstance(line, ast.Assign | ast.AnnAssign):
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            found |= {name.id: line for name in targets if isinstance(name, ast.Name)}
        elif isinstance(line, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name: line for alias in line.names}
    return found


def _file(module: str) -> Path:
    path = Path(fedkin.__path__[0]).joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


@functools.cache
def is_declared(field: str) -> bool:
    """Return whether any class of fedkin may declare a field of this name: parsing all that might takes 0.2 s."""
    line = re.compile(rf"^    {re.escape(field)}: ", re.MULTILINE)
    return any(line.search(path.read_text(encoding="utf-8")) for path in Path(fedkin.__path__[0]).rglob("*.py"))


class _Names(dict[str, Any]):
    """The names of a module, each looked up when an expression needs it."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = module

    def __missing__(self, name: str) -> Any:
        line = _bindings(self.module).get(name)
        if isinstance(line, ast.ClassDef):
            return outline(f"{self.module}:{name}")
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
            return _evaluated(self.module, line.value)
        if isinstance(line, ast.Import):
            return import_module(next(alias.name for alias in line.names if name in (alias.asname, alias.name)))
        if not isinstance(line, ast.ImportFrom):
            return getattr(builtins, name)
        original = next(alias.name for alias in line.names if (alias.asname or alias.name) == name)
        source = line.module or ""
        if source.partition(".")[0] == _ROOT and source not in _LIGHT:
            is_module = _file(f"{source}.{original}").is_file()
            return _Module(f"{source}.{original}") if is_module else _Names(source)[original]
        return Any if source.partition(".")[0] == "torch" else getattr(import_module(source), original)


class _Module:
    """A module whose names are attributes, in the place of an imported one."""

    def __init__(self, module: str) -> None:
        self._names = _Names(module)

    def __getattr__(self, name: str) -> Any:
        return self._names[name]


def _evaluated(module: str, expression: ast.expr) -> Any:
    """Evaluate an expression of a module, such as a type; types of torch, which no option has, are ``Any``."""
    if isinstance(expression, ast.Constant):
        return expression.value
    return eval(compile(ast.Expression(expression), module, "eval"), {}, _Names(module))
