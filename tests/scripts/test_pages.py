"""The pages of methods and settings, which are written from the code."""

import methods_page
import pytest
import settings_page

from evenhand.core import catalogue


@pytest.mark.parametrize("script", [methods_page, settings_page], ids=["methods", "settings"])
def test_a_page_in_the_docs_is_up_to_date(script):
    assert script.PAGE.read_text() == script.page(), f"run: python scripts/{script.__name__}.py"


def test_links_of_the_methods_exist():
    links = [line.partition("](")[2].partition(")")[0] for line in methods_page.page().splitlines() if "| [" in line]
    assert len(links) == len(catalogue.rows())
    assert all((methods_page.PAGE.parent / link).is_file() for link in links)
