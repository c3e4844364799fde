"""What several rooms run on: processes, memory, files that are written whole, progress."""
