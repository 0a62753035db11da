"""Tracking: what a run records, shown elsewhere too. metrics.jsonl is the truth, and no sink can harm a run."""

from evenhand.experiment.tracking.tracker import Sink, Tracker

__all__ = ["Sink", "Tracker"]
