"""A learner as a scikit-learn classifier, for pipelines, cross-validation and searches."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from evenhand import errors
from evenhand.adapters.wrapped import Array, Shape, new_learner, observe, probabilities
from evenhand.core import draws
from evenhand.core.learner import Learner
from evenhand.core.settings import Settings, plain

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "This adapter needs scikit-learn 1.6 or later. Install it with pip install 'evenhand[sklearn]'."
    ) from error


class EvenhandClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier that keeps learning: `partial_fit` takes new classes at any time.

    Parameters
    ----------
    network
        A torch module, which is copied and never changed; or a function that takes the shape of a sample and returns
        a module, such as one of our backbones; by default an `MLP`.
    method
        A name such as "uer" or "uer(alpha=0.3)", or a `Method`.
    memory
        Number of samples the memory can hold.
    batch
        Samples per step.
    replay
        Samples per step from the memory.
    iterations
        How many times to learn each batch. Raise it for small data: `fit` shows every sample once.
    lr
        Learning rate of SGD, for features that are scaled to about 1.
    random_state
        Seed of all draws, or a numpy RandomState; None draws a new seed every time.
    device
        A torch device; "auto" uses a GPU if there is one.

    Attributes
    ----------
    learner_
        The underlying `Learner`.
    classes_
        The labels known so far, sorted.

    Examples
    --------
    >>> from evenhand.adapters.sklearn import EvenhandClassifier
    >>> model = EvenhandClassifier(random_state=0).partial_fit([[0.0, 1.0], [1.0, 0.0]], ["up", "right"])
    >>> model.partial_fit([[0.0, -1.0]], ["down"]).classes_.tolist()
    ['down', 'right', 'up']
    """

    def __init__(
        self,
        network: nn.Module | Callable[[Shape], nn.Module] | None = None,
        method: Any = "uer",
        *,
        memory: int = 1000,
        batch: int = Settings.batch,
        replay: int = Settings.replay,
        iterations: int = Settings.iterations,
        lr: float = Settings.lr,
        random_state: Any = 0,
        device: str = "auto",
    ) -> None:
        self.network = network
        self.method = method
        self.memory = memory
        self.batch = batch
        self.replay = replay
        self.iterations = iterations
        self.lr = lr
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Start over and learn all samples, each once, in random order."""
        before = vars(self).copy()
        try:
            x, labels = self._checked(X, y, reset=True)
            learner = self._new_learner(x)
            order = torch.randperm(len(x), generator=draws.generator(learner.seed, "order")).numpy()
            return self._learn(learner, x[order], labels[order], unique_labels(labels))
        except BaseException:
            self.__dict__ = before  # a failed fit replaces nothing
            raise

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn more samples in the given order, batch by batch; `classes` may name labels that are still to come."""
        first = not hasattr(self, "learner_")
        x, labels = self._checked(X, y, reset=first)
        known = [labels, *([] if first else [self.classes_]), *([] if classes is None else [classes])]
        return self._learn(self._new_learner(x) if first else self.learner_, x, labels, unique_labels(*known))

    def predict(self, X: Any) -> Array:
        """The most likely label of each sample."""
        check_is_fitted(self, "learner_")
        return np.array(self.learner_.predict(self._checked(X)), dtype=self.classes_.dtype)

    def predict_proba(self, X: Any) -> Array:
        """The probability of each label, in the order of `classes_`; 0 for those that are still to come."""
        check_is_fitted(self, "learner_")
        seen, labels = probabilities(self.learner_, self._checked(X))
        classes = self.classes_
        table = np.zeros((len(seen), len(classes)))
        table[:, np.searchsorted(classes, np.array(labels, classes.dtype))] = seen
        return table

    def _new_learner(self, x: Array) -> Learner:
        given = self.random_state
        seed = int(given) if isinstance(given, Integral) else check_random_state(given).randint(2**31)
        settings = {name: getattr(self, name) for name in ("method", "memory", "replay", "iterations", "lr", "device")}
        return new_learner(self.network, x.shape[1:], seed=seed, **settings)

    def _learn(self, learner: Learner, x: Array, y: Array, classes: Array) -> Self:
        errors.whole("The 'batch' of a classifier", plain(self.batch), 1)
        before = getattr(self, "classes_", classes)
        if further := learner is getattr(self, "learner_", None):
            self.classes_ = classes  # first: another thread may predict, and earlier batches stay if a later one fails
        for start in range(0, len(x), self.batch):
            here = slice(start, start + self.batch)
            try:
                observe(learner, x[here], y[here].tolist())
            except BaseException:
                if further and not start:
                    self.classes_ = before
                raise
        self.learner_, self.classes_ = learner, classes
        return self

    def _checked(self, X: Any, *y: Any, reset: bool = False) -> Any:
        """Samples as floats, or images as uint8; with their labels if these are given."""
        checked = validate_data(self, X, *y, reset=reset, allow_nd=True)
        x = checked[0] if y else checked
        x = x if x.dtype == np.uint8 and x.ndim == 4 else x.astype(np.float32)
        return (x, checked[1]) if y else x
