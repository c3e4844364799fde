"""Selections from files that the workers of a cluster hold between them."""

from tellmost.cluster.ray_cluster import Ray

__all__ = ["Ray"]
