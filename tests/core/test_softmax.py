"""A softmax over all classes to come, seen or not."""

import pytest
import torch
import torch.nn.functional as F

from evenhand import Learner, errors
from evenhand.core import admission, catalogue
from evenhand.experiment.folder import Folder
from evenhand.experiment.run import Interrupted, run
from evenhand.experiment.spec import Spec

NAMES = [row["name"] for row in catalogue.rows()]
ALL = 9


def losses(made, x, y):
    """L_c of a batch that is not learned."""
    batch = made.viewed(admission.registered_batch(made, x, y), "augment/stream")
    return made.method.objective(made, batch, None).learning


def test_rows_are_there_from_the_beginning_and_are_drawn_as_they_would_be_later(learner):
    made, grown = learner("er", rows=ALL), learner("er")
    admission.register(grown, list(range(ALL)))
    assert torch.equal(made.network.head.weight, grown.network.head.weight)
    assert (made.network.rows, made.labels) == (ALL, [])


def test_the_loss_is_that_over_all_rows(learner, images):
    [(x, y)] = images(1, classes=3)
    made, seen = learner("er", rows=ALL), learner("er")
    logits = made.network(x / 255.0)[0]
    rows = [list(dict.fromkeys(y)).index(label) for label in y]
    assert losses(made, x, y).item() == pytest.approx(F.cross_entropy(logits, torch.tensor(rows)).item(), rel=1e-5)
    few = F.cross_entropy(logits[:, :3], torch.tensor(rows)).item()
    assert losses(seen, x, y).item() == pytest.approx(few, rel=1e-5)


@pytest.mark.parametrize(("method", "rows"), [("er_ace", {0, 1, *range(4, ALL)}), ("ss_il", {0, 1, 2, 3})])
def test_who_takes_part_in_learning(train, images, method, rows):
    """ER-ACE learns among the classes of the batch and those not seen yet, SS-IL among those of the stage."""
    made = train(method, rows=ALL)
    [(x, y)] = images(1, classes=2)
    [gradient] = torch.autograd.grad(losses(made, x, y), [made.network.head.weight])
    assert set(gradient.abs().sum(1).nonzero().flatten().tolist()) == rows


def test_derpp_keeps_the_logits_of_seen_classes_alone(train):
    made = train("derpp", rows=ALL)
    assert made.memory.columns["logits"].shape[1] == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_method_predicts_seen_classes_and_comes_back_to_the_same_bits(train, images, same, tmp_path, name):
    made = train(name, batches=4, rows=ALL)
    [(x, _)] = images(1)
    assert made.network.rows == ALL
    assert made.scores(x).shape == (10, 4)
    assert set(made.predict(x)) <= {0, 1, 2, 3}
    made.save(tmp_path / "state")
    again = Learner.load(tmp_path / "state", device="cpu")
    assert again.rows == ALL
    for one in (made, again):
        one.boundary()
        for x, y in images(2, classes=ALL + 2, seed=7):  # more than it began with
            one.observe(x, y)
    assert same(made, again)
    assert made.network.rows == len(made.labels) > ALL


def test_a_run_over_all_classes_is_another_run_and_resumes(tmp_path):
    fields = {"backbone": "mlp(hidden=16)", "memory": 40, "softmax": "all"}
    spec = Spec.make(method="uer", **fields)
    assert spec.key != Spec.make(method="uer", **{**fields, "softmax": "seen"}).key
    whole = run(spec, tmp_path / "whole")
    asked = iter(range(150))
    with pytest.raises(Interrupted):
        run(spec, tmp_path / "stopped", stop=lambda: next(asked, None) is None)
    run(spec, tmp_path / "stopped")
    first, second = (Folder(tmp_path / name, spec).path / "metrics.jsonl" for name in ("whole", "stopped"))
    assert first.read_bytes() == second.read_bytes()
    for stage, record in enumerate(whole.records, 1):
        assert len(record["head"]["norm"]) == len(record["probability"]) == len(record["arrival"]) == 2 * stage
    assert len(whole.records[-1]["confusion"]) == 10


def test_a_wrong_number_is_one_sentence(learner):
    with pytest.raises(errors.InputError, match="number of 'rows' of a learner must be a whole number"):
        learner("er", rows=-1)
