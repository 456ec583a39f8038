"""Every snippet of the README and of docs/ runs, in order, each file in a namespace of its own."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page: Path) -> None:
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for kind, code in BLOCK.findall(text):
        line = text[: text.index(code)].count("\n") + 1
        if kind == "python":
            padded = "\n" * (line - 1) + code  # so that errors show the page's own line numbers
            exec(compile(padded, str(page), "exec"), namespace)
        else:
            example = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), line)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            runner.run(example, clear_globs=False)
            namespace.update(example.globs)
            assert runner.failures == 0, f"{page.name}, the block at line {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
