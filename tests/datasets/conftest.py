import pytest

from evenhand.datasets import data_dirs


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """Look for data, and keep it, in this test's own folders and nowhere else."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("EVENHAND_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")  # the servers of these tests are on this machine
    monkeypatch.setattr(data_dirs, "SYSTEM", tmp_path / "system")
    return folder
