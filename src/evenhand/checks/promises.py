"""The promises of a method, one function each; its docstring is the promise."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError
from pathlib import Path
from unittest.mock import patch

import torch

from evenhand import errors
from evenhand.checks.fixtures import (
    BrokenError,
    Subject,
    batches,
    changed,
    demand,
    everything,
    feed,
    final_accuracy,
    learner_of,
    step_flops,
    two_stages,
    unchanged,
)
from evenhand.core import registry
from evenhand.core.learner import Learner
from evenhand.core.method import SLOTS, Method

Check = Callable[[Subject], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Register a function as a check, under its name with spaces."""
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


# A value -------------------------------------------------------------------------------------------------------------


@check
def frozen_and_json(subject: Subject) -> None:
    """A method is frozen, hashes, and survives a round trip through JSON."""
    for slot in SLOTS:
        part = getattr(subject.method, slot)
        try:
            part.anything = 1
        except (FrozenInstanceError, AttributeError, TypeError):
            continue
        raise BrokenError(f"the part in the slot '{slot}' can be changed")
    hash(subject.method)
    demand(
        Method.from_json(subject.method.to_json()) == subject.method,
        "the method differs after a round trip through JSON",
    )


# Streams of every kind -----------------------------------------------------------------------------------------------


@check
def batch_of_one(subject: Subject) -> None:
    """Single samples can be learned."""
    feed(learner_of(subject), batches(12, size=1), batches(4, classes=(2, 3), size=1))


@check
def batch_of_one_class(subject: Subject) -> None:
    """A stream may begin with a single class, and have batches of one class later."""
    learner = feed(learner_of(subject), batches(4, classes=(0,)), batches(4, classes=(1,)))
    demand(set(learner.predict(batches(1)[0][0])) <= {0, 1}, "predicted a class that was never seen")


@check
def memory_of_any_size(subject: Subject) -> None:
    """The memory may hold nothing, one sample, or fewer than are replayed."""
    for size in (0, 1, 3):
        learner = feed(learner_of(subject, memory=size), *two_stages())
        demand(len(learner.memory) <= size, f"{len(learner.memory)} samples in a memory of {size}")


@check
def objective_without_memory(subject: Subject) -> None:
    """The objective works without a memory, and changes nothing except running statistics."""
    learner = feed(learner_of(subject), *two_stages())
    batch = learner.recall(torch.arange(min(5, len(learner.memory))))
    if batch is None:
        return
    before = everything(learner)
    subject.method.objective(learner, batch, None)
    names = [name for name in changed(before, everything(learner)) if "running_" not in name and "tracked" not in name]
    demand(not names, f"the objective changed {', '.join(names)}")


@check
def new_class_late(subject: Subject) -> None:
    """A class may arrive at any time, together with old ones."""
    learner = feed(learner_of(subject), *two_stages(), batches(2, classes=(0, 9), start=20))
    demand(learner.labels == [0, 1, 2, 3, 9], f"the labels became {learner.labels}")
    demand(learner.scores(batches(1)[0][0]).shape == (5, 5), "the scores do not cover the new class")


@check
def labels_of_any_kind(subject: Subject) -> None:
    """Labels may be strings or large numbers; predictions do not depend on them."""
    names = {0: "zero", 1: "one", 2: -7, 3: 10**6}
    plain = feed(learner_of(subject), *two_stages())
    named = learner_of(subject)
    feed(named, *([(x, [names[i] for i in y.tolist()]) for x, y in stage] for stage in two_stages()))
    x = batches(1, classes=(0, 1, 2, 3), start=30)[0][0]
    demand(named.predict(x) == [names[i] for i in plain.predict(x)], "the predictions depend on the labels")


