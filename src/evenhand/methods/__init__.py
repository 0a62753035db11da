"""The methods, one paper a file. Read er.py, then uer.py, and you know how all of them are made."""

from evenhand.methods import er, finetune, lucir, uer

__all__ = ["er", "finetune", "lucir", "uer"]
