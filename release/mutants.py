"""Change the source in one place at a time, and count the changes that no test notices.

    python release/mutants.py --map --lines lines.json tests/rules tests/posterior
    python release/mutants.py --rooms rules posterior --sample 200 --seed 0 --workers 16
    python release/mutants.py --again mutants.json   # those that survived, in the source of now

The first command needs pytest-cov. It notes which tests execute each line. The others run only
these tests, in copies of the tree, and stop at the first that fails. Tests that fail in the
source as it is are left out.
"""

import argparse
import ast
import copy
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = "src/tellmost"
COPIED = ("src", "tests", "reproduction/src", "pyproject.toml")
PRELOADED = ("torch", "numpy", "hypothesis", "pytest")  # once, and not in every process
MARKS = "not (browser or starts_ray or service or builds_site or kernels)"

LONGEST = 120.0  # seconds that one mutant may run; one that hangs is noticed
MEMORY = 16 << 30  # bytes of addresses of one process

COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
CALCULATED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITE = {"min": "max", "argmin": "argmax", "amin": "amax", "minimum": "maximum", "any": "all"}
OPPOSITE |= {"ceil": "floor", "cummin": "cummax", "isfinite": "isinf", "zeros": "ones"}
OPPOSITE |= {"zeros_like": "ones_like", "union": "intersection"}
OPPOSITE |= {after: before for before, after in OPPOSITE.items()}


@dataclass(frozen=True)
class Mutant:
    """A change of a file: ``before``, at an offset of its bytes, becomes ``after``."""

    room: str
    file: str
    line: int
    executed: tuple[int, int]  # the first and the last line whose tests execute it
    offset: int
    before: str
    after: str

    def apply(self, text: bytes) -> bytes:
        end = self.offset + len(self.before.encode())
        return text[: self.offset] + self.after.encode() + text[end:]


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one thing in it changed, in each way that there is."""

    def changed(**fields: Any) -> ast.AST:
        new = copy.deepcopy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        return new

    match node:
        case ast.Compare(ops=[operator]):
            yield from (changed(ops=[other()]) for other in COMPARED[type(operator)])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in CALCULATED:
            yield changed(op=CALCULATED[type(operator)]())
        case ast.BoolOp(op=operator):
            yield changed(op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield changed(value=not value)
        case ast.Constant(value=int() | float() as value):
            yield changed(value=value + 1 if isinstance(value, int) or not value else value * 2)
        case ast.Return(value=ast.expr() as value) if not is_none(value):
            yield changed(value=ast.Constant(None))
        case ast.Call(func=ast.Attribute(attr=name)) if name in OPPOSITE:
            yield changed(func=ast.Attribute(node.func.value, OPPOSITE[name]))
        case ast.Call(func=ast.Name(id=name)) if name in OPPOSITE:
            yield changed(func=ast.Name(OPPOSITE[name]))
        case ast.Call(args=[first, second], keywords=[]) if not is_type_test(node):
            yield changed(args=[second, first])
    if isinstance(node, (ast.Expr, ast.AugAssign, ast.Raise)):
        yield ast.Pass()


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_type_test(node: ast.Call) -> bool:
    """Swapped arguments of these are noticed at once."""
    return isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "getattr", "cast")


def visited(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that matter: no annotation, no text, no docstring, and nothing that prints."""
    match node:
        case ast.FunctionDef(name="__repr__" | "__str__") | ast.JoinedStr() | ast.Import():
            return
        case ast.Expr(value=ast.Constant() | ast.Yield()) | ast.ImportFrom():
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Raise():
            yield node
            return
        case ast.Call(func=ast.Attribute(attr="warn")):
            return
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from visited(child)


