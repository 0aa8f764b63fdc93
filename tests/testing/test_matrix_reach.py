"""Rows tell of what runs: drivers call nothing that only they call."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import treadle

SOURCE = Path(treadle.__file__).parent
DRIVERS = SOURCE / "testing" / "matrix"
FOR_OTHERS = {
    "treadle.delivery.channels.webhook.is_signed": "receivers check with it what was sent",
    "treadle.tools.call.with_hooks": "hosts run tools outside of turns with it",
}
"""Functions that the package itself does not call, and why drivers may."""


def name_of(file: Path) -> str:
    parts = ("treadle", *file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def sources() -> dict[str, str]:
    """The texts of the modules of the package, by name."""
    return {name_of(file): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(sources()[module])


@cache
def imports_of(module: str) -> tuple[tuple[str, str, str], ...]:
    """What a module imports from the package: where from, its name there, and its name here."""
    is_package = (SOURCE.parent / Path(*module.split(".")) / "__init__.py").exists()
    found = []
    for node in ast.walk(tree_of(module)):
        if not isinstance(node, ast.ImportFrom):
            continue
        parents = module.split(".")
        base = parents[: len(parents) - node.level + is_package] if node.level else []
        place = ".".join((*base, *filter(None, (node.module,))))
        found += [(place, alias.name, alias.asname or alias.name) for alias in node.names]
    return tuple(each for each in found if each[0].split(".")[0] == "treadle")


@cache
def home_of(module: str, name: str) -> str:
    """The module that defines what another one passes on under a name."""
    if module not in sources() or name in definitions(module):
        return module
    for place, original, here in imports_of(module):
        if here == name and place != module:
            return home_of(place, original)
    return module


@cache
def definitions(module: str) -> dict[str, ast.stmt]:
    """The functions and classes at the top of a module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: node for node in tree_of(module).body if isinstance(node, kinds)}


def reads(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
        for each in ast.walk(node)
    )


def is_used_by(module: str, home: str, name: str) -> bool:
    """Whether a module imports what another defines and uses it, also by its module's name."""
    for place, original, here in imports_of(module):
        if original == name and home_of(place, name) == home and reads(tree_of(module), here):
            return True
        if f"{place}.{original}" == home and f"{here}.{name}" in sources()[module]:
            return True
    return False


def is_used(home: str, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether the package uses what a module defines, outside of `testing`."""
    # Most modules are known to import nothing from there without being parsed.
    places = "|".join(re.escape(part) for part in home.split(".")[-2:])
    imports = re.compile(rf"\b(?:{places}|\.) import\b")
    for module, text in sources().items():
        outside = module != home and not module.startswith("treadle.testing")
        if outside and name in text and imports.search(text) and is_used_by(module, home, name):
            return True
    for node in tree_of(home).body:
        owner = getattr(node, "name", "")
        if owner in {name, *seen} or not reads(node, name):
            continue
        if owner not in definitions(home) or is_used(home, owner, seen | {name}):
            return True
    return False


def attributes_of(tree: ast.Module, name: str) -> set[str]:
    """What is read of a name, as in `outcome.classify`."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }


def taken_by(tree: ast.Module, imports: tuple[tuple[str, str, str], ...]) -> set[tuple[str, str]]:
    """The names that a module takes from the package, with the modules they come from."""
    taken = {(place, name) for place, name, _ in imports}
    for place, name, here in imports:
        if f"{place}.{name}" in sources():
            taken |= {(f"{place}.{name}", each) for each in attributes_of(tree, here)}
    return taken


def unreached(module: str) -> set[str]:
    """The functions that a module of drivers takes and that nothing else uses."""
    found = set()
    for place, name in taken_by(tree_of(module), imports_of(module)):
        home = home_of(place, name)
        if home.startswith("treadle.testing") or home not in sources():
            continue
        node = definitions(home).get(name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_used(home, name):
            found.add(f"{home}.{name}")
    return found


def test_a_driver_calls_only_what_turns_call_too():
    drivers = [name_of(file) for file in DRIVERS.rglob("*.py")]
    found = set().union(*map(unreached, drivers))
    assert found - set(FOR_OTHERS) == set(), (
        "drivers import functions that nothing outside treadle.testing uses: "
        "play the rows as turns, or delete rows and functions"
    )


def test_what_is_taken_by_the_name_of_its_module_counts_too():
    imports = (("treadle.delivery.channels", "webhook", "hook"),)
    taken = taken_by(ast.parse("hook.is_signed(body, header, secret)"), imports)
    assert ("treadle.delivery.channels.webhook", "is_signed") in taken


def test_a_function_that_only_drivers_import_is_found():
    assert "treadle.delivery.channels.webhook.is_signed" in unreached(
        "treadle.testing.matrix.drivers.delivery_rules"
    )
