"""``python -m tellmost`` is ``tellmost``."""

from tellmost.cli.ending import main

main()
