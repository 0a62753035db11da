import json
import os

import pytest

from evenhand import errors
from evenhand.experiment.lock import held
from evenhand.experiment.records import prune as pruning
from evenhand.experiment.records.inventory import inventory, read_entry
from evenhand.experiment.records.prune import plan, prune
from evenhand.experiment.run import run
from evenhand.experiment.spec import Spec
from experiment.folders import leave_lock, spec_of, write

LEFTOVERS = (".metrics.jsonl.1234", ".state.safetensors.1f2e3d4c", ".status.json.1.2", ".lock.0123")
OTHERS = ("notes.txt", ".hidden", ".metrics.jsonl", "metrics.jsonl.bak", ".notes.txt.1234")
RECORDS = {"spec.json", "status.json", "metrics.jsonl", "timing.jsonl"}


def fill(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"x" * 1000)
    return folder


def names(folder):
    return {path.name for path in folder.iterdir()}


def clean(folder, states=False):
    """Prune one folder, and return the bytes that were announced and those that went."""
    removal = plan(read_entry(folder), states)
    return (0, 0) if removal is None else (sum(removal.sizes.values()), prune(removal, states))


@pytest.mark.parametrize("state", ["done", "running"])
def test_leftovers_go_and_nothing_else(tmp_path, state):
    folder = fill(write(tmp_path, spec_of(), state, stages=3), *LEFTOVERS, *OTHERS, "state.safetensors")
    (folder / ".spec.json.77").mkdir()
    removal = plan(read_entry(folder))
    assert (removal.what, removal.whole) == ("leftovers", False)
    assert {path.name for path in removal.sizes} == set(LEFTOVERS)
    assert names(folder) >= set(LEFTOVERS)  # a plan removes nothing
    assert clean(folder) == (4000, 4000)
    assert names(folder) == RECORDS | {*OTHERS, "state.safetensors", ".spec.json.77"}
    assert clean(folder) == (0, 0)


def test_a_stale_lock_goes(tmp_path):
    folder = write(tmp_path, spec_of())
    leave_lock(folder)
    assert plan(read_entry(folder)).what == "stale lock"
    announced, gone = clean(folder)
    assert announced == gone > 0
    assert names(folder) == RECORDS


@pytest.mark.parametrize("state", ["failed", "outdated"])
def test_failed_and_outdated_runs_go_as_a_whole(tmp_path, state):
    name = spec_of().key[:-12] + "0123456789ab" if state == "outdated" else None
    folder = write(tmp_path, spec_of(), "failed" if state == "failed" else "done", name=name)
    fill(folder, "state.safetensors", "state.previous.safetensors", LEFTOVERS[0])
    other = write(tmp_path, spec_of("uer"))
    leave_lock(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    removal = plan(read_entry(folder))
    assert (removal.what, removal.whole) == (f"the run, {state}", True)
    assert clean(folder) == (size, size)
    assert not folder.exists()
    assert names(other) == RECORDS


def test_the_records_of_trackers_go_with_their_run(tmp_path):
    folder, outside = write(tmp_path, spec_of(), "failed"), fill(tmp_path, "precious") / "precious"
    (folder / "wandb" / "run-1").mkdir(parents=True)
    (folder / "tensorboard").symlink_to(tmp_path)
    (folder / "wandb" / "latest").symlink_to(tmp_path)
    fill(folder / "wandb" / "run-1", "events")
    announced, gone = clean(folder)
    assert announced == gone > 1000
    assert not folder.exists()
    assert outside.exists()
    kept = write(tmp_path, spec_of("uer"))
    fill(kept, LEFTOVERS[0])
    (kept / "wandb").mkdir()
    fill(kept / "wandb", "events")
    clean(kept, states=True)
    assert (kept / "wandb" / "events").exists()


def test_a_file_of_somebody_s_own_keeps_its_folder(tmp_path):
    folder = fill(write(tmp_path, spec_of(), "failed"), "notes.txt")
    clean(folder)
    assert names(folder) == {"notes.txt"}
    with pytest.raises(errors.RunError, match="has no runs"):
        inventory(tmp_path)


def test_states_go_when_asked_for_and_from_done_runs_alone(tmp_path):
    spec = Spec.make(method="er", backbone="mlp(hidden=8)", memory=20, stages=1)
    result = run(spec, tmp_path)
    folder = fill(tmp_path / spec.key, "state.previous.safetensors")
    size = (folder / "state.safetensors").stat().st_size
    assert clean(folder) == (0, 0)
    assert plan(read_entry(folder), states=True).what == "state"
    assert clean(folder, states=True) == (size + 1000, size + 1000)
    assert names(folder) == RECORDS
    assert run(spec, tmp_path) == result
    stopped = fill(write(tmp_path, spec_of(), "running", stages=1), "state.safetensors")
    assert clean(stopped, states=True) == (0, 0)


def test_a_run_that_is_held_is_left_alone(tmp_path):
    folder = fill(write(tmp_path, spec_of(), "failed"), *LEFTOVERS)
    before, removal = names(folder), plan(read_entry(folder))
    with held(folder / ".lock"):
        assert plan(read_entry(folder), states=True) is None
        with pytest.raises(errors.BusyError, match="is locked by"):
            prune(removal)
        assert names(folder) == before | {".lock"}
    assert names(folder) == before


@pytest.mark.parametrize(("before", "after"), [("failed", "done"), ("done", "failed")])
def test_a_run_that_has_changed_since_the_plan_is_left_alone(tmp_path, before, after):
    folder = fill(write(tmp_path, spec_of(), before), LEFTOVERS[0])
    removal = plan(read_entry(folder))
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "state": after}))
    assert prune(removal) == 0
    assert names(folder) == RECORDS | {LEFTOVERS[0]}


