"""Experiments as code, each run as a module."""