@check
def finite_on_blank_images(subject: Subject) -> None:
    """Black and white images, whose features may be zero, leave all weights finite."""
    learner = learner_of(subject)
    for number, value in enumerate((0, 255, 0, 255, 0, 255)):
        learner.observe(torch.full((4, 1, 28, 28), value, dtype=torch.uint8), [number % 2] * 4)
    weights = learner.network.state_dict().items()
    bad = [name for name, tensor in weights if not torch.isfinite(tensor.float()).all()]
    demand(not bad, f"{', '.join(bad)} became infinite or NaN")


# Predicting ----------------------------------------------------------------------------------------------------------


@check
def predict_needs_a_class(subject: Subject) -> None:
    """Predicting before observing raises a clear error."""
    try:
        learner_of(subject).predict(batches(1)[0][0])
    except errors.InputError:
        return
    raise BrokenError("predicting before observing did not raise an InputError")


@check
def predicts_seen_classes(subject: Subject) -> None:
    """Only seen classes are predicted, and no score is NaN."""
    learner = feed(learner_of(subject), *two_stages())
    x = torch.cat([x for x, _ in batches(8, classes=tuple(range(10)), start=40)])
    demand(set(learner.predict(x)) <= {0, 1, 2, 3}, "predicted a class that was never seen")
    demand(not learner.scores(x).isnan().any(), "scores are NaN")


@check
def predict_changes_nothing(subject: Subject) -> None:
    """Predicting changes no weight, statistic, memory, generator or mode, and repeats to the same bits."""
    learner = feed(learner_of(subject), *two_stages())
    x = batches(1, start=40)[0][0]
    with unchanged(learner, "predict"):
        first = learner.scores(x)
        demand(torch.equal(first, learner.scores(x)), "two calls with the same samples gave different scores")


@check
def predicting_leaves_no_trace(subject: Subject) -> None:
    """A learner that predicts after every step ends with the same bits as one that never does."""
    silent, predicting = feed(learner_of(subject), *two_stages()), learner_of(subject)
    x = batches(1, start=40)[0][0]
    for stage in two_stages():
        for samples, labels in stage:
            predicting.observe(samples, labels)
            predicting.predict(x)
        if predicting.method.parts("boundary"):
            predicting.boundary()
    demand(not (names := changed(everything(silent), everything(predicting))), f"predicting changed {', '.join(names)}")
    demand(torch.equal(silent.scores(x), predicting.scores(x)), "the scores differ, though the learners do not")


@check
def further_tests_leave_no_trace(subject: Subject) -> None:
    """With further ways to test, averaged weights among them, training ends with the same bits."""
    plain = feed(learner_of(subject), *two_stages())
    tested = feed(learner_of(subject, tests="dot, cos, ema"), *two_stages())
    own, more = everything(plain), everything(tested)
    added = [name for name in more if name.startswith(("kept/network/ema.", "kept/tensor/ema."))]
    names = [name for name in changed(own, more) if name not in ("facts", *added)]
    demand(bool(added), "the average of the weights is not part of the state")
    demand(not names, f"further tests changed {', '.join(names)}")


@check
def averaged_weights_answer(subject: Subject) -> None:
    """With `+ema`, a test uses the averaged weights and nothing else of the network."""
    learner = feed(learner_of(subject, tests="ema"), *two_stages())
    x = batches(1, classes=(0, 1, 2, 3), start=40)[0][0]
    averaged = learner.scores(x, test="ema")
    average = learner.ways.method("ema").weights(learner)
    learner.network.load_state_dict(average.state_dict())
    for name in [name for name in learner.kept if name.startswith("ema.")]:
        del learner.kept[name]  # also an average of the method's own
    learner.changed()
    demand(torch.equal(averaged, learner.scores(x)), "the scores are not those of the averaged weights")


# Learning ------------------------------------------------------------------------------------------------------------


@check
def gradients_reach_the_trunk(subject: Subject) -> None:
    """Five steps with two classes and a memory move every parameter of the trunk."""
    learner = feed(learner_of(subject), batches(4))
    before = {name: p.detach().clone() for name, p in learner.network.trunk.named_parameters()}
    feed(learner, batches(5, start=4))
    still = [name for name, p in learner.network.trunk.named_parameters() if torch.equal(p, before[name])]
    demand(not still, f"no step moved {', '.join(still)}")


