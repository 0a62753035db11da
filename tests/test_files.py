import os
from pathlib import Path

import pytest

from evenhand import files
from evenhand.errors import RunError


@pytest.mark.parametrize("path", [".", "", "/"])
def test_a_path_without_a_name_is_refused_in_one_sentence(path):
    with pytest.raises(RunError, match=r"^[./] cannot be written: it is a folder\.$"):
        files.write(Path(path), b"x")


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "page.html").mkdir()
    with pytest.raises(RunError, match=r"page\.html cannot be written: "):
        files.write(tmp_path / "page.html", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("more", "then"),
    [
        ({}, " Remove its folder to restart the run."),
        ({"then": "Measure again."}, " Measure again."),
        ({"then": ""}, ""),
    ],
)
def test_what_to_do_about_a_damaged_file_is_for_whoever_reads_it(tmp_path, more, then):
    path = tmp_path / "table3.json"
    path.write_text("{")
    with pytest.raises(RunError) as problem:
        files.read_json(path, **more)
    assert str(problem.value) == f"{path} is damaged: it is not valid JSON.{then}"


def test_what_is_not_a_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match=r"pipe cannot be written: it is not a regular file\.$"):
        files.write(tmp_path / "pipe", b"x")
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]