def mutants_of(path: Path, room: str) -> Iterator[Mutant]:
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    executed = executed_with(tree)
    for node in visited(tree):
        for other in changes(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            before, after = text[begin:end].decode(), ast.unparse(ast.fix_missing_locations(other))
            after = f"({after})" if isinstance(node, ast.expr) else after
            file, lines = str(path.relative_to(ROOT)), executed[node.lineno]
            yield Mutant(room, file, node.lineno, lines, begin, before, after)


def executed_with(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """The lines of the statement that each line belongs to; of a whole function for its head."""
    executed = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
            of = (node.lineno, node.end_lineno if isinstance(node, ast.FunctionDef) else last)
            executed |= dict.fromkeys(range(node.lineno, last + 1), of)
    return executed


def sampled(rooms: Sequence[str], sample: int, seed: int) -> list[Mutant]:
    """So many of each room, the rooms in turn."""
    by_room = []
    for room in rooms:
        files = sorted((ROOT / SOURCE / room).rglob("*.py"))
        every = [mutant for file in files for mutant in mutants_of(file, room)]
        by_room.append(random.Random(f"{seed} {room}").sample(every, min(sample, len(every))))
    longest = max(map(len, by_room))
    return [some[i] for i in range(longest) for some in by_room if i < len(some)]


def survivors(path: Path) -> list[Mutant]:
    """The mutants in a file of results that survived and whose text the source still has."""
    found = []
    for result in json.loads(path.read_text())["mutants"]:
        alike = [
            mutant
            for mutant in mutants_of(ROOT / result["file"], result["room"])
            if (mutant.before, mutant.after) == (result["before"], result["after"])
        ]
        if result["by"] is None and alike:
            found.append(min(alike, key=lambda mutant: abs(mutant.line - result["line"])))
    return found


class Tests:
    """The tests that execute a line, those that say much in little time first."""

    def __init__(self, lines: Path, longest: float) -> None:
        self.longest = longest  # seconds of tests for one mutant, by the durations in the map
        known = json.loads(lines.read_text())
        self.ids: list[str] = known["tests"]
        self.seconds: list[float] = known["seconds"]
        sets = known["sets"]
        self.of_line: dict[str, dict[str, list[int]]] = {
            file: {line: sets[place] for line, place in of.items()}
            for file, of in known["lines"].items()
        }
        self.failing: set[int] = set()

    def of(self, mutant: Mutant) -> list[int]:
        """One case of each test function comes before the second of any."""
        known = self.of_line.get(mutant.file, {})
        first, last = mutant.executed
        found = {test for line in range(first, last + 1) for test in known.get(str(line), ())}
        found = (found or self.of_name(mutant)) - self.failing
        cases: dict[str, int] = defaultdict(int)
        ranked = []
        for test in sorted(found, key=lambda test: self.seconds[test]):
            function = self.ids[test].split("[")[0]
            ranked.append((cases[function], self.seconds[test], test))
            cases[function] += 1
        chosen, total = [], 0.0
        for _, seconds, test in sorted(ranked):
            if total + seconds > self.longest and chosen:
                break
            chosen.append(test)
            total += seconds
        return chosen

    def of_name(self, mutant: Mutant) -> set[int]:
        """For what is executed at import: the tests of the lines that name what it sets."""
        line = (ROOT / mutant.file).read_text().splitlines()[mutant.line - 1]
        named = re.match(r"\s*(\w+)\b.*=", line)
        found: set[int] = set()
        for file, known in self.of_line.items():
            texts = (ROOT / file).read_text().splitlines()
            for number, tests in known.items():
                if named and re.search(rf"\b{named[1]}\b", texts[int(number) - 1]):
                    found.update(tests)
        return found or {t for some in self.of_line.get(mutant.file, {}).values() for t in some}


class Chosen:
    """A plugin of pytest: it runs the chosen tests, in their order, and notes what failed."""

    def __init__(self, ids: Sequence[str], failures: Path) -> None:
        self.ids = ids
        self.failures = failures

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self.ids if name in found]

    def note(self, name: str) -> None:
        with self.failures.open("a") as file:
            file.write(name + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.note(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.note(f"collection of {report.nodeid}")


class Place:
    """A copy of the tree, where one process at a time runs tests."""

    def __init__(self, number: int, home: Path) -> None:
        self.root = home / str(number)
        self.failures = home / f"{number}.failures"
        for name in COPIED:
            target = self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            copier = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            copier(ROOT / name, target)
        self.stamp = 1_000_000_000  # a time of its own for each text, so that no old bytecode fits
        self.process = 0

    def start(self, ids: Sequence[str], mutant: Mutant | None, *options: str) -> None:
        self.mutant, self.ids, self.began = mutant, ids, time.monotonic()
        if mutant:
            self.write(mutant.file, mutant.apply((ROOT / mutant.file).read_bytes()))
        self.failures.write_text("")
        self.process = os.fork()
        if not self.process:
            self.test(options)

    def write(self, file: str, text: bytes) -> None:
        (self.root / file).write_bytes(text)
        self.stamp += 1
        os.utime(self.root / file, (self.stamp, self.stamp))

    def test(self, options: Sequence[str]) -> None:
        """Run the tests in the process that was forked for them, and end it."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        output = os.open(self.root / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        os.chdir(self.root)
        paths = [str(self.root / "src"), str(self.root / "reproduction" / "src")]
        sys.path[:0] = paths
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
        files = list(dict.fromkeys(name.split("::")[0] for name in self.ids))
        given = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", *options]
        given += [f"--basetemp={self.root / 'temporary'}", f"--rootdir={self.root}", *files]
        code = 1
        try:
            code = int(pytest.main(given, plugins=[Chosen(self.ids, self.failures)]))
        finally:
            os._exit(code)

    def ended(self) -> str | bool:
        """False while it runs, then what failed: "" if nothing did."""
        done, status = os.waitpid(self.process, os.WNOHANG)
        is_late = time.monotonic() - self.began > LONGEST
        if not done and not is_late:
            return False
        if not done:
            self.stop()
        if self.mutant:
            self.write(self.mutant.file, (ROOT / self.mutant.file).read_bytes())
        self.process = 0
        failed = self.failures.read_text().strip()
        code = None if not done else os.waitstatus_to_exitcode(status)
        if failed or code in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            return failed
        return "time" if is_late else f"exit {code}"

    def stop(self) -> None:
        with suppress(ProcessLookupError):  # it has just been forked
            os.killpg(self.process, signal.SIGKILL)
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.process = 0


def run(places: Sequence[Place], jobs: Iterator[tuple[Any, ...]], until: float) -> Iterator[Place]:
    """Give each free place the next job, and yield the places whose job has ended in time."""
    while True:
        for place in places:
            if not place.process and time.monotonic() < until:
                job = next(jobs, None)
                if job is not None:
                    place.start(*job)
        busy = [place for place in places if place.process]
        if not busy or time.monotonic() > until:
            return [place.stop() for place in busy]
        for place in busy:
            place.result = place.ended()
            if place.result is not False:
                yield place
        time.sleep(0.05)


def map_lines(paths: Sequence[str], out: Path) -> None:
    """Note which tests execute each line, and how long each test takes."""
    with tempfile.TemporaryDirectory() as folder:
        data, report = Path(folder) / "coverage", Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-m", MARKS, *paths]
        command += [f"--cov={SOURCE}", "--cov-context=test", "--cov-report="]
        command += [f"--junitxml={report}"]
        given = {"COVERAGE_FILE": str(data), "CI": "1"}
        subprocess.run(command, cwd=ROOT, env=os.environ | given, check=False)
        out.write_text(json.dumps(read_map([data], [report])))


def read_map(data: Sequence[Path], reports: Sequence[Path]) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            seconds[name] = float(case.get("time", 0.0))
    ids = sorted(seconds)
    numbers = {name: number for number, name in enumerate(ids)}
    lines: dict[str, dict[int, list[int]]] = {}
    for path in data:
        covered = importlib.import_module("coverage").CoverageData(path)
        covered.read()
        for file in covered.measured_files():
            known = lines.setdefault(os.path.relpath(file, ROOT), {})
            for line, contexts in covered.contexts_by_lineno(file).items():
                tests = {numbers.get(context.split("|")[0]) for context in contexts} - {None}
                known[line] = sorted({*known.get(line, ()), *tests})
    sets = sorted({tuple(some) for known in lines.values() for some in known.values()})
    places = {some: place for place, some in enumerate(sets)}  # most lines share theirs
    return {
        "tests": ids,
        "seconds": [round(seconds[name], 3) for name in ids],
        "sets": sets,
        "lines": {
            file: {line: places[tuple(some)] for line, some in known.items()}
            for file, known in lines.items()
        },
    }


def leave_out_failing(places: list[Place], tests: Tests, needed: set[int], until: float) -> None:
    """Run each test that is needed in the source as it is, in parts of about 10 seconds."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for test in sorted(needed):
        by_file[tests.ids[test].split("::")[0]].append(test)
    parts = []
    for some in by_file.values():
        count = 1 + int(sum(tests.seconds[test] for test in some) / 10.0)
        parts += [some[start::count] for start in range(min(count, len(some)))]
    parts.sort(key=lambda part: -sum(tests.seconds[test] for test in part))
    jobs = (([tests.ids[test] for test in part], None, "-m", MARKS) for part in parts)
    for place in run(places, jobs, until):
        failed = place.result.splitlines()
        tests.failing |= {tests.ids.index(name) for name in place.ids if name in failed}
        if set(failed) - set(place.ids):  # it could not even be collected
            tests.failing |= {tests.ids.index(name) for name in place.ids}
            print(place.ids[0].split("::")[0], "is left out:", *failed)


def judge(mutants: list[Mutant], tests: Tests, given: argparse.Namespace) -> dict[str, Any]:
    until = time.monotonic() + 60.0 * given.minutes
    results: dict[str, Any] = {"left_out": [], "mutants": []}
    with tempfile.TemporaryDirectory() as home:
        places = [Place(number, Path(home)) for number in range(given.workers)]
        leave_out_failing(places, tests, {t for one in mutants for t in tests.of(one)}, until)
        results["left_out"] = sorted(tests.ids[test] for test in tests.failing)
        untested = [one for one in mutants if not tests.of(one)]
        results["mutants"] = [asdict(one) | {"by": None, "tests": 0} for one in untested]
        tested = (one for one in mutants if one not in untested)
        jobs = (
            ([tests.ids[test] for test in tests.of(one)], one, "-x", "-m", MARKS) for one in tested
        )
        for place in run(places, jobs, until):
            took = round(time.monotonic() - place.began, 1)
            about = {"by": place.result or None, "tests": len(place.ids), "seconds": took}
            results["mutants"].append(asdict(place.mutant) | about)
            write(given.out, results)
    return results


def write(out: Path, results: dict[str, Any]) -> None:
    partial = out.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1))
    partial.replace(out)


def summary(results: dict[str, Any]) -> str:
    lines = []
    for room in sorted({result["room"] for result in results["mutants"]}):
        some = [result for result in results["mutants"] if result["room"] == room]
        lived = [result for result in some if result["by"] is None]
        lines.append(f"{room}: {len(some)} mutants, {len(some) - len(lived)} killed")
        for one in sorted(lived, key=lambda one: (one["file"], one["line"])):
            lines.append(f"  {one['file']}:{one['line']}: {one['before']!r} -> {one['after']!r}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", help="of tests, for the map")
    parser.add_argument("--map", action="store_true", help="only note what tests execute")
    parser.add_argument("--lines", type=Path, default=Path("lines.json"), help="the map")
    parser.add_argument("--rooms", nargs="+", default=[])
    parser.add_argument("--sample", type=int, default=200, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, help="results whose survivors are tested again")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no mutant starts")
    parser.add_argument("--seconds", type=float, default=25.0, help="of tests for one mutant")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    given = parser.parse_args()
    if given.map:
        return map_lines(given.paths, given.lines)
    os.environ |= {"CI": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    for name in PRELOADED:
        importlib.import_module(name)
    mutants = survivors(given.again) if given.again else []
    mutants += sampled(given.rooms, given.sample, given.seed) if given.rooms else []
    print(summary(judge(mutants, Tests(given.lines, given.seconds), given)))


if __name__ == "__main__":
    main()
