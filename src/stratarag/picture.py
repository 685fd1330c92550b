"""A picture: a page of its own that needs nothing else, in a notebook or in a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Picture:
    """One HTML page with its scripts and data inside. A notebook shows it; `save` writes it to a file.

    The page loads nothing and sends nothing: its content security policy forbids both.

    Attributes
    ----------
    title
        What it shows.
    html
        The whole page.
    height
        Pixels that a notebook gives it.
    """

    title: str
    html: str
    height: int = 560

    def __repr__(self) -> str:
        return f"Picture({self.title!r}, {len(self.html) // 1024 + 1} KB)"

    def _repr_html_(self) -> str:
        """The page in a frame that shares nothing with the notebook around it."""
        return (
            f'<iframe sandbox="allow-scripts" title="{escape(self.title)}" '
            f'srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{self.height}px;border:0;display:block"></iframe>'
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file (UTF-8) and return its path. A file that is there is replaced."""
        target = Path(path)
        target.write_text(self.html, "utf-8")
        return target
