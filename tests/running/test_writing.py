"""A file is written whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tellmost.running.writing import HOST, check_writable, written_whole


def test_the_file_appears_at_the_end_and_replaces_an_older_one(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with written_whole(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_an_error(error, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def write_half():
        with written_whole(path) as unfinished:
            unfinished.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "gone" / "out.csv"
    message = r"^'.*out\.csv' cannot be written: "
    with pytest.raises(FileNotFoundError, match=message) as caught, written_whole(path):
        pass
    assert ".part" not in str(caught.value)
    (tmp_path / "folder").mkdir()
    with (
        pytest.raises(OSError, match="folder' cannot be written"),
        written_whole(tmp_path / "folder"),
    ):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_is_named(tmp_path):
    message = r"out\.csv' cannot be written: No space"
    with pytest.raises(OSError, match=message), written_whole(tmp_path / "out.csv"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


def test_an_error_about_a_file_that_is_read_meanwhile_stays_as_it_is(tmp_path):
    with pytest.raises(OSError, match=r"^pool: changed$"), written_whole(tmp_path / "out.csv"):
        raise OSError("pool: changed")
    message = r"No such file.*other\.csv"
    with pytest.raises(FileNotFoundError, match=message), written_whole(tmp_path / "out.csv"):
        (tmp_path / "other.csv").read_text()


def test_what_cannot_be_written_is_seen_before_long_work(tmp_path, monkeypatch):
    check_writable(tmp_path / "out.csv", "output")
    with pytest.raises(IsADirectoryError, match=r"output: .* is a folder"):
        check_writable(tmp_path, "output")
    with pytest.raises(FileNotFoundError, match=r"output: there is no folder .*gone"):
        check_writable(tmp_path / "gone" / "out.csv", "output")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="cannot be written to"):
        check_writable(tmp_path / "out.csv", "output")


@pytest.mark.skipif(os.name != "posix", reason="only POSIX syncs folders")
def test_file_and_folder_are_on_the_disk_before_and_after_the_file_takes_its_name(
    tmp_path, monkeypatch
):
    path, steps, sync, rename = tmp_path / "out.csv", [], os.fsync, Path.replace

    def synced(descriptor):
        status = os.fstat(descriptor)
        steps.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)
        sync(descriptor)

    def renamed(self, target):
        steps.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    with written_whole(path) as unfinished:
        unfinished.write_text("new")
    assert steps == [3, "rename", "folder"]


def test_a_folder_that_its_disk_cannot_sync_is_no_obstacle(tmp_path, monkeypatch):
    def refuse(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    with written_whole(tmp_path / "out.csv") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "out.csv").read_text() == "new"


@pytest.mark.skipif(os.name != "posix", reason="only POSIX tells which processes are gone")
def test_leftovers_of_processes_that_are_gone_are_removed_and_no_other_file(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    gone = tmp_path / f"old.csv.{HOST}-{child.pid}-0123abcd.part"
    others = [
        tmp_path / f"now.csv.{HOST}-{os.getppid()}-0123abcd.part",  # its process lives
        tmp_path / f"far.csv.not{HOST}-{child.pid}-0123abcd.part",  # of another machine
        tmp_path / f"{child.pid}-0123abcd.part",
    ]
    for left in (gone, *others):
        left.write_text("half")
    with written_whole(tmp_path / "out.csv") as unfinished:
        assert not gone.exists()
        assert unfinished.name.startswith(f"out.csv.{HOST}-{os.getpid()}-")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "out.csv", *others])


def test_links_in_a_circle_name_no_file_to_write(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(OSError, match=r"one' cannot be written: .*symbolic links"):  # noqa: SIM117
        with written_whole(one):
            pass
    with pytest.raises(OSError, match=r"^output: .*one' is a link in a circle of links"):
        check_writable(one, "output")
    assert sorted(tmp_path.iterdir()) == [one, other] and one.is_symlink()


def test_a_link_stays_a_link_and_its_folder_is_looked_at_before_long_work(tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "there" / "out.csv")
    with pytest.raises(FileNotFoundError, match=r"output: there is no folder .*there"):
        check_writable(link, "output")
    (tmp_path / "there").mkdir()
    check_writable(link, "output")
    with written_whole(link) as unfinished:
        unfinished.write_text("new")
    assert link.is_symlink() and (tmp_path / "there" / "out.csv").read_text() == "new"
