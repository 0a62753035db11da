"""The core: a method is a value of seven parts, and the learner is the only thing with state."""
