"""Prompts are Markdown files beside the code that uses them; a user may replace any by its name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from stratarag.models.gate import Prompt

PACKAGES = (
    "stratarag.pipeline",
    "stratarag.methods.lshtree",
    "stratarag.methods.archrag",
    "stratarag.methods.noderag",
    "stratarag.methods.hirag",
)


@cache
def prompt_names() -> tuple[str, ...]:
    """The names of all prompts, as a configuration may replace them."""
    return tuple(
        sorted(
            f"{package.rsplit('.', 1)[-1]}/{file.name.removesuffix('.md')}"
            for package in PACKAGES
            for file in files(package).joinpath("prompts").iterdir()
            if file.name.endswith(".md")
        )
    )


@cache
def load_prompt(package: str, name: str) -> Prompt:
    """The prompt `prompts/<name>.md` of a package, known to users as `<last part of package>/<name>`."""
    template = files(package).joinpath("prompts", f"{name}.md").read_text("utf-8")
    return Prompt(name=f"{package.rsplit('.', 1)[-1]}/{name}", template=template)
