"""Slow, literal transcriptions of the equations in float64; they import nothing of what they check."""
