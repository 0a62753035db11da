"""The core: a method is a value of six parts, and the learner is the only thing with state."""
