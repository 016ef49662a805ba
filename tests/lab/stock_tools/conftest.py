"""Clusters at default settings, as for the tests of default_clusters."""

from tests.lab.default_clusters.conftest import scene, shared_lab, versions

__all__ = ["scene", "shared_lab", "versions"]
