"""Clusters at default settings, as the tests of default_clusters have them."""

from tests.lab.default_clusters.conftest import scene, shared_lab, versions

__all__ = ["scene", "shared_lab", "versions"]