@check
def same_seed_same_bits(subject: Subject) -> None:
    """The seed decides everything; the method does not use torch's global generator, which is left to Dropout."""
    torch.manual_seed(1)
    first = everything(feed(learner_of(subject, augment="scr", views="concat"), *two_stages()))
    torch.manual_seed(2)
    state = torch.get_rng_state()
    fresh = learner_of(subject, augment="scr", views="concat")
    unused = fresh.generators["network"].get_state()
    second = everything(feed(fresh, *two_stages()))
    demand(not (names := changed(first, second)), f"the same seed gave different bits in {', '.join(names)}")
    demand(torch.equal(state, torch.get_rng_state()), "learning moved torch's global generator")
    demand(torch.equal(unused, second["generator/network"]), "the method drew from torch's global generator")


@check
def resumes_to_the_same_bits(subject: Subject) -> None:
    """A learner saved and loaded in the middle of a stage ends with the same bits as one that was not."""
    first, second = two_stages()
    whole = feed(learner_of(subject), first, second)
    halfway = feed(learner_of(subject), first)
    for x, y in second[:3]:
        halfway.observe(x, y)
    with tempfile.TemporaryDirectory() as folder:
        halfway.save(path := Path(folder) / "learner.safetensors")
        loaded = Learner.load(path, device="cpu", precision=subject.precision)
    feed(loaded, second[3:])
    demand(not (names := changed(everything(whole), everything(loaded))), f"resuming changed {', '.join(names)}")


@check
def failed_step_leaves_no_trace(subject: Subject) -> None:
    """A step that is interrupted when the weights have moved leaves the learner as it was."""
    learner = feed(learner_of(subject), *two_stages())
    before, step = everything(learner), learner.optimizer.step

    def interrupted() -> None:
        step()
        raise KeyboardInterrupt

    with patch.object(learner.optimizer, "step", interrupted), suppress(KeyboardInterrupt):
        learner.observe(*batches(1, classes=(0, 9), start=30)[0])
        return  # the method took no step of the optimizer
    names = changed(before, everything(learner))
    demand(not names, f"an interrupted step changed {', '.join(names)}")


@check
def bounded_memory(subject: Subject) -> None:
    """A learner keeps at most as many raw images as its memory has slots, wherever it keeps them."""
    learner = feed(learner_of(subject, memory=7), *two_stages())
    kept = [len(t) for t in learner.state_dict().values() if t.ndim > 1 and t.shape[1:] == (1, 28, 28)]
    demand(sum(kept) <= 7, f"it keeps {sum(kept)} images with a memory of 7")


@check
def boundaries_only_where_declared(subject: Subject) -> None:
    """A method without `boundary` does not notice the end of a stage."""
    if subject.method.parts("boundary"):
        return
    learner = feed(learner_of(subject), *two_stages())
    with unchanged(learner, "boundary"):
        learner.boundary()


@check
def learns(subject: Subject) -> None:
    """On the embedded images, with a fixed seed, it ends at least 10 points above FINE-TUNE."""
    floor = final_accuracy(registry.resolve("finetune"), subject.precision)
    reached = final_accuracy(subject.method, subject.precision)
    demand(reached >= floor + 0.1, f"{100 * reached:.1f} %, but FINE-TUNE reaches {100 * floor:.1f} %")


@check
def cost_as_documented(subject: Subject) -> None:
    """The floating-point operations of a step agree with the documented C_D."""
    if subject.cost is None:
        return
    measured = step_flops(subject.method) / step_flops(registry.resolve("er"))
    off = abs(measured / subject.cost - 1)
    demand(off <= subject.tolerance, f"C_D is {measured:.3f}, but documented as {subject.cost:g}")
