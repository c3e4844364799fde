"""Thin adapters to other libraries, each behind an extra."""
