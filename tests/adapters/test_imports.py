import importlib
import subprocess
import sys

import pytest

LAZY = """
import sys
import evenhand, evenhand.adapters, evenhand.losses
from evenhand import Learner
from evenhand.backbones import MLP
Learner(MLP((2,)), "uer")
print(sorted({"sklearn", "river", "pandas", "scipy"} & set(sys.modules)))
"""


def test_evenhand_imports_no_library_that_it_adapts_to():
    done = subprocess.run([sys.executable, "-c", LAZY], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["sklearn", "river"])
def test_without_the_library_the_extra_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"evenhand.adapters.{name}", raising=False)
    for loaded in [module for module in sys.modules if module.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(ImportError, match=rf"Install it with pip install 'evenhand\[{name}\]'"):
        importlib.import_module(f"evenhand.adapters.{name}")
