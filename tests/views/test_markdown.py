"""Text from outside stays text in Markdown."""

from __future__ import annotations

import html
import re

from markdown_it import MarkdownIt
from support.report_record import HOSTILE
from support.rows import each_row

from pytest_accel.core.printable import printable
from pytest_accel.views.markdown import escaped


@each_row("text", [HOSTILE, "a|b `c` *d* _e_ [f](g) ~h~ $i$", "\x1b[2J\n\u202e", "\\"])
def test_outside_text_is_shown_as_it_is(text: str) -> None:
    rows = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(f"| a |\n| --- |\n| {escaped(text)} |")
    inline = [each for each in rows if each.type == "inline"][-1]
    assert {each.type for each in inline.children or ()} <= {"text", "text_special"}
    assert "".join(each.content for each in inline.children or ()).replace("\u200b", "") == printable(text)


def test_no_renderer_takes_outside_text_for_html() -> None:
    """Some leave "\\<script>" as it is, behind a backslash."""
    assert "<" not in escaped("<script>alert(1)</script>\n<img onerror=x>")
    assert html.unescape(escaped("a&lt;b")) == "a&lt;b"


def test_github_makes_no_links_and_notifies_nobody() -> None:
    text = html.unescape(escaped("@everyone #123 https://evil.example www.evil.example"))
    assert not re.search(r"@\w|#\d|://|www\.\w", text)
