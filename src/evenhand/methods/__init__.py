"""The methods, one paper a file. Read er.py, then uer.py, and you know how all of them are made."""

from evenhand.methods import (
    agem,
    aser,
    derpp,
    er,
    er_ace,
    er_dvc,
    er_wa,
    finetune,
    gmed,
    gss,
    lucir,
    mir,
    obc,
    pcr,
    scr,
    ss_il,
    uer,
)

__all__ = [
    "agem",
    "derpp",
    "er",
    "er_ace",
    "er_wa",
    "finetune",
    "gmed",
    "lucir",
    "mir",
    "obc",
    "pcr",
    "scr",
    "ss_il",
    "uer",
]
