from pathlib import Path

from evenhand.core import catalogue, registry

DOCS = Path(__file__).parents[2] / "docs"
PAPER = {"finetune", "er", "gss", "mir", "aser", "gmed", "agem", "lucir", "er_wa", "derpp", "ss_il", "scr", "er_ace"}


def test_all_methods_of_the_paper_are_there():
    assert PAPER | {"er_dvc", "obc", "uer", "uer_a", "pcr"} <= set(registry.recipes())


def test_the_page_in_the_docs_is_up_to_date():
    page = (DOCS / "methods.md").read_text()
    assert page == catalogue.page(), "run: python -m evenhand.core.catalogue > docs/methods.md"


def test_links_of_the_page_exist():
    links = [line.partition("](")[2].partition(")")[0] for line in catalogue.page().splitlines() if "| [" in line]
    assert len(links) == len(catalogue.rows())
    assert all((DOCS / link).is_file() for link in links)


def test_only_scorings_and_contrasts_with_proxies_do_not_compose():
    closed = {row["name"] for row in catalogue.rows() if not row["composes"]}
    assert closed == {"even", "lucir", "uer", "uer_a", "pcr"}
