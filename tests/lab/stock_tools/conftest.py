"""Clusters at default settings, as for the tests of default_clusters."""

from tests.lab.default_clusters.conftest import lab_cluster, shared_lab, versions

__all__ = ["lab_cluster", "shared_lab", "versions"]
