"""Many threads at one learner: they learn in turns, and predict by the last complete step."""

import copy
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from evenhand import Learner, errors

X = torch.rand(400, 6, generator=torch.Generator().manual_seed(0))
Y = [f"class {int(8 * row.mean())}" for row in X]


class Slow(nn.Module):
    """Waits in training mode until it may go on."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 2)
        self.go, self.within = threading.Event(), threading.Event()
        self.go.set()

    def forward(self, x):
        if self.training:
            self.within.set()
            assert self.go.wait(30)
        return self.last(torch.relu(self.first(x)))


def fresh_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def small(method="uer", **options):
    return Learner(fresh_model(), method, memory=40, device="cpu", **options)


@pytest.mark.parametrize("method", ["uer", "er_ace", "scr", "uer+ema", "gmed", "derpp"])
def test_four_threads_learn_two_hundred_batches(method, tmp_path):
    augment = {"augment": lambda x: x + torch.randn_like(x) / 10, "views": "concat"} if method == "scr" else {}
    learner = small(method, **augment)
    started = threading.Barrier(4)

    def learn(first):
        started.wait()
        for start in range(first, 400, 16):
            learner.observe(X[start : start + 4], Y[start : start + 4])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(learn, range(0, 16, 4)))
    assert learner.steps == 100
    assert learner.network.rows == len(learner.labels) == len(set(Y))
    learner.save(tmp_path / "learner")
    given = {"augment": augment["augment"]} if augment else {}
    back = Learner.load(tmp_path / "learner", fresh_model(), device="cpu", **given)
    assert torch.equal(back.scores(X), learner.scores(X))


def test_threads_that_take_turns_learn_what_one_learns(same):
    alone, shared = small(), small()
    turn = [0]
    ready = threading.Condition()

    def learn(number):
        for index in range(number, 40, 4):
            with ready:
                ready.wait_for(lambda index=index: turn[0] == index)
                shared.observe(X[10 * index : 10 * index + 10], Y[10 * index : 10 * index + 10])
                turn[0] += 1
                ready.notify_all()

    for index in range(40):
        alone.observe(X[10 * index : 10 * index + 10], Y[10 * index : 10 * index + 10])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(learn, range(4)))
    assert same(alone, shared)


@pytest.mark.parametrize("method", ["uer", "uer+ema", "uer+ncm", "scr"])
def test_predictions_beside_learning_are_those_of_a_complete_step(method):
    """Every answer must be one that the learner gives between two steps."""
    augment = {"augment": lambda x: x, "views": "concat"} if method == "scr" else {}
    allowed = []
    alone, shared = small(method, **augment), small(method, **augment)
    for start in range(0, 200, 10):
        alone.observe(X[start : start + 10], Y[start : start + 10])
        allowed.append(alone.scores(X[:5]))
    shared.observe(X[:10], Y[:10])
    done, wrong, seen = threading.Event(), [], set()

    def ask():
        while not done.is_set():
            scores = shared.scores(X[:5])
            fits = [i for i, each in enumerate(allowed) if each.shape == scores.shape and torch.equal(each, scores)]
            wrong.extend([] if fits else [scores])
            seen.update(fits)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for start in range(10, 200, 10):
        shared.observe(X[start : start + 10], Y[start : start + 10])
        time.sleep(0.005)
    done.set()
    for asker in askers:
        asker.join()
    assert not wrong
    assert len(seen) > 1


@pytest.mark.parametrize("tests", ["", "ema", "ncm"])
def test_a_prediction_does_not_wait_for_the_step(tests):
    model = Slow()
    learner = Learner(model, "uer", memory=20, tests=tests, device="cpu")
    learner.observe(X[:10], Y[:10])
    before = small_state(learner, tests)
    model.go.clear()
    model.within.clear()
    step = threading.Thread(target=learner.observe, args=(X[10:20], ["new"] * 10))
    step.start()
    assert model.within.wait(30)
    during = small_state(learner, tests)  # this would wait for ever if it waited for the step
    assert step.is_alive()
    model.go.set()
    step.join()
    assert all(torch.equal(a, b) for a, b in zip(before[0], during[0], strict=True))
    assert before[1] == during[1]
    assert small_state(learner, tests)[0][0].shape[1] == before[0][0].shape[1] + 1


def test_a_signal_handler_may_predict_at_any_moment():
    learner, seen = small("uer", tests="ncm"), []
    learner.observe(X[:20], Y[:20])

    def ask(*_):
        seen.append(learner.predict(X[:5]) + learner.predict(X[:5], test="ncm"))
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # not before, or slow predictions would pile up

    before = signal.signal(signal.SIGALRM, ask)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        for start in range(0, 400, 4):  # a handler that waited for its own thread would wait for ever
            learner.observe(X[start : start + 4], Y[start : start + 4])
            learner.predict(X[:5])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) > 10


def test_a_signal_handler_cannot_copy_or_save_half_a_step(tmp_path):
    learner, told = small("uer"), []
    learner.observe(X[:20], Y[:20])

    def ask(*_):
        for read in (copy.deepcopy, lambda learner: learner.save(tmp_path / "half")):
            with pytest.raises(errors.RunError, match=r"A step is under way\. \w+ the learner when it has ended"):
                read(learner)
            told.append(read)

    storage = learner.method.storage
    learner.method = learner.method.but(storage=lambda *given: (ask(), storage(*given)))
    learner.observe(X[20:40], Y[20:40])
    assert len(told) == 2
    assert not (tmp_path / "half").exists()
    assert copy.deepcopy(learner).steps == 2


def test_a_signal_handler_may_predict_while_the_shape_of_samples_is_spelled():
    learner, seen = small("uer"), []
    learner.observe(X[:20], Y[:20])
    before = learner.predict(X[:5])

    class Interrupted(int):
        def __repr__(self):
            seen.append(learner.predict(X[:5]))
            return "6"

    learner.memory.kind = learner.kind._replace(shape=(Interrupted(6),))
    learner.changed()
    assert str(learner.kind) == "float32 (6,)"
    assert seen == [before]


def test_loading_a_state_waits_for_the_step(same):
    model = Slow()
    learner, other = Learner(model, "uer", memory=20, device="cpu"), Learner(Slow(), "uer", memory=20, device="cpu")
    for each in (learner, other):
        each.observe(X[:10], Y[:10])
    model.go.clear()
    model.within.clear()
    with ThreadPoolExecutor(2) as pool:
        step = pool.submit(learner.observe, X[10:20], Y[:10])
        assert model.within.wait(30)
        load = pool.submit(learner.load_state_dict, other.state_dict(), other.facts())
        time.sleep(0.05)
        assert not load.done()
        model.go.set()
        step.result()
        load.result()
    assert same(learner, other)


def test_what_was_computed_is_not_dropped_within_a_step():
    model = Slow()
    learner = Learner(model, "uer", memory=20, device="cpu")
    learner.observe(X[:10], Y[:10])
    before = learner.scores(X[:5])
    model.go.clear()
    model.within.clear()
    threads = [threading.Thread(target=learner.observe, args=(X[10:20], ["new"] * 10))]
    threads[0].start()
    assert model.within.wait(30)
    threads.append(threading.Thread(target=learner.changed))
    threads[1].start()
    threads[1].join(0.2)
    during = learner.scores(X[:5])  # of a step that has registered the new class
    model.go.set()
    for thread in threads:
        thread.join()
    assert torch.equal(before, during)


def small_state(learner, tests):
    return [learner.scores(X[:5], test=tests)], learner.predict(X[:5], test=tests)


def test_saving_beside_learning_saves_a_complete_step(tmp_path):
    learner = small()

    def learn():
        for start in range(0, 400, 4):
            learner.observe(X[start : start + 4], Y[start : start + 4])

    thread = threading.Thread(target=learn)
    thread.start()
    count = 0
    while thread.is_alive():
        learner.save(tmp_path / f"{count}")
        count += 1
    assert learner.steps == 100
    for number in range(count):
        back = Learner.load(tmp_path / f"{number}", fresh_model(), device="cpu")
        assert back.memory.offered == 4 * back.steps
        assert back.network.rows == len(back.labels)


def test_counts_are_right_while_another_thread_forgets():
    learner = Learner(nn.Linear(6, 2), "er", memory=300, device="cpu")
    learner.observe(X[:4], ["gone"] * 4)
    learner.forget(label="gone")
    seen, done = [], threading.Event()

    def look():
        while not done.is_set():
            seen.append("gone" in learner.memory.label_counts())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            for _ in range(100):
                learner.remember(X[:200], ["there"] * 200)
                learner.forget(label="there")
            done.set()
            looking.result()
    finally:
        sys.setswitchinterval(before)
    assert seen
    assert not any(seen)


def test_a_copy_made_while_another_thread_learns_is_of_a_complete_step(same):
    models = Slow(), Slow()
    models[1].load_state_dict(models[0].state_dict())
    learner, twin = (Learner(model, "uer", memory=20, replay=4, device="cpu") for model in models)
    for each in (learner, twin):
        each.observe(X[:6], Y[:6])
    models[0].go.clear()
    models[0].within.clear()
    step = threading.Thread(target=learner.observe, args=(X[6:12], Y[6:12]))
    step.start()
    assert models[0].within.wait(30)
    threading.Timer(0.1, models[0].go.set).start()
    copied = copy.deepcopy(learner)
    step.join()
    twin.observe(X[6:12], Y[6:12])
    assert same(copied, twin)


def test_a_slow_prediction_leaves_nothing_that_grows():
    learner = small()
    learner.observe(X[:6], Y[:6])
    with learner.snapshots.asked(learner):
        learner.observe(X[:6], Y[:6])
        learner.observe(X[:6], Y[:6])
    for _ in range(100):
        learner.observe(X[:6], Y[:6])
    watching = [snapshot.memory for snapshot in learner.snapshots.pool if snapshot.memory is not None]
    assert len(watching) == 1
    assert len(watching[0].replaced) < 10
