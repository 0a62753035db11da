"""module:function names a method of the user's own, wherever a user writes it; reading a record imports nothing."""

import json
import re
import sys
import types

import pytest

from evenhand import Learner, checks, resolve
from evenhand.backbones import MLP
from evenhand.cli.app import main
from evenhand.core import registry
from evenhand.errors import InputError
from evenhand.experiment.spec import Spec

MINE = '''
from evenhand.core.parts import part
from evenhand.core.registry import register, way
from evenhand.errors import InputError
from evenhand.methods.er import CrossEntropy, Uniform, er
from evenhand.methods.uer import unbiased


def scored(alpha: float = 0.5):
    """Mine."""
    return er().but(scoring=unbiased(alpha))


def retrieved():
    return er().but(retrieval=Few())


@register(cost=1.5, revision=3)
def known_in_{module}():
    return er()


@way
def way_of_{module}(method, share: float = 0.5, layer: str = "head"):
    return method.but(prediction=er().prediction)


@part("tests.{module}.Few")
class Few(Uniform):
    pass


@part("tests.{module}.Faulty")
class Faulty(CrossEntropy):
    def __call__(self, learner, batch, replay):
        return nowhere


def faulty():
    return er().but(objective=Faulty())


def raises():
    return nowhere


def refuses():
    raise InputError("Not today.")


def needs(strength):
    return er()


def no_method():
    return 3
'''


@pytest.fixture
def mine(tmp_path, monkeypatch, request):
    """The name of a module that nobody has imported yet."""
    module = "mine_" + re.sub(r"\W", "_", request.node.name)  # one for each test: a module is imported once
    (tmp_path / f"{module}.py").write_text(MINE.replace("{module}", module).lstrip())
    monkeypatch.syspath_prepend(tmp_path)
    registry.recipes()  # before the tables are replaced
    for table in ("_adopted", "_recipes"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    return module


def test_a_learner_takes_it(mine):
    learner = Learner(MLP((2,)), f"{mine}:scored(alpha=0.3)", device="cpu")
    assert learner.method == resolve("uer(alpha=0.3)")


def test_a_learner_and_a_spec_take_ways_to_test(mine):
    tests = f"ema, {mine}:way_of_{mine}(share=0.3, layer='neck')"
    learner = Learner(MLP((2,)), "er", tests=tests, device="cpu")
    assert list(learner.ways.methods) == ["", "ema", f"{mine}:way_of_{mine}(share=0.3, layer='neck')"]
    assert Spec.make(method="er", tests=tests).tests == tests


def test_a_saved_learner_does_not_import_its_ways_to_test(mine, tmp_path, monkeypatch):
    Learner(MLP((2,)), "er", tests=f"{mine}:way_of_{mine}", device="cpu").save(tmp_path / "saved")
    monkeypatch.setattr(registry, "_adopted", {})
    monkeypatch.delitem(sys.modules, mine)
    with pytest.raises(InputError, match="which is not imported unless you allow it"):
        Learner.load(tmp_path / "saved", device="cpu")
    assert mine not in sys.modules


def test_it_composes_and_has_one_spelling(mine):
    both = resolve(f"{mine}:retrieved+uer(alpha=0.3)+ema")
    assert both.scoring == resolve("uer(alpha=0.3)").scoring
    assert both.retrieval == resolve(f"{mine}:retrieved").retrieval != resolve("er").retrieval
    registry.adopt(f"{mine}:scored")
    assert registry.canonical(f"ema+uer_a+{mine}:scored( alpha=0.5 )") == f"{mine}:scored+uer_a+ema"
    with pytest.raises(InputError, match="uer sets the slot 'scoring', which is already set"):
        resolve(f"{mine}:scored+uer")


def test_a_registered_function_keeps_its_facts(mine):
    name = f"{mine}:known_in_{mine}"
    resolve(name)
    [(recipe, _)] = registry.terms(name)
    assert (recipe.name, recipe.cost, recipe.revision) == (name, 1.5, 3)
    resolve(f"{mine}:scored")
    assert registry.cost(f"{mine}:scored") == 1


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("raises", "cannot be used: NameError: name 'nowhere' is not defined ({file}, line 43)."),
        ("needs", "cannot be used: TypeError: needs() missing 1 required positional argument: 'strength'."),
        ("none", "cannot be used: AttributeError: module '{module}' has no attribute 'none'."),
        ("no_method", "must return a Method. Got 'int' instead."),
        ("refuses", "Not today."),
        ("scored(beta=1)", "There is no parameter of {module}:scored called 'beta'. Available: alpha."),
    ],
    ids=range(6),
)
def test_a_fault_is_one_sentence(mine, tmp_path, function, sentence):
    with pytest.raises(InputError) as caught:
        resolve(f"{mine}:{function}")
    assert str(caught.value).endswith(sentence.format(file=tmp_path / f"{mine}.py", module=mine))


