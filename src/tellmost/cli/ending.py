"""A command ends with its exit code, and with one line on stderr if it failed."""

import io
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any, NoReturn

DONE = 0
FAILED = 1
USAGE = 2
NOTHING_LEFT = 3
INTERRUPTED = 130  # 128 + SIGINT, as in shells
TERMINATED = 143  # 128 + SIGTERM, as in shells


ARGUMENTS = re.compile(
    r"(?<![\w-])(noise_ratio|noise_std|min_gain_share|min_gain|max_per_group|target_weights|"
    r"columns_ahead|vector_column|text_field|id_column|exclude_columns|label_column|target_labels)\b"
)
"""Arguments of the library that are options here and that are no English words."""


VALUES = re.compile(r"\b(embed|column|text|kernel|normalize|rule|targets_are)='([^']*)'")
LIST = re.compile(r"\bcolumn=\['([^\]]*)'\]")
BAD_ROWS = re.compile(r"(Drop or repair|Repair or drop) such rows( first)?\.")
SEVERAL = "', '"  # it stands between the entries of a list that is printed
OPTION_OF = {"column": "vector-column", "text": "text-field", "targets_are": "targets-are"}


class UsageError(Exception):
    """The command itself is wrong, whatever the files hold."""


class NobodyReadsError(Exception):
    """The other end of the pipe was closed, since its reader has seen enough."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit code.

    Threads of OpenMP are asked to sleep while they wait, which it reads when torch is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    given = sys.argv[1:] if arguments is None else list(arguments)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - closed by whoever called us
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # else a summary might be lost to one letter
            sys.stdout.reconfigure(errors="backslashreplace")
        signal.signal(signal.SIGTERM, _terminate)
        code = run(_load_app(), given)
    except KeyboardInterrupt:
        code = _complain("interrupted", INTERRUPTED)
    sys.exit(code)


def run(app: Callable[..., Any], arguments: list[str]) -> int:
    """Run a command and return its exit code; errors and warnings become one line each."""
    # a study speaks of its file, which has the names of arguments
    in_words = str if arguments[:1] == ["study"] else in_terms_of_options

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        said = in_words(" ".join(str(message).split()))
        print(f"tellmost: note: {said}", file=sys.stderr)

    shown, warnings.showwarning = warnings.showwarning, show
    try:
        return _run(app, arguments, in_words)
    finally:
        warnings.showwarning = shown


def _run(app: Callable[..., Any], arguments: list[str], in_words: Callable[[str], str]) -> int:
    import typer

    usage_error: Any = typer.BadParameter.__base__  # versions of typer keep it in different places
    try:
        code = app(args=arguments or ["--help"], prog_name="tellmost", standalone_mode=False)
        sys.stdout.flush()  # else Python would complain when it ends
        if code == INTERRUPTED:  # some versions of typer end so without a word
            return _complain("interrupted", INTERRUPTED)
        return code if isinstance(code, int) else DONE
    except usage_error as error:
        message = " ".join(error.format_message().split())
        command = getattr(error.ctx, "command_path", "tellmost")
        end = "" if message.endswith((".", "?")) else "."
        return _complain(f"{message}{end} Try '{command} --help'.", USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except (NobodyReadsError, BrokenPipeError):
        return _forget_stdout()
    except SystemExit as error:
        if error.code == TERMINATED:
            raise
        return _forget_stdout()  # typer printed help into a closed pipe
    except UsageError as error:
        return _complain(in_words(str(error)), USAGE)
    except (Exception, MemoryError) as error:
        if "--debug" in arguments:
            raise
        return _complain(describe_error(error), FAILED)


def describe_error(error: BaseException) -> str:
    """Say in one line what an error is about."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "out of memory. Give --memory, for instance --memory 2GB, or a smaller pool."
    message = in_terms_of_options(" ".join(str(error).split()))
    is_ours = isinstance(error, ValueError | TypeError | OSError | ImportError | RuntimeError)
    return message if is_ours and message else f"{type(error).__name__}: {message}"


def in_terms_of_options(message: str) -> str:
    """Name options in a message of the library where it names Python's arguments."""
    message = VALUES.sub(
        lambda found: f"--{OPTION_OF.get(found[1], found[1])} {quote(found[2])}", message
    )
    message = BAD_ROWS.sub(r"\1 such rows, or leave them out: --on-bad-row skip.", message)
    message = LIST.sub(
        lambda found: f"--features {quote(found[1].replace(SEVERAL, ','))}", message
    )
    message = re.sub(r"\b(replace|floor)=True\b", r"--\1", message)
    message = re.sub(r"\bdedupe=([\d.]+\d)", r"--dedupe \1", message)
    message = message.replace("conditional=False", "--no-conditional")
    message = message.replace("conditional=True", "--conditional")
    return ARGUMENTS.sub(lambda found: f"--{found[0].replace('_', '-')}", message)


def _complain(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
        print(f"tellmost: {message}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        _forget_stdout()
    return code


def _forget_stdout() -> int:
    """Let stdout lead nowhere, since Python would complain of the closed pipe when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return DONE


def _terminate(number: int, frame: Any) -> NoReturn:
    """Clean up as an interrupted run does."""
    sys.exit(TERMINATED)


def _load_app() -> Callable[..., Any]:
    try:
        from tellmost.cli.app import app
    except ImportError as error:
        if error.name != "typer":
            raise
        sys.exit("tellmost: the command line needs typer; pip install 'tellmost[cli]'.")
    return app
