"""Precision: the trunk in bfloat16, everything that is kept in float32, whatever surrounds the learner."""

import warnings

import pytest
import torch
from torch import nn

from core.made import X, Y, classifier, mlp, pictures, small
from evenhand import Learner, errors
from evenhand.backbones import MLP
from evenhand.core import precision
from evenhand.core.precision import chosen
from evenhand.core.settings import Conditions
from evenhand.experiment.run import Note, run
from evenhand.experiment.spec import Spec

CPU = torch.device("cpu")


@pytest.fixture
def native(monkeypatch):
    """Pretend that the hardware multiplies bfloat16, or that it does not."""

    def pretend(value):
        monkeypatch.setattr(precision, "native", lambda device: value)

    pretend(True)
    return pretend


def test_auto_follows_the_hardware(native):
    assert chosen("auto", CPU) == chosen("bf16", CPU) == "bf16"
    native(False)
    assert chosen("auto", CPU) == chosen("fp32", CPU) == "fp32"
    with pytest.warns(UserWarning, match="This hardware emulates bf16: it will be slower than fp32"):
        assert chosen("bf16", CPU) == "bf16"


def test_the_hardware_is_asked(monkeypatch):
    for amx, avx in ((True, False), (False, True), (False, False)):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda value=amx: value)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda value=avx: value)
        assert precision.native(CPU) == (amx or avx)


def test_the_trunk_computes_in_bfloat16_and_nothing_is_kept_in_it(native, learner, images):
    made, seen = learner("uer", precision="bf16", tests="ema"), []
    (x, y), *others = images(4)
    made.observe(x, y)  # the first sample is tried out on a copy of the trunk, in float32
    made.network.trunk.register_forward_hook(lambda module, x, h: seen.append(h.dtype))
    for x, y in others:
        made.observe(x, y)
    assert set(seen) == {torch.bfloat16}
    kinds = {tensor.dtype for name, tensor in made.state_dict().items() if not name.startswith("memory/")}
    assert torch.bfloat16 not in kinds
    assert made.scores(images(1)[0][0]).dtype == torch.float32
    assert made.conditions["precision"] == "bf16"
    assert made.eval_copy().precision == made.folded_copy().precision == made.test_copy().precision == "fp32"


def test_bf16_learns_nearly_what_fp32_learns(native, train, images):
    plain, fast = (train("uer", batches=1, precision=name) for name in ("fp32", "bf16"))  # more steps amplify rounding
    x = images(1)[0][0]
    assert not torch.equal(plain.scores(x), fast.scores(x))
    assert torch.allclose(plain.scores(x), fast.scores(x), rtol=0, atol=0.02)


def test_a_learner_is_saved_in_one_precision_and_loaded_in_any(native, train, tmp_path, images, same):
    made = train("uer", precision="bf16")
    made.save(tmp_path / "state.safetensors")
    loaded = [Learner.load(tmp_path / "state.safetensors", device="cpu", precision=p) for p in ("bf16", "fp32")]
    for x, y in images(3):
        for one in (made, *loaded):
            one.observe(x, y)
    assert same(made, loaded[0])
    assert not same(made, loaded[1], but=["settings"])


def test_an_unknown_precision_is_refused(learner):
    with pytest.raises(
        errors.InputError, match="The 'precision' of a learner must be one of fp32, bf16, auto. Got 'fp16'"
    ):
        learner("uer", precision="fp16")


SPEC = Spec.make(method="uer", backbone="small_cnn", memory=20, stages=2, batch=50)


