"""Experiments: a spec says what to run, a run leaves a folder of records, an engine runs many."""

from evenhand.experiment.result import Result
from evenhand.experiment.runs import run
from evenhand.experiment.spec import Spec

__all__ = ["Result", "Spec", "run"]
