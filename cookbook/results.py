"""Measure everything that can be measured here, and write it up as cookbook/RESULTS.md.

usage: python cookbook/results.py DATA --work FOLDER [--only SECTION ...] [--small] [--list] [--assemble]

DATA holds corpora with questions, one folder each, as README.md names them: musique_train100,
hotpotqa_train100, 2wiki_dev164, lihua_world, multihop_rag_dev. Each section runs in a process of its own and
leaves a record in FOLDER (results_record.py), with its date and code; one that fails leaves its log alone
(exit code 1), and one in which rows failed has a record without them, which are named (exit code 3). One
that lacks a package is left out, which is said first (exit code 3); named by --only, it is an error.
The rows of a corpus are kept as each ends: a section that was stopped goes on by the same command.
RESULTS.md, its plots, tables and logs are always assembled from the latest record of each section, of those
in FOLDER and those that are kept in measured/ beside RESULTS.md; the ones used are kept there. So
`--only multihop` renews one section and takes the others as they were measured, and --assemble runs nothing.
A section without a record is named as such; one whose record says "earlier": true was measured before the
code changed, and only its log is named. --small makes all sections quick, and their figures no more than a
smoke test, which stays in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from results_chnsw import draw_search
from results_page import page, rows_of
from results_plot import draw
from results_record import Record, newest, reduced, save
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
LEFT_OUT = 3
"""Exit code of `stratagraph eval`, and of this program, where rows failed and the others stand."""
PLOTS = ("docs/images/results.svg", "docs/images/results-systems.svg")
SEARCH_PLOT = "docs/images/results-chnsw.svg"
KEPT = "measured"
"""Records, tables and logs of sections, beside RESULTS.md."""


@dataclass(frozen=True)
class Section:
    """Something that is measured: a corpus, if `corpus` is named, else a benchmark script.

    `without`: rows that are left out there, for what they would take. `needs`: modules that it cannot do
    without, by the packages that have them.
    """

    name: str
    title: str
    command: tuple[str, ...] = ()
    small: tuple[str, ...] = ("--small",)
    corpus: str = ""
    extraction: str = ""
    without: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def lacks(self) -> list[str]:
        """The packages that have to be installed before it can run."""
        return [name for name, module in self.needs.items() if find_spec(module) is None]

    @property
    def rows(self) -> str:
        """What is compared on a corpus, as `--methods` takes it."""
        return ",".join(row for row in ROWS if row not in self.without)


def corpus(
    name: str, title: str, folder: str, extraction: str = "", without: tuple[str, ...] = ()
) -> Section:
    return Section(name, title, corpus=folder, extraction=extraction, without=without)


def script(
    name: str,
    title: str,
    *command: str,
    small: tuple[str, ...] = ("--small",),
    needs: Mapping[str, str] | None = None,
) -> Section:
    return Section(name, title, command, small, needs=needs or {})


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
        "groups",
        "The LSH tree's groups: similarity of members, gold documents gathered",
        *("groups.py", "DATA/musique_train100", "DATA/hotpotqa_train100", "DATA/2wiki_dev164"),
        *("--bits", "128", "256", "384", "512", "1024", "--retrieval", "--cache", "CACHE"),
        small=("--seeds", "1"),
    ),
    script(
        "chnsw",
        "C-HNSW against Base-HNSW (ArchRAG, Figures 6 and 9)",
        *("chnsw.py", "--leaves", "90000", "--texts", "DATA", "--cache", "CACHE", "--data", "real"),
        *("--libraries", "hnswlib", "faiss_sq8", "usearch_i8", "svs", "ngt"),
        needs={
            "hnswlib": "hnswlib",
            "faiss-cpu": "faiss",
            "usearch": "usearch",
            "scalable-vs": "svs",
            "ngt": "ngtpy",
        },
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
        out = str(scores_of(section, given))
        parts = [str(Path(sys.executable).with_name("stratagraph")), "eval", f"{data}/{section.corpus}"]
        parts += ["--methods", section.rows, "--out", out, "--cache", str(given.cache)]
        parts += ["--extraction", section.extraction] if section.extraction else []
        parts += ["--again"] if given.again else []
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


class Failed(Exception):
    """A section did not come to its end; the message is the last that it said."""


def run(section: Section, given: argparse.Namespace) -> tuple[Record, list[str]]:
    """Run a section in its own process; its record is left in WORK. Also tells which rows it lacks.

    Raises
    ------
    Failed
        If the process fails or takes too long.
    """
    began, load = time.perf_counter(), os.getloadavg()[0]
    output, left_out = printed(section, given)
    record = {
        "name": section.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": time.perf_counter() - began,
        "load": [load, os.getloadavg()[0]],
        "small": given.small,
        "command": shown(section, given.small),
        "machine": machine(),
        "code": code(),
    }
    if section.corpus:
        record["scores"] = reduced(json.loads(scores_of(section, given).read_text("utf-8")), METHODS)
    else:
        record["output"] = without_paths(output, given)
    save(record, given.work / f"{section.name}.json")
    return record, left_out


def printed(section: Section, given: argparse.Namespace) -> tuple[str, list[str]]:
    """What the section's process prints, and the rows that it had to leave out; its log stands in WORK."""
    with (given.work / f"{section.name}.log").open("w+", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                command(section, given),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=given.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"stopped after {given.timeout:g} seconds") from None
        log.seek(0)
        said = without_paths(log.read(), given).strip().splitlines()
    if done.returncode not in (0, LEFT_OUT):
        raise Failed("".join(said[-1:]))
    return done.stdout, [line for line in said if line.startswith("left out: ")]


