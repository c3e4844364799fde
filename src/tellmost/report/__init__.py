"""Figures of selections, and pages that need nothing else."""
