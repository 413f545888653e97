"""Sessions. `nox -s quickstart` and `nox -s tests` are the two to know; `nox -l` lists them all."""

import os
import re
import runpy
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["quickstart"]
nox.options.default_venv_backend = "virtualenv"

TORCH = "2.13.0"
TRANSFORMERS = ("5.24.0", "4.57.6")
ONNX = ("onnx", "onnxscript>=0.6", "onnxruntime")
# Other ways to export and to run the result, by the release of transformers that they are run with.
LANES = {
    "5.24.0": ("openvino==2026.4.1", "executorch==1.4.1", "litert-torch==0.10.0"),
    "4.57.6": ("optimum-onnx==0.1.0", "olive-ai==0.13.0"),
}
# Exporters whose files are judged beside ours, by the release of transformers that they are run with.
JUDGED = {
    "5.24.0": ("mobius-onnx==0.1.0", "onnxruntime-genai==0.18.0"),
    "4.57.6": ("optimum-onnx==0.1.0", "onnxruntime-genai==0.18.0"),
}
# Recipes for released packages: the patch file, what checks it, and what the package is run with.
RECIPES = {
    "olive-ai-0.13.0": ("check_olive.py", "4.57.6"),
    "optimum-intel-2.2.0": ("check_optimum_intel.py", "4.57.6", "openvino==2026.4.1"),
    "optimum-executorch-1.1.0": ("check_optimum_executorch.py", "5.0.0rc1", "executorch==1.4.1"),
}
# Programs that load exported files, each with a release of transformers that it takes.
CLIENTS = {"5.24.0": ("onnxruntime-genai==0.18.0",), "4.57.6": ("optimum-onnx==0.1.0",)}
NODE_PACKAGES = ("@huggingface/transformers@4.3.1",)
# Packages whose sources are read; nothing of them is imported, so they need not have what they import.
READ = ("litert-torch==0.10.0",)
TEST_TOOLS = ("pytest>=8", "pytest-xdist", "pytest-timeout", "hypothesis", "numpy", "psutil", "fastjsonschema")
PARALLEL = ("-n", "auto", "--maxprocesses", "4", "--dist", "worksteal")
# Material 9 and MkDocs 1 go together; MkDocs 2 is another program.
DOCS_TOOLS = (
    "mkdocs>=1.6,<2",
    "mkdocs-material>=9.7,<10",
    "mkdocstrings[python]>=1",
    "ruff",
    "fastjsonschema",
    "tomli",
)
NOTEBOOK_TOOLS = ("nbclient", "ipykernel", "pandas", "matplotlib")
_OF_RELEASE = ("contract", "late", "lock", "pytree", "select", "threads")
_OF_TORCH = (
    "assumptions",
    "companion_files",
    "content",
    "executed",
    "expert_scan",
    "export",
    "learned_mask",
    "made_up_calls",
    "programs",
    "serve",
    "tiny_gpt",
    "verify",
)
_NAMED = {
    path.stem.removeprefix("test_"): re.search("transformers|find_case", path.read_text("utf-8"))
    for path in sorted(Path(__file__).parent.glob("tests/export/test_*.py"))
}
OF_RELEASE = [
    *(f"tests/export/test_{name}.py" for name, found in _NAMED.items() if found and name not in _OF_TORCH),
    *(f"tests/test_{name}.py" for name in _OF_RELEASE),
]
"""The tests whose outcome depends on the release of transformers; the others would say the same twice."""
CELL_TOOLS = ("psutil", "fastjsonschema", "filelock", "rich")
CHECKED = ("src", "registry", "patches", "matrix", "tests", "benchmarks", "docs", "dataset", "noxfile.py", "setup.py")


@nox.session
def quickstart(session: nox.Session) -> None:
    """Export a tiny GPT and five Hugging Face models without and with patches, and print a table."""
    install(session, TRANSFORMERS[0], "rich")
    run_python(session, "-m", "exportcompat.matrix", "quickstart")


@nox.session
@nox.parametrize("transformers", TRANSFORMERS)
def tests(session: nox.Session, transformers: str) -> None:
    """Run the tests against the built wheel, on the older release those that depend on it; arguments go to pytest."""
    install(session, transformers, *TEST_TOOLS, *CLIENTS[transformers])
    uv(session, "--no-deps", *READ)
    shipped = build(session, tools=False)
    chosen = ["tests"] if transformers == TRANSFORMERS[0] else OF_RELEASE
    arguments = session.posargs or [*PARALLEL, "--timeout", "600", "--durations", "25", *chosen]
    run_python(session, "-m", "pytest", *arguments, env={"EXPORTCOMPAT_WHEEL": str(shipped)})


