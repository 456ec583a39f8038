"""Pytrees: nested tuples, lists, dicts and registered classes with values at the leaves, by way of optree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import optree

__all__ = [
    "flatten", "flatten_arguments", "flatten_with_paths", "leaves_of", "map_leaves", "paths_of",
    "structure_of", "unflatten",
]  # fmt: skip


def flatten(
    tree: Any, *, none_is_leaf: bool = False, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Any]:
    """The leaves of a pytree in order, and its structure."""
    leaves, structure = optree.tree_flatten(tree, is_leaf=is_leaf, none_is_leaf=none_is_leaf)
    return leaves, structure


def flatten_with_paths(tree: Any) -> tuple[list[str], list[Any], Any]:
    """As `flatten`, and for each leaf how it is reached from the root: `[0]['w']`."""
    paths, leaves, structure = optree.tree_flatten_with_path(tree)
    return ["".join(f"[{step!r}]" for step in path) for path in paths], leaves, structure


def flatten_arguments(args: tuple[Any, ...]) -> tuple[list[str], list[Any], Any]:
    """The arguments of a call, flattened; each leaf with how errors call it: `argument 0['w']`."""
    tree: Any = args
    paths, leaves, structure = optree.tree_flatten_with_path(tree)
    names = [f"argument {path[0]}{''.join(f'[{step!r}]' for step in path[1:])}" for path in paths]
    return names, leaves, structure


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """A pytree of this structure with other leaves."""
    return optree.tree_unflatten(structure, leaves)


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of a pytree in order."""
    return optree.tree_leaves(tree)


def structure_of(tree: Any, *, none_is_leaf: bool = False) -> Any:
    """The structure of a pytree; structures compare equal when they are the same nesting."""
    return optree.tree_structure(tree, none_is_leaf=none_is_leaf)


def paths_of(structure: Any) -> list[tuple[Any, ...]]:
    """How each leaf of a structure is reached from the root."""
    return [tuple(path) for path in optree.treespec_paths(structure)]


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same pytree with `function` of each leaf."""
    return optree.tree_map(function, tree)
