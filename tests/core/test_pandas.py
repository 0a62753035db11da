"""Tables and series of pandas, as samples and labels."""

import pytest
import torch
from torch import nn

from evenhand import Learner
from evenhand.errors import InputError

pytestmark = pytest.mark.slow
ROWS = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]


@pytest.mark.parametrize("kind", ["object", "category", "string", "int64", "Int64", "boolean", "float64"])
def test_frames_and_series_are_learned(kind):
    import pandas as pd

    labels = {"int64": [1, 0, 1], "Int64": [1, 0, 1], "boolean": [True, False, True], "float64": [1.0, 0.0, 1.0]}
    y = pd.Series(labels.get(kind, ["a", "b", "a"]), index=[7, 3, 5], dtype=kind)
    x = pd.DataFrame(ROWS, columns=list("abc"), index=y.index)
    learner = Learner(nn.Linear(3, 2), "er", memory=6, device="cpu")
    learner.observe(x, y)
    assert learner.memory.columns["x"][:3].tolist() == ROWS
    assert learner.labels == list(dict.fromkeys(y.tolist()))
    assert type(learner.labels[0]) is {"Int64": int, "int64": int, "float64": int, "boolean": bool}.get(kind, str)
    learner.observe(x, pd.Categorical(y) if kind == "category" else y)
    assert len(learner.labels) == 2
    assert torch.equal(learner.scores(x), learner.scores(torch.tensor(ROWS)))


def test_missing_labels_and_columns_are_refused():
    import pandas as pd

    learner = Learner(nn.Linear(3, 2), "er", memory=6, device="cpu")
    x = pd.DataFrame(ROWS)
    for y in (pd.Series([1, None, 2], dtype="Int64"), pd.Series(["a", None, "b"]), pd.DataFrame({"y": [1, 2, 3]})):
        with pytest.raises(InputError, match="label"):
            learner.observe(x, y)
    with pytest.raises(InputError, match="Samples must be numbers"):
        learner.observe(pd.DataFrame({"a": ["x", "y", "z"]}), [1, 2, 3])
    assert learner.labels == []


def test_columns_of_a_frame_are_told_by_name(tmp_path):
    import pandas as pd

    x = pd.DataFrame(ROWS, columns=list("abc"))
    learner = Learner(nn.Linear(3, 2), "er", memory=6, device="cpu")
    learner.observe(x, [0, 1, 0])
    learner.observe(torch.tensor(ROWS), [0, 1, 0])  # without names, by position
    learner.save(tmp_path / "state")
    for asked in (learner, Learner.load(tmp_path / "state", nn.Linear(3, 2), device="cpu")):
        assert torch.equal(asked.scores(x[list("cab")]), asked.scores(x))
        with pytest.raises(InputError, match="The column 'b', which the first samples had, is missing"):
            asked.predict(x.rename(columns={"b": "d"}))


def test_columns_of_several_types():
    import pandas as pd

    plain = pd.DataFrame(ROWS, columns=list("abc"))
    mixed = plain.assign(b=[True, False, True], c=plain.c.astype("Float64"))
    learner = Learner(nn.Linear(3, 2), "er", memory=6, device="cpu")
    learner.observe(mixed, [0, 1, 0])
    assert learner.memory.samples()[0].tolist() == [[0, 1, 2], [3, 0, 5], [6, 1, 8]]
    with pytest.raises(InputError, match="must be finite"):
        learner.observe(mixed.assign(c=pd.array([1.0, None, 2.0], dtype="Float64")), [0, 1, 0])
    with pytest.raises(InputError, match="Samples must be numbers"):
        learner.observe(plain.assign(b=list("xyz")), [0, 1, 0])


def test_a_row_of_a_frame_is_no_batch():
    import pandas as pd

    frame = pd.DataFrame(ROWS).astype("Float64")
    learner = Learner(nn.Linear(3, 2), "er", memory=6, device="cpu")
    learner.observe(frame, [0, 1, 0])
    with pytest.raises(InputError, match="A batch must hold at least one sample"):
        learner.predict(frame.iloc[0])
