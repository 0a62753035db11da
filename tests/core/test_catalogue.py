from evenhand.core import catalogue, registry

PAPER = {"finetune", "er", "gss", "mir", "aser", "gmed", "agem", "lucir", "er_wa", "derpp", "ss_il", "scr", "er_ace"}


def test_all_methods_of_the_paper_are_there():
    assert PAPER | {"er_dvc", "obc", "uer", "uer_a", "pcr"} <= set(registry.recipes())


def test_only_scorings_and_contrasts_with_proxies_do_not_compose():
    closed = {row["name"] for row in catalogue.rows() if not row["composes"]}
    assert closed == {"even", "lucir", "uer", "uer_a", "pcr"}
