"""Saving and loading: a learner comes back to the bit, or a sentence says why not; what the files hold."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from core.made import X, Y, mlp, small
from evenhand import Learner, Network
from evenhand.backbones import MLP
from evenhand.errors import InputError, RunError
from evenhand.files import read_state, write_state

SETTINGS = [
    {"method": "er"},
    {"method": "uer", "augment": "scr", "views": "concat", "passes": "separate"},
    {"method": "lucir", "backbone": "mlp", "augment": "crop", "iterations": 2, "replay": 3, "lr": 0.05, "seed": 5},
    {"method": "uer(alpha=0.3, couple='both')", "neck": True},
    {"method": "finetune", "memory": 0},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings["method"])
def test_a_saved_learner_comes_back_and_goes_on_to_the_bit(settings, train, images, same, tmp_path):
    made = train(**settings, batches=3)
    made.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", device="cpu")
    assert same(back, made)
    assert back.facts() == made.facts()
    for x, y in images(5, classes=6, seed=9):
        assert torch.equal(made.scores(x), back.scores(x))
        made.observe(x, y)
        back.observe(x, y)
    assert len(made.labels) == 6
    assert same(back, made)


def test_a_learner_that_has_seen_nothing_comes_back(learner, images, same, tmp_path):
    made = learner()
    made.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", device="cpu")
    for x, y in images(3):
        made.observe(x, y)
        back.observe(x, y)
    assert same(back, made)


LOADING = """
import sys, torch
from evenhand import Learner
torch.set_num_threads(1)
learner = Learner.load(sys.argv[1], device="cpu")
learner.observe(torch.eye(4), ["a", "b", "c", "d"])
learner.save(sys.argv[2])
"""


@pytest.mark.parametrize("method", ["mir+uer", "ss_il"])
def test_a_learner_is_loaded_by_a_process_that_knows_nothing_of_it(method, tmp_path):
    learner = Learner(MLP((4,), hidden=8), method, memory=20, device="cpu")
    learner.observe(torch.eye(4), ["a", "b", "c", "d"])
    learner.save(tmp_path / "saved")
    subprocess.run([sys.executable, "-c", LOADING, tmp_path / "saved", tmp_path / "on"], check=True)
    learner.observe(torch.eye(4), ["a", "b", "c", "d"])
    tensors, facts = read_state(tmp_path / "on")
    assert facts == json.loads(json.dumps(learner.facts()))
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in learner.state_dict().items())


def test_labels_come_back_with_their_types(learner, tmp_path):
    labels = [2, 1.5, True, "1", (1, ("a", False)), (), "\u2603 \ud800"]
    made = learner("er", "mlp")
    made.observe(torch.rand(len(labels), 1, 8, 8), labels)
    made.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", device="cpu")
    assert [(type(label), label) for label in back.labels] == [(type(label), label) for label in labels]
    back.observe(torch.rand(len(labels), 1, 8, 8), labels)
    assert len(back.labels) == len(labels)


def own_module():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 3))


def test_a_network_of_ones_own_must_be_given_again(images, same, tmp_path):
    made = Learner(own_module(), "uer", memory=20, device="cpu")
    for x, y in images(3):
        made.observe(x, y)
    made.save(tmp_path / "state")
    with pytest.raises(InputError, match=r"saved with a custom network\. Build one like it, and pass it as network="):
        Learner.load(tmp_path / "state")
    back = Learner.load(tmp_path / "state", network=own_module(), device="cpu")
    assert same(back, made)
    for x, y in images(3, seed=1):
        made.observe(x, y)
        back.observe(x, y)
    assert same(back, made)


def test_a_network_that_does_not_fit(images, tmp_path):
    made = Learner(own_module(), "uer", device="cpu")
    made.observe(*images(1)[0])
    made.save(tmp_path / "state")
    with pytest.raises(InputError, match=r"weights do not fit this network\. Build it as it was when it was saved"):
        Learner.load(tmp_path / "state", network=MLP((1, 8, 8)), device="cpu")


def test_a_file_is_not_loaded_into_a_network_with_another_scale(tmp_path):
    learner = Learner(Network.of(MLP((4,)), gamma=30.0), memory=20, device="cpu")
    learner.observe(torch.rand(4, 4), [0, 1, 0, 1])
    learner.save(tmp_path / "state")
    with pytest.raises(InputError, match="Build it as it was when it was saved"):
        Learner.load(tmp_path / "state", Network.of(MLP((4,))), device="cpu")
    loaded = Learner.load(tmp_path / "state", Network.of(MLP((4,)), gamma=30.0), device="cpu")
    assert loaded.network.head.gamma == 30


def test_a_neck_is_rebuilt(learner, images, tmp_path):
    made = learner("uer(couple='neck')", neck=True)
    made.observe(*images(1)[0])
    made.save(tmp_path / "state")
    assert Learner.load(tmp_path / "state", device="cpu").network.neck is not None


def test_the_scale_of_the_cosine_is_saved(tmp_path):
    learner = Learner(Network(MLP((4,), hidden=8), 8, gamma=3.0), "lucir", device="cpu")
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    assert torch.equal(Learner.load(tmp_path / "state", device="cpu").scores(X), learner.scores(X))


def test_tied_weights_are_saved(tmp_path, same):
    def tied():
        module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
        module[1].weight = module[0].weight
        return module

    learner = small(model=tied())
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", tied(), device="cpu")
    for each in (learner, back):
        each.observe(X, Y)
    assert back.network.trunk[1].weight is back.network.trunk[0].weight
    assert same(learner, back)


def test_options_that_a_file_has_already(tmp_path):
    learner = small(optimizer="sgd(momentum=0.9)")
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    sentence = r"was saved with optimizer='sgd\(momentum=0\.9\)', which cannot be changed\. Leave out optimizer="
    with pytest.raises(InputError, match=sentence):
        Learner.load(tmp_path / "state", mlp(), optimizer="adam", device="cpu")
    with pytest.raises(InputError, match="LBFGS"):
        small(optimizer=lambda parameters: torch.optim.LBFGS(parameters))


def test_a_state_with_other_labels_is_refused(same):
    one, other, calm = small(), small(), small()
    one.observe(X, list("pqpqpq"))
    for each in (other, calm):
        each.observe(X, list("qpqpqp"))
    with pytest.raises(InputError, match="other labels, or in another order. Load the state into a new one"):
        other.load_state_dict(one.state_dict(), one.facts())
    assert same(other, calm)


@pytest.fixture
def saved(learner, images, tmp_path):
    made = learner()
    made.observe(*images(1)[0])
    made.save(tmp_path / "state")
    return tmp_path / "state"


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 100, -1, -1000])
def test_a_torn_file_is_called_damaged(kept, saved):
    content = saved.read_bytes()
    saved.write_bytes(content[:kept])
    with pytest.raises(RunError, match=r"state is damaged or is not an evenhand state file"):
        Learner.load(saved)


def test_a_file_of_something_else_is_called_damaged(saved):
    saved.write_text("hello, this is no state at all, but a letter")
    with pytest.raises(RunError, match=r"is damaged"):
        Learner.load(saved)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RunError, match=r"none cannot be read: No such file"):
        Learner.load(tmp_path / "none")


def test_a_folder_that_is_not_there(learner, tmp_path):
    with pytest.raises(RunError, match=r"state cannot be written: No such file or directory\."):
        learner().save(tmp_path / "nowhere" / "state")


def test_saving_replaces_a_file_at_once_and_leaves_nothing_beside_it(saved, learner, images):
    old = saved.read_bytes()
    made = learner("er")
    made.observe(*images(1)[0])
    made.save(saved)
    assert saved.read_bytes() != old
    assert [path.name for path in saved.parent.iterdir()] == ["state"]


def test_a_failed_save_keeps_the_old_file(saved, learner, monkeypatch):
    old = saved.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match=r"cannot be written: No space left on device\."):
        learner("er").save(saved)
    assert saved.read_bytes() == old
    assert [path.name for path in saved.parent.iterdir()] == ["state"]


def test_the_shape_of_samples_comes_back(saved):
    with pytest.raises(InputError, match=r"Every sample must have the shape \(1, 8, 8\)\. Got \(1, 9, 9\) instead"):
        Learner.load(saved, device="cpu").predict(torch.rand(2, 1, 9, 9))


def test_saving_changes_nothing(learner, images, same, tmp_path):
    ours, theirs = learner(augment="scr"), learner(augment="scr")
    for x, y in images(4):
        ours.save(tmp_path / "state")
        ours.observe(x, y)
        theirs.observe(x, y)
    assert same(ours, theirs)


def test_saving_within_a_step_is_refused(tmp_path):
    learner = small()
    learner.observe(X, Y)
    saving = small(augment=lambda x: saving.save(tmp_path / "half") or x)
    with pytest.raises(RunError, match="A step is under way"):
        saving.observe(X, Y)
    assert not (tmp_path / "half").exists()


def test_a_method_of_unknown_parts_is_refused(saved):
    tensors, facts = read_state(saved)
    facts["method"]["retrieval"] = {"part": "os.system", "command": "true"}
    write_state(saved, tensors, facts)
    with pytest.raises(InputError, match=r"There is no part called 'os\.system'"):
        Learner.load(saved)


def test_the_facts_are_json_and_the_rest_is_tensors(train):
    made = train("uer", batches=2)
    assert json.loads(json.dumps(made.facts())) == made.facts()
    assert all(isinstance(tensor, torch.Tensor) for tensor in made.state_dict().values())
    assert isinstance(made.network, Network)


def test_facts_are_a_copy(train):
    learner = train("ss_il")
    before = learner.facts()
    learner.boundary()
    learner.observe(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), ["new", "newer"])
    assert "new" not in before["labels"]
    stages = [facts["kept"]["values"].get("ss_il.stages", []) for facts in (before, learner.facts())]
    assert len(stages[0]) < len(stages[1])
