"""A learner as a river classifier, for its pipelines, metrics and evaluations."""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import nan
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from evenhand import errors
from evenhand.adapters.wrapped import Array, Shape, new_learner, observe, probabilities
from evenhand.core.labels import Label
from evenhand.core.learner import Learner
from evenhand.core.settings import Settings

try:
    from river.base import MiniBatchClassifier
except ImportError as error:
    raise ImportError("This adapter needs river. Install it with pip install 'evenhand[river]'.") from error

if TYPE_CHECKING:
    import pandas as pd


class EvenhandClassifier(MiniBatchClassifier):
    """A river classifier that learns with a small memory of the past and takes new classes at any time.

    A step learns one sample, or all rows of a frame, together with samples from the memory. Features are numbers; a
    missing one counts as 0.

    Parameters
    ----------
    network
        A torch module, which is copied and never changed; or a function that takes the shape of a sample and returns
        a module, such as one of our backbones; by default an `MLP`.
    method
        A name such as "uer" or "uer(alpha=0.3)", or a `Method`.
    features
        The names of all features, in the order in which the network takes them; by default those of the first sample,
        sorted.
    memory
        Number of samples the memory can hold.
    replay
        Samples per step from the memory.
    iterations
        How many times to learn each sample.
    lr
        Learning rate of SGD, for features that are scaled to about 1.
    seed
        Seed of all random draws.
    device
        A torch device; "auto" uses a GPU if there is one.

    Attributes
    ----------
    learner
        The underlying `Learner`; None before the first sample.

    Examples
    --------
    >>> from evenhand.adapters.river import EvenhandClassifier
    >>> model = EvenhandClassifier()
    >>> model.predict_one({"heat": 1.0, "wind": 0.0})
    >>> model.learn_one({"heat": 1.0, "wind": 0.0}, "summer")
    >>> model.predict_one({"heat": 1.0, "wind": 0.0})
    'summer'
    """

    def __init__(
        self,
        network: nn.Module | Callable[[Shape], nn.Module] | None = None,
        method: Any = "uer",
        features: Sequence[Hashable] | None = None,
        memory: int = 1000,
        replay: int = Settings.replay,
        iterations: int = Settings.iterations,
        lr: float = Settings.lr,
        seed: int = Settings.seed,
        device: str = "auto",
    ) -> None:
        self.network = network
        self.method = method
        self.features = features
        self.memory = memory
        self.replay = replay
        self.iterations = iterations
        self.lr = lr
        self.seed = seed
        self.device = device
        self.learner: Learner | None = None
        self._columns: dict[Hashable, None] = {}  # the names, in order

    @property
    def _multiclass(self) -> bool:
        return True

    def _unit_test_skips(self) -> set[str]:
        return {"check_learn_many_matches_learn_one"}  # many samples are one step, not many

    def learn_one(self, x: Mapping[Hashable, Any], y: Label) -> None:
        """Learn one sample."""
        self._learn(x, [y])

    def learn_many(self, X: "pd.DataFrame", y: "pd.Series") -> None:
        """Learn the rows of a frame in one step."""
        self._learn(X, list(y))

    def predict_one(self, x: Mapping[Hashable, Any], **_: Any) -> Label | None:
        """The most likely label; None before the first sample."""
        return self.learner.predict(self._samples(x))[0] if self.learner else None

    def predict_proba_one(self, x: Mapping[Hashable, Any], **_: Any) -> dict[Label, float]:
        """The probability of each label seen so far."""
        if self.learner is None:
            return {}
        table, labels = probabilities(self.learner, self._samples(x))
        return dict(zip(labels, table[0].tolist(), strict=True))

    def predict_many(self, X: "pd.DataFrame") -> "pd.Series":
        """The most likely label of each row; None before the first sample."""
        import pandas as pd

        labels = self.learner.predict(self._samples(X)) if self.learner else [None] * len(X)
        return pd.Series(labels, index=X.index)

    def predict_proba_many(self, X: "pd.DataFrame") -> "pd.DataFrame":
        """The probability of each label seen so far, for each row."""
        import pandas as pd

        if self.learner is None:
            return pd.DataFrame(index=X.index)
        table, labels = probabilities(self.learner, self._samples(X))
        return pd.DataFrame(table, index=X.index, columns=labels)

    def _learn(self, x: Any, labels: list[Label]) -> None:
        learner = self.learner
        if learner is None:
            self._columns = dict.fromkeys(sorted(x, key=str) if self.features is None else self.features)
            if not self._columns:
                raise errors.InputError("A sample must have at least one feature.")
            names = ("method", "memory", "replay", "iterations", "lr", "seed", "device")
            settings = {name: getattr(self, name) for name in names}
            learner = new_learner(self.network, (len(self._columns),), **settings)
        observe(learner, self._samples(x), labels)
        self.learner = learner  # only now, so that a first sample that fails changes nothing

    def _samples(self, x: Any) -> Array:
        """The features of a sample, or of the rows of a frame, in the order of the columns."""
        frame = not isinstance(x, Mapping)
        if frame and not (hasattr(x, "columns") and x.columns.is_unique):
            raise errors.InputError("Samples must be a dict, or a DataFrame whose columns all have different names.")
        if others := [name for name in x if name not in self._columns]:
            why, then = "is not among features=...", ""
            if self.features is None:
                why = "was not in the first sample"
                then = " Name all features in features=..., or hash them with river's FeatureHasher."
            warnings.warn(f"The feature {others[0]!r} {why} and is left out.{then}", stacklevel=4)
        if frame:
            values: Any = x.reindex(columns=list(self._columns), fill_value=0)
            wrong = [name for name, kind in values.dtypes.items() if kind.kind not in "biuf"]
        else:
            row = {name: x.get(name, 0) for name in self._columns}
            wrong = [name for name, value in row.items() if not isinstance(value, Real | np.bool_)]
            values = [list(row.values())]
        if wrong:
            raise errors.InputError(
                f"The feature {wrong[0]!r} must be a number. Encode others, e.g. with river's OneHotEncoder."
            )
        try:
            return np.asarray(values.to_numpy(np.float32, na_value=nan) if frame else values, np.float32)
        except OverflowError:
            raise errors.InputError("Features must be below 3.4e38, the largest float32.") from None
