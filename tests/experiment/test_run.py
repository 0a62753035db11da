import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from evenhand import errors, files
from evenhand.core import draws
from evenhand.core.network import DualLinear
from evenhand.datasets import pinned
from evenhand.experiment import lock
from evenhand.experiment.engine.dispatch import run_all
from evenhand.experiment.folder import Folder
from evenhand.experiment.records.inventory import inventory, results
from evenhand.experiment.run import Interrupted, build, run
from evenhand.experiment.spec import Spec


def spec_of(method="uer", **fields):
    return Spec.make(method=method, **{"backbone": "mlp(hidden=16)", "memory": 40, "batch": 50, **fields})


def stop_after(steps):
    asked = iter(range(steps))
    return lambda: next(asked, None) is None


def files_of(folder):
    return {name: (folder.path / name).read_bytes() for name in ("metrics.jsonl", "spec.json")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped."""
    root = tmp_path_factory.mktemp("whole")
    run(spec_of(), root)
    return Folder(root, spec_of())


@pytest.mark.parametrize("stops", [[0], [18], [19], [20], [7, 1, 58], [98], [99]])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, whole, stops):
    for steps in stops:
        with pytest.raises(Interrupted, match="the state is saved"):
            run(spec_of(), tmp_path, stop=stop_after(steps))
    run(spec_of(), tmp_path)
    folder = Folder(tmp_path, spec_of())
    assert files_of(folder) == files_of(whole)
    (tensors, facts), (expected, expected_facts) = files.read_state(folder.state), files.read_state(whole.state)
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    assert facts["learner"] == expected_facts["learner"]


def test_asking_twice_never_runs_twice(tmp_path, monkeypatch):
    first = run(spec_of(), tmp_path)
    monkeypatch.setattr("evenhand.experiment.run.build", lambda *_: pytest.fail("ran again"))
    assert run(spec_of(), tmp_path) == first
    assert results(inventory(tmp_path, with_results=True)) == [first]


def test_records_agree_with_each_other(whole):
    result = whole.result()
    last = result.records[-1]
    confusion = torch.tensor(last["confusion"])
    assert confusion.sum(1).tolist() == [150] * 10
    arrival = last["arrival"]
    stream, _ = build(spec_of())
    for j, stage in enumerate(stream.stages):
        rows = [arrival.index(c) for c in stage.classes]
        assert confusion.diag()[rows].sum().item() / 300 == pytest.approx(last["accuracy"][j])
    for record in result.records:
        assert sum(record["probability"]) == pytest.approx(1)
        assert len(record["accuracy"]) == record["stage"]
        assert all(len(column) == len(record["arrival"]) for column in record["head"].values())
    assert "confusion" not in result.records[0]
    assert result.classes == tuple(stream.dataset.classes[c] for c in arrival)


def test_changes_of_the_head_are_measured_from_arrival_and_from_stage_to_stage(whole):
    records, (tensors, _) = whole.result().records, files.read_state(whole.state)
    fresh = DualLinear(16)
    fresh.grow(10, draws.generator(0, "head"))
    total = tensors["network/head.weight"] - fresh.weight.detach()
    summed = torch.zeros(10)
    for record in records:
        summed[: len(record["arrival"])] += torch.tensor(record["head"]["weight_change"])
    assert torch.allclose(summed, total.mean(1), atol=1e-5)
    assert records[-1]["head"]["bias"] == pytest.approx(tensors["network/head.bias"].tolist(), abs=1e-6)
    assert records[-1]["head"]["norm"] == pytest.approx(tensors["network/head.weight"].norm(dim=1).tolist(), abs=1e-5)


def test_no_clock_in_the_metrics(whole):
    assert "seconds" not in (whole.path / "metrics.jsonl").read_text()
    assert whole.result().seconds > 0


def test_one_seed_pairs_methods():
    (stream, er), (other, uer) = build(spec_of("er", augment="crop")), build(spec_of("uer", augment="crop"))
    pairs = zip(stream.steps(), other.steps(), strict=True)
    assert all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) for a, b in pairs)
    step = next(stream.steps())
    er.observe(step.x, step.y)
    uer.observe(step.x, step.y)
    generators = er.generators
    assert all(torch.equal(generators[k].get_state(), uer.generators[k].get_state()) for k in generators)
    first, second = build(spec_of("er"))[1], build(spec_of("uer"))[1]
    states = first.network.state_dict(), second.network.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_iid_orders_have_one_stage_and_iid_learns_all_classes(tmp_path):
    plain = run(spec_of("finetune", order="iid", batch=10), tmp_path).summary()
    double = run(spec_of("finetune", order="iid++", batch=10), tmp_path).summary()
    assert plain["previous"] is None
    assert plain["forgetting"] is None
    assert plain["final_accuracy"] > 0.5
    assert double["final_accuracy"] > 0.5


def test_a_run_under_another_thread_count_says_so(tmp_path):
    with pytest.raises(Interrupted):
        run(spec_of(), tmp_path, stop=stop_after(3))
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        with pytest.raises(errors.RunError, match=f"threads was {threads} and is {threads + 1}.*--anyway"):
            run(spec_of(), tmp_path)
        assert run(spec_of(), tmp_path, anyway=True).records
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("state.safetensors", b"torn", "state.safetensors is damaged"),
        ("state.safetensors", b"", "state.safetensors is damaged"),
        ("spec.json", b"{", "spec.json is damaged"),
        ("spec.json", b'{"method": "er"}', "belongs to another run"),
        ("status.json", b"[]", "status.json is damaged"),
        ("status.json", b'{"state": "done"}', "metrics.jsonl is damaged: it has 0 of 5 stages"),
    ],
)
def test_a_torn_or_foreign_file_is_named_and_nothing_is_lost(tmp_path, name, content, sentence):
    with pytest.raises(Interrupted):
        run(spec_of(), tmp_path, stop=stop_after(3))
    folder = Folder(tmp_path, spec_of())
    (folder.path / name).write_bytes(content)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(errors.RunError, match=sentence):
        run(spec_of(), tmp_path)
    after = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    assert {k: v for k, v in after.items() if k != ".lock"} == {k: v for k, v in before.items() if k != ".lock"}


def test_a_root_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(errors.RunError, match="cannot be written"):
        run(spec_of(), tmp_path / "file")


def test_two_processes_do_not_make_the_same_run(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from evenhand.experiment.folder import Folder;"
        f"from evenhand.experiment.spec import Spec; s = Spec.read({spec_of().model_dump()!r})\n"
        "with Folder(Path(sys.argv[1]), s).locked(): print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(errors.RunError, match=f"locked by process {other.pid}."):
            run(spec_of(), tmp_path)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert run(spec_of(), tmp_path).records


def test_a_failure_is_recorded_and_the_run_can_go_on(tmp_path, monkeypatch, whole):
    with monkeypatch.context() as patch:
        patch.setattr("evenhand.experiment.run.evaluate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(spec_of(), tmp_path)
    folder = Folder(tmp_path, spec_of())
    status = json.loads((folder.path / "status.json").read_text())
    assert status["state"] == "failed"
    assert "division by zero" in status["error"]
    assert results(inventory(tmp_path, with_results=True)) == []
    run(spec_of(), tmp_path)
    assert files_of(folder) == files_of(whole)


@pytest.fixture
def own(tmp_path):
    """A run on images of one's own, and a function that writes these images."""

    def keep(seed):
        y = np.arange(40) % 4
        x = np.random.default_rng(seed).integers(0, 255, (40, 8, 8, 1), dtype=np.uint8)
        np.savez(tmp_path / "mine.npz", train_x=x, train_y=y, test_x=x, test_y=y)

    keep(0)
    data = f"npz:{tmp_path / 'mine.npz'}"
    return Spec.make(method="er", data=data, backbone="mlp(hidden=4)", stages=2, memory=8), keep


def test_a_run_never_resumes_with_other_images(tmp_path, own):
    spec, keep = own
    with pytest.raises(Interrupted):
        run(spec, tmp_path / "runs", stop=stop_after(3))
    keep(1)
    with pytest.raises(errors.RunError, match="began with other images: npz:.* has changed since. Restore it"):
        run(spec, tmp_path / "runs", anyway=True)
    keep(0)
    assert run(spec, tmp_path / "runs").accuracy == run(spec, tmp_path / "whole").accuracy


def test_a_finished_run_is_not_taken_for_one_with_other_images(tmp_path, own):
    spec, keep = own
    made = run(spec, tmp_path / "runs")
    assert run(spec, tmp_path / "runs") == made
    keep(1)
    sentence = "used other images: npz:.* has changed since. Remove its folder to run it again"
    with pytest.raises(errors.RunError, match=sentence):
        run(spec, tmp_path / "runs")
    [outcome] = run_all([spec], tmp_path / "runs", engine="inline", threads=1)
    assert (outcome.cause, "used other images" in outcome.message) == ("mistake", True)
    keep(0)
    assert run(spec, tmp_path / "runs") == made
    (tmp_path / "mine.npz").unlink()
    assert run(spec, tmp_path / "runs") == made  # what is gone contradicts nothing


def test_only_known_images_need_no_look():
    assert all(map(pinned, ("fashion-cut", "cifar10", "cifar100", "fashion-mnist")))
    assert not any(map(pinned, ("miniimagenet", "tinyimagenet", "mnist", "npz:mine.npz")))


def test_a_process_that_was_taken_over_changes_nothing(tmp_path):
    """It slept for more than a minute, and another one finished its run meanwhile."""
    folder, calls = tmp_path / spec_of().key, iter(range(10**6))

    def stop():
        if next(calls) == 3:
            os.utime(folder / lock.NAME, (1, 1))
            run(spec_of(), tmp_path)
            raise MemoryError("when it woke up")
        return False

    with pytest.raises(MemoryError, match="when it woke up"):
        run(spec_of(), tmp_path, stop=stop)
    assert json.loads((folder / "status.json").read_text())["state"] == "done"
    assert Folder(tmp_path, spec_of()).result() is not None


@pytest.mark.parametrize("change", [{"classes": [["a"]]}, {"environment": {"data": ["a"]}}, {"classes": 3}])
def test_a_status_of_other_types_is_damaged(tmp_path, change):
    run(spec_of(), tmp_path)
    path = tmp_path / spec_of().key / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(errors.RunError, match="The records in .* are damaged"):
        Folder(tmp_path, spec_of()).result()


def test_a_status_whose_environment_is_no_table_is_damaged(tmp_path):
    with pytest.raises(Interrupted):
        run(spec_of(), tmp_path, stop=lambda: True)
    path = tmp_path / spec_of().key / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "environment": None}))
    with pytest.raises(errors.RunError, match="status.json is damaged: it is not the status of a run"):
        run(spec_of(), tmp_path)