def test_modules_that_cannot_be_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_unfinished.py").write_text("def method(:\n")
    with pytest.raises(InputError, match=r"cannot be used: SyntaxError: .* \(mine_unfinished\.py, line 1\)\.$"):
        resolve("mine_unfinished:method")
    with pytest.raises(InputError, match=r"cannot be used: ModuleNotFoundError: No module named 'mine_nowhere'\."):
        resolve("mine_nowhere:f")


def test_a_record_imports_nothing_unless_the_user_allows_it(mine, monkeypatch):
    record = {"method": f"{mine}:scored"}
    with pytest.raises(InputError, match=rf"unless you allow it: set EVENHAND_METHODS={mine}:scored\.$"):
        Spec.read(record)
    assert mine not in sys.modules
    monkeypatch.setenv("EVENHAND_METHODS", f"{mine}:retrieved,{mine}:scored")
    registry._load.cache_clear()
    assert Spec.read(record).resolved == resolve("uer")
    registry._load.cache_clear()


def test_a_spec_that_the_user_makes_imports_it(mine):
    spec = Spec.make(method=f"{mine}:scored(alpha=0.5)")
    assert spec.method == f"{mine}:scored"
    assert Spec.read(spec.model_dump()) == spec


def test_a_run_by_name(mine, tmp_path, capsys):
    fields = ["--backbone", "mlp(hidden=8)", "--threads", "1", "--engine", "inline", "--root", str(tmp_path / "runs")]
    with pytest.raises(SystemExit) as ended:
        main(["run", f"{mine}:scored", "uer", *fields, "--json"])
    assert ended.value.code == 0
    mine_, uer = json.loads(capsys.readouterr().out)["results"]
    assert mine_["method"] == f"{mine}:scored"
    assert mine_["final_accuracy"] == uer["final_accuracy"]


def test_check_names_a_fault_once_with_its_place(mine, tmp_path, capsys, monkeypatch):
    few = ("batch of one", "batch of one class", "predict needs a class", "cost as documented")
    monkeypatch.setattr(checks, "CHECKS", {name: checks.CHECKS[name] for name in few})
    with pytest.raises(SystemExit) as ended:
        main(["check", f"{mine}:faulty"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"failed  batch of one: NameError: name 'nowhere' is not defined ({tmp_path / mine}.py, line 35)",
        "failed  batch of one class: as above",
        "passed  predict needs a class",
        "exempt  cost as documented: it is not registered",
    ]


def test_a_way_of_ones_own_by_module_and_function(monkeypatch):
    module = types.ModuleType("mine_ways")

    @registry.way
    def flipped(method):
        """Any method, tested by cosines."""
        return method.but(scoring=method.scoring.__class__(method.scoring.learn, method.scoring.replay, "cos"))

    module.flipped = flipped
    monkeypatch.setitem(sys.modules, "mine_ways", module)
    try:
        learner = Learner(MLP((4,)), "uer+mine_ways:flipped", device="cpu")
        assert learner.method.scoring.test == "cos"
    finally:
        registry._recipes.pop("flipped")
