"""States that are torn, flipped, or cannot be written: each is named, and the last good one is used."""

import errno
import os
import random
import shutil

import pytest
import torch

from evenhand import errors, files
from evenhand.experiment.folder import Folder
from evenhand.experiment.run import Interrupted, Note, Paused, run
from evenhand.experiment.spec import Spec

SPEC = Spec.make(method="uer", backbone="mlp(hidden=16)", memory=40, batch=50)


def stop_after(steps):
    asked = iter(range(steps))
    return lambda: next(asked, None) is None


def same_end(folder, whole):
    (tensors, facts), (expected, expected_facts) = files.read_state(folder.state), files.read_state(whole.state)
    return (
        (folder.path / "metrics.jsonl").read_bytes() == (whole.path / "metrics.jsonl").read_bytes()
        and tensors.keys() == expected.keys()
        and all(torch.equal(tensors[name], expected[name]) for name in expected)
        and facts["learner"] == expected_facts["learner"]
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped."""
    root = tmp_path_factory.mktemp("whole")
    run(SPEC, root)
    return Folder(root, SPEC)


@pytest.fixture
def begun(tmp_path):
    """A run with two generations of its state."""
    with pytest.raises(Interrupted):
        run(SPEC, tmp_path, stop=stop_after(24))
    folder = Folder(tmp_path, SPEC)
    assert [files.read_state(path)[1]["position"] for path in (folder.previous, folder.state)] == [20, 25]
    return folder


def test_a_state_cut_anywhere_is_named(begun):
    content = begun.state.read_bytes()
    for length in range(0, len(content), len(content) // 40):
        begun.state.write_bytes(content[:length])
        with pytest.raises(errors.RunError, match="state.safetensors is damaged"):
            files.read_state(begun.state)


def test_a_flipped_bit_is_named_wherever_it_is(begun):
    content = begun.state.read_bytes()
    flips = random.Random(0)
    header = range(8 * (8 + int.from_bytes(content[:8], "little")))
    for bit in [*flips.sample(header, 300), *flips.sample(range(8 * len(content)), 300)]:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        begun.state.write_bytes(flipped)
        with pytest.raises(errors.RunError, match="state.safetensors is damaged"):
            files.read_state(begun.state)


@pytest.mark.parametrize("damage", ["torn", "flipped", "gone"])
def test_a_damaged_state_gives_way_to_the_one_before_it(begun, whole, damage):
    content = bytearray(begun.state.read_bytes())
    content[-1] ^= 1
    match damage:
        case "torn":
            begun.state.write_bytes(content[:1000])
        case "flipped":
            begun.state.write_bytes(content)
        case "gone":  # as a kill between two renames leaves it
            begun.state.unlink()
    said = []
    run(SPEC, begun.path.parent, report=said.append)
    notes = [event.message for event in said if isinstance(event, Note)]
    if damage == "gone":
        assert notes == []
    else:
        [note] = notes
        assert "state.safetensors is damaged" in note
        assert "Resuming from the state before it." in note
    assert same_end(begun, whole)
    assert not begun.previous.exists()


def test_the_state_that_served_is_not_lost_with_the_damaged_one(begun):
    """The next checkpoint moves `state` over `previous`, and may be killed before it has written its own."""
    good = begun.previous.read_bytes()
    begun.state.write_bytes(begun.state.read_bytes()[:-1])
    with pytest.raises(Interrupted):
        run(SPEC, begun.path.parent, stop=lambda: True)
    assert good in (begun.state.read_bytes(), begun.previous.read_bytes())


def test_a_damaged_record_is_restored_from_the_state(tmp_path, whole):
    shutil.copytree(whole.path, tmp_path / SPEC.key)
    metrics = tmp_path / SPEC.key / "metrics.jsonl"
    before = metrics.read_bytes()
    metrics.write_bytes(before[:-10])
    with pytest.raises(errors.RunError, match=r"metrics.jsonl is damaged\. Remove its status.json and repeat"):
        run(SPEC, tmp_path)
    (tmp_path / SPEC.key / "status.json").unlink()
    run(SPEC, tmp_path)
    assert metrics.read_bytes() == before
    (tmp_path / SPEC.key / "state.safetensors").unlink()
    metrics.write_bytes(before[:-10])
    with pytest.raises(errors.RunError, match=r"metrics.jsonl is damaged\. Remove its folder to restart the run"):
        run(SPEC, tmp_path)


def test_two_damaged_states_are_named_and_kept(begun):
    for path in (begun.state, begun.previous):
        path.write_bytes(path.read_bytes()[:-1])
    before = {path.name: path.read_bytes() for path in begun.path.iterdir()}
    with pytest.raises(errors.RunError, match="state.safetensors is damaged.*Remove its folder"):
        run(SPEC, begun.path.parent)
    assert {path.name: path.read_bytes() for path in begun.path.iterdir()} == before


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.jsonl"])
def test_records_that_are_not_what_the_run_wrote_are_named(tmp_path, whole, name):
    shutil.copytree(whole.path, tmp_path / SPEC.key)
    path = tmp_path / SPEC.key / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(errors.RunError, match=f"{name} is damaged"):
        Folder(tmp_path, SPEC).result()
    path.unlink()
    with pytest.raises(errors.RunError, match=f"{name} cannot be read: No such file"):
        Folder(tmp_path, SPEC).result()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_refuses_is_named_and_the_last_state_kept(begun, whole, monkeypatch, code):
    before = begun.state.read_bytes()

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr("evenhand.files.os.write", refuse)
        with pytest.raises(errors.RunError, match=f"cannot be written: {os.strerror(code)}"):
            run(SPEC, begun.path.parent)
    assert begun.state.read_bytes() == before
    assert not [path for path in begun.path.iterdir() if path.name.startswith(".")]
    run(SPEC, begun.path.parent)
    assert same_end(begun, whole)


def test_leftovers_of_a_killed_writer_are_swept(begun, whole):
    for name in (".state.safetensors.1234abcd", ".metrics.jsonl.1234abcd", ".spec.json.1234abcd"):
        (begun.path / name).write_text("half")
    run(SPEC, begun.path.parent)
    assert sorted(path.name for path in begun.path.iterdir()) == sorted(path.name for path in whole.path.iterdir())


def test_until_stops_at_the_end_of_a_stage_and_goes_on(tmp_path, whole):
    folder = Folder(tmp_path, SPEC)
    for stage, reached in ((1, 1), (3, 3), (2, 3)):  # what has gone further stays there
        with pytest.raises(Paused, match=f"Paused after stage {stage}; the state is saved"):
            run(SPEC, tmp_path, until=stage)
        assert len(folder.records()) == reached
        assert files.read_state(folder.state)[1]["position"] == 20 * reached
    run(SPEC, tmp_path, until=5)
    assert same_end(folder, whole)


def test_until_the_last_stage_ends_a_run_that_was_stopped_at_its_very_end(tmp_path, whole):
    with pytest.raises(Interrupted, match="Stopped at step 100 of 100"):
        run(SPEC, tmp_path, stop=stop_after(99))
    run(SPEC, tmp_path, until=5)
    assert same_end(Folder(tmp_path, SPEC), whole)


def test_time_spent_on_checkpoints_is_recorded(tmp_path):
    run(SPEC, tmp_path, checkpoint_seconds=0)
    times = [files.json.loads(line) for line in (tmp_path / SPEC.key / "timing.jsonl").read_text().splitlines()]
    assert all(line["save_seconds"] > 0 for line in times)
