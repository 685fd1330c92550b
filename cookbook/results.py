"""Measure everything that can be measured here, and write it up as cookbook/RESULTS.md.

usage: python cookbook/results.py DATA --work FOLDER [--only SECTION ...] [--small] [--list] [--assemble]

DATA holds corpora with questions, one folder each, as README.md names them: musique_train100,
hotpotqa_train100, 2wiki_dev164, lihua_world, multihop_rag_dev. Each section runs in a process of its own;
what it prints or writes stays in FOLDER, with its date, so that sections can be run on different days and in
any order, and --assemble writes RESULTS.md, its plot and the logs (cookbook/measured) from what is there
without running anything. A section that failed, or was not run, is named as such; one whose record says
"earlier": true was measured before the code changed, and only its log is named.
--small makes all sections quick, and their figures no more than a smoke test.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from results_page import page, rows_of
from results_plot import draw
from results_systems import comparisons, draw_systems
from results_tables import dataset, log

HERE = Path(__file__).resolve().parent
METHODS = ("lshtree", "archrag", "noderag", "hirag")
SYSTEMS = ("hipporag", "hipporag2", "kag", "fastgraphrag", "lightrag", "graphrag_local", "raptor")
BASELINES = (*SYSTEMS, "ppr", "hybrid", "dense", "bm25")
OWN_NODES = ("fastgraphrag/nodes", "lightrag/nodes", "graphrag_local/nodes", "raptor/nodes")
"""What these systems show a model beside passages: entities, relations, reports, summaries."""
ROWS = (*rows_of(METHODS, BASELINES), *OWN_NODES)
EVERY_FACT_EMBEDDED = ("hipporag2", "lightrag", "lightrag/nodes")
"""Rows that embed all facts or relations: an hour of CPU for 609 long articles."""
SMALL_QUESTIONS = 5
PLOTS = ("docs/images/results.svg", "docs/images/results-systems.svg")
LOGS = "measured"


@dataclass(frozen=True)
class Section:
    """Something that is measured: a corpus, if `corpus` is named, else a benchmark script.

    `without`: rows that are left out there, for what they would take.
    """

    name: str
    title: str
    command: tuple[str, ...] = ()
    small: tuple[str, ...] = ("--small",)
    corpus: str = ""
    extraction: str = ""
    without: tuple[str, ...] = ()

    @property
    def rows(self) -> str:
        """What is compared on a corpus, as `--methods` takes it."""
        return ",".join(row for row in ROWS if row not in self.without)


def corpus(
    name: str, title: str, folder: str, extraction: str = "", without: tuple[str, ...] = ()
) -> Section:
    return Section(name, title, corpus=folder, extraction=extraction, without=without)


def script(name: str, title: str, *command: str, small: tuple[str, ...] = ("--small",)) -> Section:
    return Section(name, title, command, small)


SECTIONS = (
    corpus("musique", "MuSiQue", "musique_train100"),
    corpus("musique-given", "MuSiQue, given extraction", "musique_train100", "openie.jsonl"),
    corpus("hotpotqa", "HotpotQA", "hotpotqa_train100"),
    corpus("2wiki", "2WikiMultiHopQA", "2wiki_dev164"),
    corpus("lihua", "LiHua-World", "lihua_world"),
    corpus("multihop", "MultiHop-RAG", "multihop_rag_dev", without=EVERY_FACT_EMBEDDED),
    script(
        "folds",
        "The walk: margins, and settings chosen without each corpus",
        *("folds.py", "DATA/musique_train100", "DATA/2wiki_dev164", "DATA/hotpotqa_train100"),
        *("DATA/lihua_world", "DATA/lihua_world:256", "DATA/multihop_rag_dev", "--combinations", "20"),
        *("--work", "WORK/folds"),
        small=("--combinations", "1"),
    ),
    script(
        "walk",
        "The walk: cost of a question, and its growth",
        *("walk.py", "DATA/multihop_rag_dev", "DATA/musique_train100", "DATA/2wiki_dev164"),
        *("DATA/hotpotqa_train100", "DATA/lihua_world"),
        small=("--passages", "500", "1000"),
    ),
    script(
        "million",
        "The walk over a million passages",
        "million.py",
        small=("--passages", "20000", "--entities", "20000"),
    ),
    script(
        "indexing",
        "Indexing, each method alone",
        *("indexing.py", "DATA/musique_train100", "--cache", "CACHE"),
    ),
    script(
        "construction",
        "Construction times (LSH tree, Table 1)",
        *("construction.py", "--limit", "120", "DATA/musique_train100", "--cache", "CACHE"),
    ),
    script(
        "chunk-size",
        "Chunk sizes (LSH tree, Figure 5)",
        *("chunk_size.py", "--sizes", "200,400,800,1400", "DATA/lihua_world", "--cache", "CACHE"),
    ),
    script(
        "chnsw",
        "C-HNSW against Base-HNSW (ArchRAG, Figures 6 and 9)",
        *("chnsw.py", "--leaves", "25000", "--data", "clustered", "random"),
    ),
    script(
        "communities",
        "Community quality (ArchRAG, Figures 7 and 8, Table 7)",
        *("communities.py", "DATA/musique_train100", "--cache", "CACHE"),
    ),
    script(
        "archrag",
        "ArchRAG's clustering and search at size",
        "archrag.py",
        small=("--entities", "4000", "--relations", "3100"),
    ),
    script(
        "noderag-tables",
        "NodeRAG's ablations and statistics (Tables 2 and 4, Figure 4)",
        *(
            "noderag.py",
            "tables",
            "DATA/musique_train100",
            "--extraction",
            "openie.jsonl",
            "--cache",
            "CACHE",
        ),
        small=(),
    ),
    script("noderag-speed", "NodeRAG at size", "noderag.py", "speed"),
    script(
        "hirag-figures",
        "HiRAG's hierarchy and ablations (Figures 4 to 6, Table 7)",
        *("hirag.py", "figures", "DATA/musique_train100", "--extraction", "openie.jsonl", "--cache", "CACHE"),
        small=("--embedder", "hashing", "--questions", "10"),
    ),
    script("hirag-times", "HiRAG at size", "hirag.py", "times"),
    script("hirag-insert", "What an insert costs HiRAG", "hirag.py", "insert"),
    script("lshtree", "The LSH tree at size: build, insert, open, retrieve", "lshtree.py"),
    script("lsh", "Hashing and grouping", "lsh.py"),
    script("gate", "Many model calls at once", "gate.py"),
    script("extraction", "Extraction without a model", "extraction.py", "DATA/musique_train100", small=()),
)


def command(section: Section, given: argparse.Namespace) -> list[str]:
    """What is run for a section."""
    data = str(given.data)
    if section.corpus:
        out = str(given.work / f"{section.name}.scores.json")
        parts = [str(Path(sys.executable).with_name("stratarag")), "eval", f"{data}/{section.corpus}"]
        parts += ["--methods", section.rows, "--out", out, "--cache", str(given.cache)]
        parts += ["--extraction", section.extraction] if section.extraction else []
        return parts + (["--questions", str(SMALL_QUESTIONS)] if given.small else [])
    places = {"DATA": data, "WORK": str(given.work), "CACHE": str(given.cache)}
    name, *rest = (filled(part, places) for part in section.command)
    parts = [sys.executable, str(HERE / "benchmarks" / name), *rest]
    return parts + (list(section.small) if given.small else [])


def filled(part: str, places: Mapping[str, str]) -> str:
    """An argument with the folders of this run."""
    for name, place in places.items():
        part = part.replace(name, place)
    return part


def run(section: Section, given: argparse.Namespace) -> dict[str, Any]:
    """Run a section in its own process; what came of it."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    parts = command(section, given)
    with (given.work / f"{section.name}.log").open("w+", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                parts, stdout=subprocess.PIPE, stderr=log, text=True, timeout=given.timeout, check=False
            )
            log.seek(0)
            output, errors, failed = done.stdout, log.read(), done.returncode != 0
        except subprocess.TimeoutExpired:
            output, errors, failed = "", f"stopped after {given.timeout:g} seconds", True
    return {
        "name": section.name,
        "date": date.today().isoformat(),
        "seconds": time.perf_counter() - began,
        "load": [load, os.getloadavg()[0]],
        "small": given.small,
        "command": shown(section, given.small),
        "output": without_paths(output, given),
        "error": without_paths(errors, given).strip().splitlines()[-1:] if failed else [],
        "machine": machine(),
        "code": code(),
    }


