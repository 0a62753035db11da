"""Evenhand for users of other libraries: `adapters.sklearn` and `adapters.river`, each with an extra of its name."""
