"""Pages of the documentation site that are made from elsewhere in the project, when mkdocs builds it.

The notebooks of the cookbook (as they stand, with their outputs: nothing is run), the documents at the root,
and references that the code itself holds: search options, and the help of every command. A page that loads
from the network, and a public name that the reference lacks, are warnings, at which `--strict` fails.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import click
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import stratagraph as sg
from stratagraph.cli.main import main
from stratagraph.methods import NAMES, get_method

ROOT = Path(__file__).resolve().parents[1]
# Where a document of the project is on the site, by its path in the project.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "cookbook/README.md": "tutorials/index.md",
    "cookbook/RESULTS.md": "results.md",
} | {f"cookbook/{path.name}": f"tutorials/{path.stem}.md" for path in (ROOT / "cookbook").glob("*.ipynb")}
_FETCHED = re.compile(r"""<(?:script|img|link rel="(?:stylesheet|preconnect)")[^>]+(?:src|href)="https?://""")
_log = get_plugin_logger("site")
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs/`."""
    for source, page in PAGES.items():
        path = ROOT / source
        text = _notebook(path) if path.suffix == ".ipynb" else path.read_text("utf-8")
        text = _relinked(text, source, page, config.extra["source"])
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference/options.md", content="\n".join(_options())))
    files.append(File.generated(config, "reference/commands.md", content="\n".join(_commands())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of a guide lead where they do in the repository."""
    if page.file.generated_by is not None:
        return markdown
    return _relinked(markdown, f"docs/{page.file.src_uri}", page.file.src_uri, config.extra["source"])


def on_post_build(config: MkDocsConfig) -> None:
    """Warn of pages that load from the network, and of public names that the reference lacks."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        if _FETCHED.search(page.read_text("utf-8")):
            _log.warning("%s loads something from the network", page.relative_to(site))
    reference = (site / "reference/index.html").read_text("utf-8")
    for name in sg.__all__:
        if name != "errors" and f'id="stratagraph.{name}"' not in reference:
            _log.warning("reference/index.md lacks stratagraph.%s", name)


def _relinked(text: str, source: str, page: str, repository: str) -> str:
    """Links between documents of the project lead to their pages, and others to the repository."""

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        anchor = match[2] or ""
        if target in PAGES:
            return f"]({posixpath.relpath(PAGES[target], posixpath.dirname(page) or '.')}{anchor})"
        if target.startswith("docs/"):
            own = target.removeprefix("docs/")
            return f"]({posixpath.relpath(own, posixpath.dirname(page) or '.')}{anchor})"
        return f"]({repository}/blob/main/{target}{anchor})"

    return _LINK.sub(link, text)


def _notebook(path: Path) -> str:
    """A notebook as Markdown: its cells in order, each output below its code."""
    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code":
            parts.append(_fenced("python", cell.source))
            shown = "".join(_printed(output) for output in cell.outputs).rstrip()
            if shown:
                parts.append(_fenced("text", shown))
    return "\n\n".join(parts)


def _printed(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return str(output.get("data", {}).get("text/plain", "")) + "\n"


def _fenced(language: str, text: str) -> str:
    fence = max(("```", *(run + "`" for run in re.findall(r"^`{3,}", text, re.MULTILINE))), key=len)
    return f"{fence}{language}\n{text}\n{fence}"


def _options() -> Iterator[str]:
    """The search options of each method, and where its settings are described."""
    yield "# Search options\n"
    yield "Keyword arguments of `Index.retrieve` and `Index.answer`, of the retrievers of LangChain and"
    yield "LlamaIndex, and of `stratagraph query --option NAME=VALUE`. In Python they are listed by"
    yield "`stratagraph.search_options(method)`.\n"
    for method in NAMES:
        yield f"## {method}\n"
        yield "| option | default | what it does |"
        yield "|---|---|---|"
        for option in sg.search_options(method):
            described = option.description.replace("|", "\\|")
            yield f"| `{option.name}` | `{option.default!r}` | {described} |"
        kind = get_method(method).config_type
        yield f"\nSettings of a build, as `config={{{method!r}: {{...}}}}`:\n"
        yield f"::: {kind.__module__}.{kind.__qualname__}\n    options:\n      heading_level: 3\n"


def _commands() -> Iterator[str]:
    """The help of every command."""
    context = click.Context(main, info_name="stratagraph")
    yield f"# Commands\n\n```text\n{main.get_help(context)}\n```\n"
    yield from _help(context, main)


def _help(context: click.Context, group: click.Group, before: str = "") -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, parent=context, info_name=name)
        yield f"## {before}{name}\n\n```text\n{command.get_help(own)}\n```\n"
        if isinstance(command, click.Group):
            yield from _help(own, command, f"{before}{name} ")