@nox.session
def keys(session: nox.Session) -> None:
    """Record what is executed for each case, and see that its result's key covers it; arguments are names of cases.

    A session that was ended goes on where it was.
    """
    install(session, TRANSFORMERS[0], *TEST_TOOLS)
    chosen, records = " ".join(session.posargs or ["*"]), str(Path(".nox/keys").resolve())
    env = {"EXPORTCOMPAT_KEY_CASES": chosen, "EXPORTCOMPAT_KEY_RECORDS": records, "EXPORTCOMPAT_KEY_JOBS": "2"}
    run_python(session, "-m", "pytest", "--timeout", "0", "tests/export/test_executed.py", env=env)


@nox.session
def matrix(session: nox.Session) -> None:
    """Run telling cases on four telling cells; `nox -s matrix -- --all` runs all, and `-- --help` says what else."""
    probe(session, "run", ".nox/cells", *CELL_TOOLS)


@nox.session
def audit(session: nox.Session) -> None:
    """Run carried results that are drawn at random: `nox -s audit -- --carried 40 --seed 1`; fails if one differs."""
    probe(session, "audit", ".nox/cells", *CELL_TOOLS)


@nox.session
def bisect(session: nox.Session) -> None:
    """Find the releases that need a spec: `nox -s bisect -- SPEC [--package torch] [--case CASE]`."""
    probe(session, "bisect", ".nox/probes")


@nox.session
def boundaries(session: nox.Session) -> None:
    """Prove specs just inside and just outside each end of their ranges: `nox -s boundaries -- [SPEC ...]`."""
    probe(session, "boundaries", ".nox/cells", *CELL_TOOLS)


@nox.session
@nox.parametrize("transformers", TRANSFORMERS)
def zoo(session: nox.Session, transformers: str) -> None:
    """Export every model type of transformers that has no result yet; `-- --help` says how to choose."""
    # Models of segmentation cannot be made without scipy.
    install(session, transformers, "pillow", "scipy")
    run_python(session, "-m", "exportcompat.matrix", "zoo", *session.posargs)


@nox.session
@nox.parametrize("transformers", TRANSFORMERS)
def lanes(session: nox.Session, transformers: str) -> None:
    """Export the telling cases through other tools, those that have no current result; `-- --help` says which."""
    install(session, transformers, *CELL_TOOLS, *LANES[transformers])
    # A lane that takes any release is run with the newest one.
    others = ["--lane", "optimum-onnx", "--lane", "olive"]
    chosen = session.posargs or ([] if transformers == TRANSFORMERS[0] else others)
    run_python(session, "-m", "exportcompat.matrix", "lanes", *chosen)


@nox.session
@nox.parametrize("transformers", TRANSFORMERS)
def judge(session: nox.Session, transformers: str) -> None:
    """Let exporters make files of the same decoders, and compare all with eager; `-- --help` says how to choose."""
    install(session, transformers, *CELL_TOOLS, *JUDGED[transformers])
    run_python(session, "-m", "exportcompat.matrix", "judge", *session.posargs)


@nox.session
@nox.parametrize("recipe", sorted(RECIPES))
def downstream(session: nox.Session, recipe: str) -> None:
    """Run exports of a released package as it is, where some are wrong, and then with its recipe of docs/recipes."""
    check, transformers, *others = RECIPES[recipe]
    name, _, version = recipe.rpartition("-")
    install(session, transformers, *CELL_TOOLS, f"{name}=={version}", *others)
    # What an index has of torchvision may be for another build of torch, and then nothing imports; no decoder needs it.
    session.run("uv", "pip", "uninstall", "--quiet", "--python", str(Path(session.bin) / "python"), "torchvision")
    arguments = ["-W", "ignore", f"docs/recipes/{check}"]
    session.run("python", *arguments, env={"PYTHONSAFEPATH": "1", "HF_HUB_OFFLINE": "1"}, success_codes=[1])
    folder = session.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    patch = Path("docs/recipes", f"{recipe}.patch").resolve()
    session.run("patch", "-p1", "--directory", str(folder).strip(), "--input", str(patch), external=True)
    run_python(session, *arguments)


@nox.session
def fingerprints(session: nox.Session) -> None:
    """Look at every supported release, in wheels that are not installed, and note its sources in the lock file."""
    wheel = build(session)
    uv(session, f"{wheel}[all]", "--no-deps")
    uv(session, "packaging", "tomli")
    run_python(session, "-m", "exportcompat.matrix", "fingerprints", "--cache", ".nox/wheels", *session.posargs)


