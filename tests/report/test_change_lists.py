from __future__ import annotations

import re

from fedkin.report import ClientEvent
from fedkin.report.change_lists import change_table


def test_a_change_tells_when_what_and_who() -> None:
    markup = change_table([ClientEvent(4, "moved", ["1", "2", "3", "7"], 0, 2), ClientEvent(5, "<b>", ["a"])], "round")
    assert re.findall(r'scope="row">([^<]*)<', markup) == ["4", "5"]
    assert re.findall(r"<td>([^<]*)</td>", markup) == ["moved", "4", "1–3, 7", "&lt;b&gt;", "", "", "1", "a"]
    assert re.findall(r'class="dot c(\d)[^"]*" aria-hidden="true"></span>(\d)', markup) == [("0", "0"), ("2", "2")]
    assert '<th scope="col">round</th>' in markup