def test_a_run_records_its_precision_and_resumes_only_in_it(native, tmp_path):
    def interrupted(conditions):
        calls = iter(range(10**6))
        return run(SPEC, tmp_path, conditions=conditions, stop=lambda: next(calls) >= 2)

    with pytest.raises(Exception, match="Stopped at step 3"):
        interrupted(Conditions(precision="bf16"))
    with pytest.raises(errors.RunError, match="cannot resume to the same bits: precision was bf16 and is fp32"):
        run(SPEC, tmp_path)
    result = run(SPEC, tmp_path, conditions=Conditions(precision="auto"))
    assert result.environment["precision"] == "bf16"
    alone = run(SPEC, tmp_path / "alone", conditions=Conditions(precision="bf16"))
    assert alone.records == result.records
    assert run(SPEC, tmp_path / "plain").environment["precision"] == "fp32"
    assert run(SPEC, tmp_path / "plain").records != result.records


def test_a_run_says_that_bf16_will_be_slow(native, tmp_path):
    native(False)
    notes = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(SPEC, tmp_path, conditions=Conditions(precision="bf16"), report=notes.append)
    assert Note(SPEC.key, "This hardware emulates bf16: it will be slower than fp32.") in notes


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.filterwarnings("ignore:This hardware emulates bf16")
def test_an_autocast_around_the_loop_changes_nothing(precision, same):
    around, plain = small(precision=precision), small(precision=precision)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(4):
            around.observe(X, Y)
        assert around.scores(X).dtype == torch.float32
        inside = around.scores(X)
    for _ in range(4):
        plain.observe(X, Y)
    assert same(around, plain)
    assert torch.equal(inside, plain.scores(X))


def test_another_default_type(tmp_path, same):
    model = mlp()
    torch.set_default_dtype(torch.float64)
    try:
        learner = small(model=model)
    finally:
        torch.set_default_dtype(torch.float32)
    assert learner.network.head.weight.dtype == torch.float32
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    assert same(Learner.load(tmp_path / "state", mlp(), device="cpu"), learner)


@pytest.mark.parametrize("method", ["scr", "er_dvc", "er+ncm"])
def test_what_methods_add_is_float32_whatever_the_default(method):
    torch.set_default_dtype(torch.float64)
    try:
        learner = Learner(classifier().float(), method, memory=8, replay=2, device="cpu")
        for _ in range(2):
            learner.observe(pictures(6).float(), [0, 1, 2] * 2)
        assert len(learner.predict(pictures(2).float())) == 2
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_backbone_is_rebuilt_in_float32(tmp_path):
    learner = small(model=MLP((4,)))
    learner.observe(X, Y)
    learner.save(tmp_path / "saved")
    torch.set_default_dtype(torch.float64)
    try:
        back = Learner.load(tmp_path / "saved", device="cpu")
        assert torch.equal(back.scores(X), learner.scores(X))
    finally:
        torch.set_default_dtype(torch.float32)


class Reader(nn.Module):
    """A transformer, whose attention takes a faster path in evaluation mode, but not in bfloat16."""

    def __init__(self):
        super().__init__()
        self.encode = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.classify = nn.Linear(8, 2)

    def forward(self, x, padding):
        return self.classify(self.encode(x, src_key_padding_mask=padding).mean(1))


def sentences():
    torch.manual_seed(0)
    return {"x": torch.rand(6, 3, 8), "padding": torch.arange(3).expand(6, 3) >= torch.tensor([[3], [2]] * 3)}


def test_an_autocast_around_the_first_step_of_a_transformer(same):
    around, plain = small("er", Reader()), small("er", Reader())
    plain.network.load_state(around.network.state())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        around.observe(sentences(), Y)
    plain.observe(sentences(), Y)
    assert same(around, plain)


@pytest.mark.parametrize("method", ["ss_il", "er_wa(distil=True)"])
@pytest.mark.filterwarnings("ignore:This hardware emulates bf16", "ignore:The PyTorch API of nested tensors")
def test_a_transformer_teaches_in_bf16(method):
    learner = small(method, Reader(), precision="bf16")
    learner.observe(sentences(), Y)
    learner.boundary()
    for _ in range(2):
        observed = learner.observe(sentences(), [2, 3] * 3)
    assert observed.learning > 0