@nox.session
def data(session: nox.Session) -> None:
    """Build dist/exportcompat_data-*.whl, the results as data; arguments go to `exportcompat matrix dataset`."""
    wheel = build(session)
    uv(session, f"{wheel}[all]", "--no-deps")
    uv(session, "packaging", "tomli", "fastjsonschema")
    folder = Path("build/exportcompat-data")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree("dataset", folder)
    out = folder / "exportcompat_data"
    run_python(session, "-m", "exportcompat.matrix", "dataset", "--out", str(out), *session.posargs)
    session.run("uv", "build", "--quiet", "--wheel", "--out-dir", "dist", str(folder), silent=True)
    (made,) = Path("dist").glob(f"exportcompat_data-{(out / 'VERSION').read_text().strip()}-*.whl")
    size, limit = made.stat().st_size, nox.project.load_toml("dataset/pyproject.toml")["tool"]["exportcompat"]
    session.log(f"{made}: {size} bytes")
    if size > limit["max-wheel-bytes"]:
        session.error(f"{made} is larger than {limit['max-wheel-bytes']} bytes (dataset/pyproject.toml)")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format, also of files that git does not know yet, and run the hooks of a commit."""
    session.install("--quiet", "ruff", "pre-commit")
    session.run("ruff", "check", *CHECKED)
    session.run("ruff", "format", "--check", *CHECKED)
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")


@nox.session
def types(session: nox.Session) -> None:
    """Check types: the package as it is in the wheel, then the tests, the benchmarks and this file."""
    install(session, TRANSFORMERS[0], *TEST_TOOLS, "mypy", "nox", "rich")
    run_python(session, "-m", "mypy", "-p", "exportcompat")
    run_python(session, "-m", "mypy", "tests", "benchmarks", "docs/_site", "noxfile.py")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into build/site and follow every link; an argument is a folder with other results."""
    wheel = build(session)
    uv(session, f"{wheel}[all]", "--no-deps")
    uv(session, "packaging", *DOCS_TOOLS)
    # The two modules of docs/_site import each other by their names.
    env = {"PYTHONSAFEPATH": "", "NO_MKDOCS_2_WARNING": "1"}
    run_python(session, "docs/_site/build_site.py", "build/docs", *session.posargs, env=env)
    arguments = ["--strict", "--config-file", "build/docs/mkdocs.yml", "--site-dir", "../site"]
    run_python(session, "-m", "mkdocs", "build", *arguments, env=env)
    run_python(session, "docs/_site/site_links.py", "build/site", env=env)


@nox.session
def notebook(session: nox.Session) -> None:
    """Run docs/notebook.ipynb and write it with its results to build/; `-- docs/notebook.ipynb` writes it in place."""
    install(session, TRANSFORMERS[0], *NOTEBOOK_TOOLS)
    run_python(session, "docs/_site/run_notebook.py", *(session.posargs or ["build/notebook.ipynb"]))


@nox.session
def node(session: nox.Session) -> None:
    """Load exported folders with transformers.js in Node, which has to be installed; npm fetches the package."""
    install(session, TRANSFORMERS[0], *TEST_TOOLS)
    folder = Path(session.create_tmp()).resolve() / "node"
    folder.mkdir(exist_ok=True)
    # Its runtime has a build for CPUs in the package, and would fetch another one.
    env = {"ONNXRUNTIME_NODE_INSTALL": "skip", "ONNXRUNTIME_NODE_INSTALL_CUDA": "skip"}
    packages = ["--no-audit", "--no-fund", "--prefix", str(folder), *NODE_PACKAGES]
    session.run("npm", "install", *packages, external=True, silent=True, env=env)
    arguments = session.posargs or ["-rs", "tests/export/test_transformers_js.py"]
    run_python(session, "-m", "pytest", *arguments, env={"EXPORTCOMPAT_TRANSFORMERS_JS": str(folder)})


@nox.session
def changelog(session: nox.Session) -> None:
    """Show what the next release will say; `nox -s changelog -- --yes` writes it and removes the fragments."""
    session.install("--quiet", "towncrier>=24.8")
    version = runpy.run_path("src/exportcompat/_version.py")["__version__"]
    session.run("towncrier", "build", "--version", version, *(session.posargs or ["--draft"]))


@nox.session
def bench(session: nox.Session) -> None:
    """Measure import, entry and plan against peers; arguments go to benchmarks/run.py."""
    install(session, TRANSFORMERS[0])
    run_python(session, "benchmarks/run.py", *session.posargs)


