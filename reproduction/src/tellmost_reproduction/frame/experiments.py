"""Subjects: families of experiments that are run, compared and published in the same way."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tellmost_reproduction.catalogue import Outcome, Request
from tellmost_reproduction.frame.answering import PACKAGE, keep_answer
from tellmost_reproduction.frame.drawing import make_figure
from tellmost_reproduction.frame.folders import keep_text
from tellmost_reproduction.frame.numbers import (
    Agrees,
    Numbers,
    find_differences,
    is_reproduced,
    read_expected,
)
from tellmost_reproduction.frame.verdicts import Verdict, print_verdicts

ABOUT_LINK = "`expected.json`: the expected numbers, a link to the file in the package.\n"


@dataclass(frozen=True)
class Done:
    """An experiment that has been run and written into its folder."""

    name: str
    title: str
    text: str  # its tables, for a terminal
    verdicts: list[Verdict]
    numbers: Numbers
    seconds: float | None = None


@dataclass(frozen=True)
class Subject:
    """A family of experiments. ``reproduce`` is what the catalogue calls."""

    folder: str  # in the package; expected numbers are below it
    everything: str  # the name that stands for all of its experiments
    names: tuple[str, ...]
    run: Callable[[Sequence[str], Request], list[Done]]  # writes the folders too
    agrees: Agrees = is_reproduced
    uncompared: Collection[str] = ()  # methods and measures
    takes_rules: bool = False  # of the user

    def reproduce(self, name: str, request: Request) -> Outcome:
        """Run one experiment or all of them, and compare with the expected numbers."""
        if request.rules and not self.takes_rules:
            raise ValueError("--rule is for the Gaussian-process experiments (gp-...).")
        make_figure(1.0, 1.0)  # without matplotlib it ends here, not after the work
        done = self.run(self.names if name == self.everything else (name,), request)
        folders = [request.out / one.name for one in done]
        found = [None if request.is_smoke else self.differences(one) for one in done]
        text = "\n\n".join(map(describe, done, found))
        return Outcome(text, tuple(d for some in found for d in some or ()), tuple(folders))

    def differences(self, done: Done) -> list[str]:
        """Say where the numbers are not the expected ones."""
        expected = read_expected(self.folder, done.name)
        found = find_differences(
            done.numbers, expected, uncompared=self.uncompared, agrees=self.agrees
        )
        return [f"{done.name}: {difference}" for difference in found]

    def publish(self, done: Sequence[Done], repository: Path) -> None:
        """Keep numbers and verdicts of full runs, and renew the page that answers for all."""
        for one in done:
            expected = repository / PACKAGE / self.folder / "expected" / f"{one.name}.json"
            numbers = replace(one.numbers, verdicts=one.verdicts)
            keep_expected(numbers, expected, repository / "results" / one.name)
            print(describe(one, []), end="\n\n")
        keep_answer(repository)


def describe(done: Done, differences: Sequence[str] | None) -> str:
    """What is printed on a terminal. None means that nothing was compared."""
    agreement = (
        "smoke size: this says that the code runs, and nothing is compared"
        if differences is None
        else f"{len(differences)} numbers differ from the expected ones"
    )
    took = "" if done.seconds is None else f"; {done.seconds:.0f} s"
    verdicts = print_verdicts(done.verdicts)
    parts = [f"{done.name}: {done.title}", done.text, verdicts, f"{agreement}{took}"]
    return "\n\n".join(part for part in parts if part)


def keep_expected(numbers: Numbers, path: Path, folder: Path) -> None:
    """Write them into the package once. The folder gets a link, of which its page speaks."""
    link = folder / "expected.json"
    path.parent.mkdir(exist_ok=True)
    keep_text(numbers.to_json(), path)
    page = folder / "README.md"
    keep_text(f"{page.read_text(encoding='utf-8')}\n{ABOUT_LINK}", page)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(path, folder))