def test_removal_happens_under_the_lock(tmp_path, monkeypatch):
    folder = write(tmp_path, spec_of(), "failed")
    seen, unlink = [], pruning._unlink
    monkeypatch.setattr(pruning, "_unlink", lambda path: seen.append((folder / ".lock").exists()) or unlink(path))
    clean(folder)
    assert seen == [True] * 4


@pytest.mark.parametrize("name", ["state.safetensors", "metrics.jsonl", "timing.jsonl", "status.json"])
def test_a_removal_that_is_cut_short_can_be_finished(tmp_path, monkeypatch, name):
    folder = fill(write(tmp_path, spec_of(), "failed"), "state.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(pruning, "_unlink", lambda path: path.unlink() if path.name != name else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            clean(folder)
    assert (folder / name).exists()
    clean(folder)
    assert not folder.exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"method": "nobody"}', None])
def test_a_damaged_spec_is_not_touched(tmp_path, content):
    folder = fill(write(tmp_path, spec_of(), "failed"), *LEFTOVERS)
    (folder / "spec.json").unlink()
    if content is not None:
        (folder / "spec.json").write_text(content)
    before = names(folder)
    assert read_entry(folder).state == "damaged"
    assert clean(folder, states=True) == (0, 0)
    assert names(folder) == before


def test_links_are_not_followed(tmp_path):
    outside = fill(write(tmp_path / "outside", spec_of(), "failed"), *LEFTOVERS)
    before = names(outside)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / outside.name).symlink_to(outside)
    [row] = inventory(tmp_path / "runs")
    assert plan(row, states=True) is None
    inside = write(tmp_path / "runs", spec_of("uer"), "failed")
    (inside / "state.safetensors").symlink_to(outside / LEFTOVERS[0])
    (inside / ".spec.json.1").symlink_to(outside)
    clean(inside)
    assert not inside.exists()
    locked = write(tmp_path / "runs", spec_of("mir"))
    (locked / ".lock").symlink_to(outside / "spec.json")
    os.utime(outside / "spec.json", (0, 0))
    clean(locked)
    assert names(locked) == RECORDS
    assert names(outside) == before


def test_a_file_that_cannot_go_is_named(tmp_path, monkeypatch):
    folder = fill(write(tmp_path, spec_of()), *LEFTOVERS)

    def refuse(path, missing_ok=False):
        raise PermissionError(13, "Permission denied")

    removal = plan(read_entry(folder))
    monkeypatch.setattr(pruning.Path, "unlink", refuse)
    with pytest.raises(errors.RunError, match=r"\.lock\.0123 cannot be removed: Permission denied"):
        prune(removal)
