"""``python -m sightline`` is ``sightline``."""

from sightline.cli.ending import main

main()
