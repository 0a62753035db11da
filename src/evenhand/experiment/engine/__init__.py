"""Engines that run many specs: inline, in processes, or on a Ray cluster. One failure does not stop the others."""
