"""Commands as processes of their own that need not load torch each: a fork of one that has.

Run as a program it loads what commands load, then reads a job per line and answers with the exit
code. Each job runs in a fork with its own folder, environment and output files, and ends as the
command ends. ``Forks`` is the other side.
"""

import json
import os
import subprocess
import sys
from pathlib import Path


class Forks:
    """A server of forks, started when it is first used."""

    def __init__(self) -> None:
        self._server = None

    def run(self, arguments, cwd, environment, folder: Path) -> subprocess.CompletedProcess:
        """``tellmost`` with these arguments; what it prints goes through files in a folder."""
        if self._server is None:
            command = [sys.executable, __file__]
            pipe = subprocess.PIPE
            self._server = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, text=True, env=environment
            )
        out, err = folder / "stdout", folder / "stderr"
        job = [arguments, str(cwd), environment, str(out), str(err)]
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())

    def end(self) -> None:
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()


def serve() -> None:
    load()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run_job(*json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def load() -> None:
    """What takes long; nothing is computed, so that no threads are there to be lost."""


def run_job(arguments, cwd, environment, out, err) -> None:
    for number, path in ((0, os.devnull), (1, out), (2, err)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.stdin = open(0)  # noqa: SIM115 - ends with the process
    sys.argv = ["tellmost", *arguments]
    from tellmost.cli.ending import main

    main()


if __name__ == "__main__":
    serve()
