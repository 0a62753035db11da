import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datasets import makers
from evenhand import datasets
from evenhand.cli import app
from evenhand.datasets import data_dirs
from evenhand.datasets.cifar import CIFAR10


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    """Let no dataset of this machine be found, forget --data-dir after each test, and write where it is read."""
    monkeypatch.setenv("EVENHAND_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data_dirs, "SYSTEM", tmp_path / "system")
    monkeypatch.chdir(tmp_path)


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        app.main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


@pytest.fixture
def fetched(monkeypatch):
    """CIFAR-10 from an origin that is always there; the fixture is the list of what was fetched."""
    files, done = makers.cifar10_binary(*makers.cifar()), []

    def fetch(home, _):
        makers.tar(home / "cifar-10-binary.tar.gz", makers.below("cifar-10-batches-bin", files))
        done.append(home)

    source = dataclasses.replace(CIFAR10, origins={"official": fetch}, digest="")
    monkeypatch.setitem(datasets.SOURCES, "cifar10", source)
    return done


@pytest.mark.parametrize("options", [[], ["--from", "official"]])
def test_what_is_said_about_an_incomplete_copy_helps(capsys, tmp_path, fetched, options):
    folder = makers.write(tmp_path / "data" / "cifar-10-batches-bin", {"readme.html": b""})
    command = ["data", "fetch", "cifar10", "--data-dir", folder.parent]
    code, out, err = call(capsys, *command, *options)
    assert (code, out) == (2, "")
    assert f"Remove {folder}, then run evenhand data fetch cifar10." in err
    shutil.rmtree(folder)
    code, out, _ = call(capsys, *command)
    assert code == 0
    assert out.splitlines()[-1] == str(folder.parent / "cifar-10-binary.tar.gz")
    assert fetched == [folder.parent]


def test_a_copy_that_is_found_is_not_fetched_again_unless_asked(capsys, tmp_path, fetched):
    (tmp_path / "data").mkdir()
    command = ["data", "fetch", "cifar10", "--data-dir", tmp_path / "data"]
    for options, times in ([], 1), ([], 1), (["--from", "official"], 2):
        assert call(capsys, *command, *options)[0] == 0
        assert len(fetched) == times


@pytest.mark.parametrize("channels", [2, 4, 7])
def test_a_sheet_of_images_with_any_number_of_channels(capsys, tmp_path, channels):
    np.savez(tmp_path / "mine.npz", x=makers.noise(10, channels, 8, 8), y=[0, 1] * 5)
    code, out, err = call(capsys, "data", "show", "npz:mine.npz")
    assert (code, err) == (0, "")
    assert out.startswith("mine.npz.png: ")
    assert np.asarray(Image.open("mine.npz.png")).shape[2] == 3


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("imgs", "imgs.png"),
        ("imgs/", "imgs.png"),
        ("{folder}/imgs//", "imgs.png"),
        ("imgs/.", "imgs.png"),
        ("link/", "link.png"),
        (".", "imgs.png"),
        ("ant/..", "imgs.png"),
    ],
)
def test_a_sheet_is_named_after_the_last_part_of_a_path(capsys, tmp_path, monkeypatch, path, written):
    for name in ("ant", "bee"):
        makers.write(tmp_path / "imgs" / name, {f"{number}.png": makers.flat(number) for number in range(3)})
    (tmp_path / "link").symlink_to(tmp_path / "imgs")
    if path in (".", "ant/.."):
        monkeypatch.chdir(tmp_path / "imgs")
    code, out, _ = call(capsys, "data", "show", f"folder:{path.format(folder=tmp_path)}")
    assert code == 0
    assert out.startswith(f"{written}: ")
    assert Path(written).exists()


def test_a_data_dir_with_a_colon_is_one_folder(capsys, tmp_path):
    folder = tmp_path / "a:b"
    (folder / "mnist").mkdir(parents=True)
    code, out, _ = call(capsys, "data", "--data-dir", folder, "--json")
    listed = json.loads(out)
    assert code == 0
    assert listed["searched"][0] == str(folder)
    assert {row["name"]: row["found"] for row in listed["datasets"]}["mnist"] == str(folder / "mnist")