@nox.session
def bench_tiny_gpt(session: nox.Session) -> None:
    """Measure tokens a second of the tiny GPT, eager and ONNX; arguments go to benchmarks/tiny_gpt.py."""
    install(session, TRANSFORMERS[0], "matplotlib")
    run_python(session, "benchmarks/tiny_gpt.py", *(session.posargs or ["--plot", "docs/tiny_gpt.png"]))


@nox.session
def bench_growth(session: nox.Session) -> None:
    """Draw what entries, exports, experts and images cost against their size; arguments go to benchmarks/growth.py."""
    install(session, TRANSFORMERS[0], "matplotlib")
    run_python(session, "benchmarks/growth.py", *(session.posargs or ["--docs", "docs"]))


def probe(session: nox.Session, command: str, folder: str, *packages: str) -> None:
    """Run a command that makes environments of its own, in a folder that is kept."""
    wheel = build(session)
    uv(session, f"{wheel}[all]", "--no-deps")
    uv(session, "packaging", "tomli", *packages)
    arguments = [*session.posargs, "--folder", folder, "--wheel", str(wheel)]
    run_python(session, "-m", "exportcompat.matrix", command, *arguments, env=torch_variables(session))


def torch_variables(session: nox.Session) -> dict[str, str]:
    """Return what tells uv to take CPU builds of torch, where they can be had."""
    links = os.pathsep.join(find_links(session)[1::2])
    has_index = torch_source(session, TORCH)[:1] == ["--torch-backend"]
    return {"UV_TORCH_BACKEND": "cpu"} if has_index else {"UV_FIND_LINKS": links} if links else {}


def install(session: nox.Session, transformers: str, *others: str) -> None:
    """Install torch, one transformers, the ONNX packages and our wheel, with the tools of the matrix."""
    wheel = build(session)
    source = torch_source(session, TORCH)
    uv(session, *source, f"torch=={TORCH}")
    # torch is there already: no other source may replace it.
    uv(session, f"torch=={TORCH}", f"transformers=={transformers}", *ONNX, *others, str(wheel), *find_links(session))


def build(session: nox.Session, *, tools: bool = True) -> Path:
    """Build the wheel, with the tools of the matrix or as it is shipped, into the session's temporary folder."""
    session.install("--quiet", "uv>=0.6")
    folder = Path(session.create_tmp()).resolve() / ("whole" if tools else "shipped")
    shutil.rmtree(folder, ignore_errors=True)
    env = {"EXPORTCOMPAT_TOOLS": "1" if tools else ""}
    session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), silent=True, env=env)
    (wheel,) = folder.glob("*.whl")
    return wheel


def uv(session: nox.Session, *arguments: str) -> None:
    """Run `uv pip install` for the session, after `build`; uv shares downloads between sessions."""
    python = str(Path(session.bin) / "python")
    session.run("uv", "pip", "install", "--quiet", "--python", python, *arguments, silent=False)


def torch_source(session: nox.Session, torch: str) -> list[str]:
    """Choose where torch comes from, the CPU build where it can be had, and say which."""
    python = ["--python", str(Path(session.bin) / "python")]
    probe = ["uv", "pip", "install", "--dry-run", "--quiet", *python, f"torch=={torch}"]
    choices = {
        "PyTorch's CPU index": ["--torch-backend", "cpu"],
        "the configured find-links folder": find_links(session),
    }
    for name, arguments in choices.items():
        limits = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "0"}
        if arguments and session.run(*probe, *arguments, silent=True, success_codes=[0, 1, 2], env=limits) == "":
            session.log(f"torch {torch} comes from {name}")
            return arguments
    session.log(f"torch {torch} comes from the default index: it may be a CUDA build of several GB")
    return []


def find_links(session: nox.Session) -> list[str]:
    """Return uv's arguments for the folders that pip is configured to look into, by its variable or its file."""
    configured = session.run(
        "python", "-m", "pip", "config", "get", "global.find-links", silent=True, success_codes=[0, 1]
    )
    found = str(configured)
    folders = os.environ.get("PIP_FIND_LINKS", "" if found.startswith("ERROR") else found).split()
    return [argument for folder in folders for argument in ("--find-links", folder)]


def run_python(session: nox.Session, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run the session's Python so that the folders of this repository cannot be imported by their bare names."""
    # With bytecode kept, the many processes of a session start in a third of the time.
    defaults = {"PYTHONSAFEPATH": "1", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": ""}
    session.run("python", *arguments, env={**defaults, **(env or {})})
