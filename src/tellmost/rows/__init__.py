"""Rows come from a source, and a pool makes float64 blocks of them."""
