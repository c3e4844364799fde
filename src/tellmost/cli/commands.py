"""The commands. What they need is imported when they run, so that help comes at once."""

from pathlib import Path
from typing import Annotated

import typer

from tellmost.cli import options
from tellmost.cli.ending import DONE

DemoFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")]


def demo(out: DemoFolder = Path("tellmost-demo"), debug: options.Debug = False) -> int:
    """Learn to tell handwritten 3, 6 and 9 apart, buying as few labels as possible.

    From 1,797 images of all ten digits (scikit-learn's) Tellmost chooses which to label, given
    thirty unlabelled images of 3, 6 and 9. Beside it: nearest neighbours and random choice, with a
    classifier's accuracy over five seeds. Writes picks, their images, a page and all numbers.
    """
    from tellmost.cli.demo import run_demo

    print(run_demo(out))
    return DONE
