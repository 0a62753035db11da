"""The paper's names of methods and datasets."""

from evenhand import registry

METHODS = {
    "agem": "A-GEM",
    "derpp": "DER++",
    "finetune": "FINE-TUNE",
    "ss_il": "SS-IL",
    "uer_a": "UER-A",
}  # the others are written as they are called, in capitals
DATA = {"cifar10": "Split CIFAR10", "cifar100": "Split CIFAR100", "miniimagenet": "Split MiniImageNet"}


def method(name: str) -> str:
    """What the paper calls a method; parameters are left out.

    >>> method("er_ace"), method("aser(n=9)+uer")
    ('ER-ACE', 'ASER + UER')
    """
    plain = [recipe.name for recipe, _ in registry.terms(name)]
    return " + ".join(METHODS.get(one, one.upper().replace("_", "-")) for one in plain)


def place(data: str, memory: int | None) -> str:
    """A stream and a memory, as a heading.

    >>> place("cifar100", 1000), place("fashion-cut", None)
    ('Split CIFAR100, |M| = 1000', 'fashion-cut, no memory')
    """
    return f"{DATA.get(data, data)}, {'no memory' if memory is None else f'|M| = {memory}'}"