def code() -> str:
    """The commit of the measured package, `+` where files differ from it; empty outside a checkout."""
    import stratarag

    where = Path(stratarag.__file__).parent
    tracked, described = ("ls-files", "--error-unmatch", "__init__.py"), ("describe", "--always", "--dirty=+")
    try:
        for asked in (tracked, described):  # an environment inside another checkout is not tracked by it
            said = subprocess.run(["git", *asked], cwd=where, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()


def shown(section: Section, small: bool = False) -> str:
    """The command as a reader would type it."""
    if section.corpus:
        extraction = f" --extraction {section.extraction}" if section.extraction else ""
        questions = f" --questions {SMALL_QUESTIONS}" if small else ""
        left_out = f" without {', '.join(section.without)}" if section.without else ""
        return f"stratarag eval DATA/{section.corpus}{extraction}{questions} --methods ROWS{left_out}"
    return f"python cookbook/benchmarks/{' '.join([*section.command, *(section.small if small else ())])}"


def without_paths(text: str, given: argparse.Namespace) -> str:
    """What a section printed, without the folders of this machine; `main` has made them absolute."""
    for path, name in (
        (given.data, "DATA"),
        (given.cache, "CACHE"),
        (given.work, "WORK"),
        (HERE, "cookbook"),
    ):
        text = text.replace(str(path), name)
    return text


def machine() -> dict[str, Any]:
    """What the figures depend on, without names or paths of the machine."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in (
        "stratarag",
        "numpy",
        "scipy",
        "scikit-learn",
        "igraph",
        "bm25s",
        "onnxruntime",
    ):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    processor = platform.processor() or platform.machine()
    memory = 0.0
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = models[0] if models else processor
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor,
        "cpus": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "python": platform.python_version(),
        "versions": versions,
    }


def collected(work: Path) -> dict[str, dict[str, Any]]:
    """What is there of each section, with the scores of the corpora."""
    found = {}
    for section in SECTIONS:
        kept, scores = work / f"{section.name}.json", work / f"{section.name}.scores.json"
        if kept.exists():
            found[section.name] = json.loads(kept.read_text("utf-8"))
            if section.corpus and scores.exists() and not found[section.name]["error"]:
                found[section.name]["scores"] = json.loads(scores.read_text("utf-8"))
    return found


def main() -> None:
    names = [section.name for section in SECTIONS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="keeps what each section found")
    parser.add_argument("--cache", type=Path, help="keeps vectors; WORK/cache if not given")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="SECTION")
    parser.add_argument("--small", action="store_true", help="a smoke test of every section")
    parser.add_argument("--assemble", action="store_true", help="run nothing")
    parser.add_argument("--list", action="store_true", help="name the sections and what they run")
    parser.add_argument("--timeout", type=float, default=3 * 3600, help="seconds of one section")
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    given = parser.parse_args()
    given.data, given.work = given.data.resolve(), given.work.resolve()
    given.cache = (given.cache or given.work / "cache").resolve()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.list:
        print("\n".join(f"{section.name:14} {shown(section)}" for section in SECTIONS))
        return
    for section in () if given.assemble else SECTIONS:
        if section.name in given.only:
            found = run(section, given)
            (given.work / f"{section.name}.json").write_text(json.dumps(found, indent=1), "utf-8")
            print(f"{section.name}: {found['seconds']:.0f} s {' '.join(found['error'])}", flush=True)
    write(given.out, collected(given.work))


def write(out: Path, found: dict[str, dict[str, Any]]) -> None:
    """Write RESULTS.md, its plot and the logs."""
    logs = out.parent / LOGS
    logs.mkdir(exist_ok=True)
    scored = {}
    for section in SECTIONS:
        each = found.get(section.name)
        if each is None or each["error"]:
            continue
        if section.corpus:
            scored[section.name] = each["scores"]
            text = "\n".join(dataset(section.title, each, METHODS, (*BASELINES, *OWN_NODES)))
            (logs / f"{section.name}.md").write_text(text.rstrip() + "\n", "utf-8")
        else:
            (logs / f"{section.name}.txt").write_text(log(each), "utf-8")
    compared = comparisons(SYSTEMS, OWN_NODES)
    if scored:
        titles = {section.name: section.title for section in SECTIONS}
        margins, systems = (out.parent.parent / plot for plot in PLOTS)
        margins.parent.mkdir(parents=True, exist_ok=True)
        draw(scored, titles, METHODS, margins)
        draw_systems(scored, titles, METHODS, compared, systems)
    order = [(section.name, section.title, shown(section), bool(section.corpus)) for section in SECTIONS]
    plots = [f"../{plot}" for plot in PLOTS]
    text = page(order, found, METHODS, BASELINES, OWN_NODES, compared, plots=plots, logs=LOGS)
    out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
