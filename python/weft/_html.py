"""How reports, findings and timelines look in a notebook."""

from html import escape
from typing import Iterable

STYLE = "text-align:left;white-space:pre-wrap;vertical-align:top"


def table(caption: str, head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """An HTML table of text; everything is escaped."""
    cells = "".join(f'<th style="{STYLE}">{escape(str(h))}</th>' for h in head)
    body = "".join("<tr>" + "".join(f'<td style="{STYLE}">{escape(str(c))}</td>' for c in row) + "</tr>" for row in rows)
    return f"<table><caption style='text-align:left'>{escape(caption)}</caption><thead><tr>{cells}</tr></thead>" \
           f"<tbody>{body}</tbody></table>"


def frame(page: str, height: int = 480) -> str:
    """A whole page inside another."""
    return f'<iframe srcdoc="{escape(page)}" style="width:100%;height:{height}px;border:1px solid #ccc"></iframe>'
