"""Questions asked about a pool, a selection or a method, answered with values that can be read."""

from sightline.studies.health import Health, examine

__all__ = ["Health", "examine"]