def scores_of(section: Section, given: argparse.Namespace) -> Path:
    """Where a corpus' scores are written, question by question."""
    return Path(given.work / f"{section.name}.scores.json")


def code() -> str:
    """The commit of the measured package, `+` where files differ from it; empty outside a checkout."""
    import stratagraph

    where = Path(stratagraph.__file__).parent
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
        return f"stratagraph eval DATA/{section.corpus}{extraction}{questions} --methods ROWS{left_out}"
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
        "stratagraph",
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


def collected(*folders: Path) -> dict[str, Record]:
    """The latest record of each section that has one."""
    found = {section.name: newest(section.name, *folders) for section in SECTIONS}
    return {name: record for name, record in found.items() if record is not None}


def main() -> int:
    names = [section.name for section in SECTIONS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="where sections leave records")
    parser.add_argument("--cache", type=Path, help="keeps vectors and rows; WORK/cache if not given")
    parser.add_argument("--only", nargs="+", choices=names, metavar="SECTION")
    parser.add_argument("--small", action="store_true", help="a smoke test of every section")
    parser.add_argument("--again", action="store_true", help="measure rows anew that the cache has")
    parser.add_argument("--assemble", action="store_true", help="run nothing")
    parser.add_argument("--list", action="store_true", help="name the sections and what they run")
    parser.add_argument("--timeout", type=float, default=3 * 3600, help="seconds of one section")
    parser.add_argument(
        "--out", type=Path, help="RESULTS.md of this repository; if small WORK/cookbook/RESULTS.md"
    )
    given = parser.parse_args()
    given.data, given.work = given.data.resolve(), given.work.resolve()
    given.cache = (given.cache or given.work / "cache").resolve()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.list:
        print("\n".join(f"{section.name:14} {shown(section)}" for section in SECTIONS))
        return 0
    wanted = [section for section in SECTIONS if section.name in (given.only or names)]
    for section in wanted:
        if section.lacks and not given.assemble:
            why = f"not installed: pip install {' '.join(section.lacks)}"
            if given.only:
                parser.error(f"{section.name}: {why}")
            print(f"left out: {section.name}: {why}", file=sys.stderr, flush=True)
    failed = 0 if given.assemble else measured(wanted, given)
    out = given.out or (given.work / "cookbook" if given.small else HERE) / "RESULTS.md"
    write(out, collected(given.work, out.parent / KEPT))
    return failed


def measured(wanted: Sequence[Section], given: argparse.Namespace) -> int:
    """Run sections, but for those that lack a package; the exit code."""
    failed = LEFT_OUT if any(section.lacks for section in wanted) else 0
    for section in wanted:
        if section.lacks:
            continue
        try:
            record, left_out = run(section, given)
            print(f"{section.name}: {record['seconds']:.0f} s", flush=True)
            if left_out:
                failed = failed or LEFT_OUT
                print("\n".join(left_out), file=sys.stderr, flush=True)
        except Failed as error:
            failed = 1
            print(f"{section.name}: failed: {error}", file=sys.stderr, flush=True)
    return failed


def write(out: Path, found: Mapping[str, Record]) -> None:
    """Write RESULTS.md and its plots, and the records with the tables and logs that are made of them."""
    kept = out.parent / KEPT
    kept.mkdir(parents=True, exist_ok=True)
    for name, record in found.items():
        save(record, kept / f"{name}.json")
    for name, text in texts(found).items():
        (out.parent / name).write_text(text, "utf-8")
    if scored := {name: record["scores"] for name, record in found.items() if "scores" in record}:
        titles = {section.name: section.title for section in SECTIONS}
        margins, systems = (out.parent.parent / plot for plot in PLOTS)
        margins.parent.mkdir(parents=True, exist_ok=True)
        draw(scored, titles, METHODS, margins)
        draw_systems(scored, titles, METHODS, comparisons(SYSTEMS, OWN_NODES), systems)
    if record := found.get("chnsw"):
        draw_search(record, out.parent.parent / SEARCH_PLOT)


def texts(found: Mapping[str, Record]) -> dict[str, str]:
    """RESULTS.md, and the tables and logs, by their paths from where it stands."""
    made = {}
    for section in SECTIONS:
        record = found.get(section.name)
        if record and "scores" in record:
            text = "\n".join(dataset(section.title, record, METHODS, (*BASELINES, *OWN_NODES)))
            made[f"{KEPT}/{section.name}.md"] = text.rstrip() + "\n"
        elif record:
            made[f"{KEPT}/{section.name}.txt"] = log(record)
    order = [(section.name, section.title, shown(section), bool(section.corpus)) for section in SECTIONS]
    plots, compared = [f"../{plot}" for plot in PLOTS], comparisons(SYSTEMS, OWN_NODES)
    made["RESULTS.md"] = page(
        order,
        found,
        METHODS,
        BASELINES,
        OWN_NODES,
        compared,
        plots=plots,
        search_plot=f"../{SEARCH_PLOT}",
        logs=KEPT,
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
