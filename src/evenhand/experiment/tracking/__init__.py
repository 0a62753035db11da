"""Tracking: a run's records, also sent to other tools. metrics.jsonl stays the truth, and no sink can harm a run."""

from evenhand.experiment.tracking.tracker import Sink, Tracker

__all__ = ["Sink", "Tracker"]
