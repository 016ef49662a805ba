"""The classes and packages that diagrams name exist in the code."""

import ast
import re
from functools import cache

import pytest

from controller.wire import apis
from controller.wire.admin.apis import ADMIN_APIS
from tools.pages import ROOT

PAGES = ("docs/design.md", "docs/stock-cluster-files.md")
NOT_CODE = {"ZooKeeper"}


def diagrams(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL)


@cache
def classes() -> set[str]:
    """All classes of the product code."""
    found = set()
    for package in ("controller", "eventstore", "replay"):
        for module in (ROOT / package).rglob("*.py"):
            tree = ast.parse(module.read_text(encoding="utf-8"))
            found |= {one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef)}
    return found


@pytest.mark.parametrize("page", PAGES)
def test_diagrams_name_classes_and_requests_that_exist(page: str) -> None:
    names = {
        name for diagram in diagrams(page) for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", diagram)
    }
    requests = {one.name for one in vars(apis).values() if isinstance(one, apis.Api)}
    requests |= {one.name for one in ADMIN_APIS.values()}
    unknown = names - classes() - requests - NOT_CODE
    assert names
    assert unknown == set()


def test_diagram_of_stock_cluster_files_names_packages_that_exist() -> None:
    [diagram, *_] = diagrams("docs/stock-cluster-files.md")
    packages = {"zookeeper_log", "broker_logs", "imports", "imported_log"}
    assert packages == set(re.findall(r"\b\w+_logs?\b|\bimports\b", diagram))
    assert all((ROOT / "replay/stock_clusters" / one).is_dir() for one in packages)
