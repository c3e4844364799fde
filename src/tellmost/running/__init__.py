"""Several rooms run on these: processes, memory, files that are written whole, progress."""
