"""The core: a method is a value with seven parts; the learner holds all state."""
