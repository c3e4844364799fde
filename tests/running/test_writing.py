"""A file is written whole or not at all."""

import errno
import os

import pytest

from tellmost.running.writing import check_writable, written_whole


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
