"""Experiments: a spec says what to run, a run leaves a folder of records, an engine runs many."""
