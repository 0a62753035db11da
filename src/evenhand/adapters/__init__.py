"""Adapters for other libraries: `adapters.sklearn` and `adapters.river`, each with an extra of the same name."""
