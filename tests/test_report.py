"""The report: nothing is lost or shown as something else, in data, in Markdown, and in a browser."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from exportcompat import matrix
from exportcompat.matrix.cases import CASES
from exportcompat.matrix.checks._row import proved
from exportcompat.matrix.reports._report import write_report
from exportcompat.matrix.store._outcomes import STATES
from exportcompat.registry import ExportCompatError

pytest.importorskip("fastjsonschema", reason="result files are checked with it")

EVIL = "</script><img src=x onerror=\"document.title='owned'\"><!--<script> `a` | *b*"
SCHEMA = json.loads((Path(matrix.__path__[0]) / "results.schema.json").read_text("utf-8"))
PACKAGES = ("torch==2.13.0+cpu", "transformers==5.9.0", "onnx==1.2.0", "onnxscript==0.7.0", "onnxruntime==1.3.0")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to show the page in")

Row = dict[str, Any]


def row(state: str, **fields: Any) -> Row:
    rest = {"key": "0" * 16, "date": "2026-01-01", "environment": "0" * 8}
    return {"state": state, "problems": [], **rest, **fields}


def full(state: str, **fields: Any) -> Row:
    """Return a result with every field."""
    lists = {"applied": ["spec-a", "spec-b"], "used": ["spec-a"], "modules": ["transformers.models.x.modeling_x"]}
    numbers = {"difference": 0.1234567, "calls": 188, "seconds": 9.5, "total_seconds": 12.5, "megabytes": 401}
    plain = {"state": "fails", "problem": "plain problem", "seconds": 0.5}
    proofs = {"spec-a": proved("fails", problem="TypeError: no"), "spec-b": proved("works")}
    return row(state, **{"sample": "2,5,3", "plain": plain, "proofs": proofs, **lists, **numbers, **fields})


def write(folder: Path, transformers: str, torch: str, rows: dict[str, Row]) -> Path:
    path = folder / f"transformers-{transformers}_torch-{torch}.json"
    environments = {"0" * 8: {"python": "3.11.7", "packages": list(PACKAGES)}}
    content = {"schema": 2, "torch": torch, "transformers": transformers, "environments": environments, "cases": rows}
    folder.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def write_some(folder: Path) -> None:
    """Write three cells; that of torch 2.13.0 has the most results."""
    rows = {
        "llama": full("patched"),
        "gpt2": full("fails", problems=[EVIL, "second"], was="patched"),
        "opt": row("absent"),
        "mamba": full("wrong", difference=float("inf"), used=["spec-b"], problems=["all are wrong"]),
    }
    write(folder, "5.10.4", "2.13.0", rows)
    write(folder, "5.9.0", "2.13.0", {"llama": full("native", date="2026-02-03")})
    write(folder, "5.9.0", "2.6.0", {"llama": full("wrong"), "gpt2": full("patched")})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_some(tmp_path / "results")
    return tmp_path / "results"


def report(results: Path, kind: str) -> str:
    out = results.parent / "made" / "by" / f"report.{kind}"
    write_report(results, out, kind)
    assert not list(out.parent.glob("*.part"))
    return out.read_text("utf-8")


def page_data(page: str) -> dict[str, Any]:
    """Return the data in a page, found as a browser finds it: to the next end of a script."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script', page, re.DOTALL | re.IGNORECASE)
    assert found
    data: dict[str, Any] = json.loads(found[1], parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    return data


def rows_of(data: dict[str, Any]) -> dict[tuple[str, str, str], Row]:
    """Return the rows of a page with what their numbers stand for."""
    found = {}
    for values in data["rows"]:
        item = dict(zip(data["fields"], values, strict=True))
        name, transformers, torch = item.pop("case"), item.pop("transformers"), item.pop("torch")
        item["state"] = data["states"][item["state"]]["name"]
        for field in ("problems", "proofs"):
            item[field] = [data["texts"][text] for text in item[field]]
        for field in ("was", "plain_state", "plain_problem", "sample", "date"):
            item[field] = None if item[field] is None else data["texts"][item[field]]
        for field in ("applied", "used"):
            ids = None if item[field] is None else data["lists"][item[field]]
            item[field] = None if ids is None else [data["specs"][spec] for spec in ids]
        python, packages = data["environments"][item["environment"]]
        item["environment"] = (python, tuple(data["packages"][package] for package in packages))
        found[data["cases"][name][0], data["transformers"][transformers], data["torch"][torch]] = item
    return found


def test_every_state_of_the_schema_is_known() -> None:
    assert sorted(state.name for state in STATES) == sorted(SCHEMA["definitions"]["state"]["enum"])
    assert STATES[0].name == "wrong" and STATES[-1].name == "untested"
    assert len({state.letter for state in STATES}) == len(STATES)


def test_every_state_has_a_colour_and_a_sign_of_its_own() -> None:
    page = (Path(matrix.__path__[0]) / "report.html").read_text("utf-8")
    found = re.findall(r'^\.(\w+) \{\s+--sign: "(.)"; background: var\(--(\w+)\)', page, re.MULTILINE)
    assert sorted(name for name, _, _ in found) == sorted(state.name for state in STATES)
    assert len({sign for _, sign, _ in found}) == len(STATES)
    assert all(name == colour for name, _, colour in found)


def test_a_page_loads_nothing(results: Path) -> None:
    page = report(results, "html")
    assert "default-src 'none'" in page
    assert not re.findall(r"https?://|@import|<link(?! rel=\"icon\" href=\"data:,\")|<script src|innerHTML", page)


def test_a_page_has_all_that_is_in_the_files(results: Path) -> None:
    data = page_data(report(results, "html"))
    assert (data["torch"], data["newest"]) == (["2.13.0", "2.6.0"], "2026-02-03")
    assert [name for name, _ in data["cases"]] == list(CASES)
    rows = rows_of(data)
    assert {place: item["state"] for place, item in rows.items()} == {
        ("llama", "5.10.4", "2.13.0"): "patched",
        ("gpt2", "5.10.4", "2.13.0"): "fails",
        ("opt", "5.10.4", "2.13.0"): "absent",
        ("mamba", "5.10.4", "2.13.0"): "wrong",
        ("llama", "5.9.0", "2.13.0"): "native",
        ("llama", "5.9.0", "2.6.0"): "wrong",
        ("gpt2", "5.9.0", "2.6.0"): "patched",
    }
    assert rows["gpt2", "5.10.4", "2.13.0"] == {
        "state": "fails",
        "was": "patched",
        "carried": None,
        "problems": [EVIL, "second"],
        "plain_state": "fails",
        "plain_problem": "plain problem",
        "plain_seconds": 0.5,
        "sample": "2,5,3",
        "difference": 0.123,
        "calls": 188,
        "seconds": 9.5,
        "total_seconds": 12.5,
        "megabytes": 401,
        "applied": ["spec-a", "spec-b"],
        "used": ["spec-a"],
        "proofs": ["without spec-a fails: TypeError: no", "without spec-b works"],
        "date": "2026-01-01",
        "environment": ("3.11.7", PACKAGES),
    }
    assert rows["mamba", "5.10.4", "2.13.0"]["difference"] == "inf"
    assert rows["opt", "5.10.4", "2.13.0"]["used"] is None


def test_a_page_offers_supported_releases_and_others(results: Path) -> None:
    write(results, "6.0.0", "2.13.0", {"llama": full("patched")})
    names = page_data(report(results, "html"))["transformers"]
    assert names[:2] == ["6.0.0", "5.24.0"] and names.index("5.10.4") < names.index("5.9.0") < names.index("4.57.6")


def test_a_case_that_is_gone_is_still_shown(results: Path) -> None:
    write(results, "5.11.0", "2.13.0", {"no_such_case": full("wrong")})
    assert page_data(report(results, "html"))["cases"][-1] == ["no_such_case", "no_such_case"]
    assert "| `no_such_case` | **W** | · | · |" in report(results, "md").splitlines()


def test_records_are_flat_sorted_and_complete(results: Path) -> None:
    found = json.loads(report(results, "json"), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    cells = [("5.10.4", "2.13.0"), ("5.9.0", "2.13.0"), ("5.9.0", "2.6.0")]
    places = [(item["transformers"], item["torch"], item["case"]) for item in found]
    assert places == [(*cell, name) for cell in cells for name in CASES]
    assert len({tuple(item) for item in found}) == 1
    assert not [value for item in found for value in item.values() if isinstance(value, dict)]
    by_place = dict(zip(places, found, strict=True))
    assert by_place["5.9.0", "2.6.0", "opt"]["state"] == "untested"
    assert by_place["5.10.4", "2.13.0", "mamba"]["difference"] == "inf"
    assert (
        by_place["5.10.4", "2.13.0", "gpt2"].items()
        >= {
            "was": "patched",
            "problems": [EVIL, "second"],
            "plain_problem": "plain problem",
            "difference": 0.1234567,
            "used": ["spec-a"],
            "proofs": ["without spec-a fails: TypeError: no", "without spec-b works"],
            "python": "3.11.7",
            "torch_installed": "2.13.0+cpu",
        }.items()
    )


def test_each_field_of_a_record_is_documented(results: Path) -> None:
    documented = set(re.findall(r"`(\w+)`", str(write_report.__doc__)))
    for name in json.loads(report(results, "json"))[0]:
        assert name in documented or name.endswith("_installed")


def test_markdown_has_shares_letters_and_what_does_not_work(results: Path) -> None:
    text = report(results, "md")
    lines = text.splitlines()
    assert f"7 results of {len(CASES)} cases, the newest of 2026-02-03." in text
    assert any(re.fullmatch(r"\| 5.9.0 \| 1/2 \(\+\d+\) \| 1/1 \(\+\d+\) \|", line) for line in lines)
    assert text.index("## torch 2.13.0") < text.index("## torch 2.6.0") < text.index("## What does not work")
    assert "| case | 5.10.4 | 5.9.0 |" in lines
    assert [line for line in lines if line.startswith(("| `llama` ", "| `mamba` ", "| `opt` "))] == [
        "| `llama` | P | N |",
        "| `opt` | A | · |",
        "| `mamba` | **W** | · |",
        "| `llama` | **W** |",
    ]
    untested = next(line for line in lines if line.startswith("Untested with this torch: "))
    assert re.fullmatch(r"Untested with this torch: (\d+) of \d+ cases\.", untested)
    for state in STATES:
        letter = "**W**" if state.name == "wrong" else state.letter
        assert f"- {letter}: {state.name}, {state.meaning}" in lines


def test_markdown_lists_the_worst_first_and_groups_releases(results: Path) -> None:
    write(results, "5.8.1", "2.13.0", {"mamba": full("wrong", problems=["all are wrong"]), "phi": row("unsupported")})
    lines = report(results, "md").partition("## What does not work\n\n")[2].splitlines()
    assert lines == [
        "- **wrong**: `llama`, torch 2.6.0, transformers 5.9.0",
        "- **wrong**: `mamba`, torch 2.13.0, transformers 5.10.4, 5.8.1: `all are wrong`",
        f"- **fails**: `gpt2`, torch 2.13.0, transformers 5.10.4 (was patched): `` {EVIL} ``",
        "- **unsupported**: `phi`, torch 2.13.0, transformers 5.8.1",
    ]


def test_markdown_stays_on_one_line_and_in_its_table(results: Path) -> None:
    rows = {"a|b": full("fails", problems=["one\ntwo\x1b[31m ``three`` \ud800"])}
    write(results, "5.11.0", "2.13.0", rows)
    text = report(results, "md")
    assert "| `a\\|b` | F |" in text
    assert "- **fails**: `a|b`, torch 2.13.0, transformers 5.11.0: ``` one two [31m ``three`` ```" in text.splitlines()


def test_where_all_works_markdown_says_so(tmp_path: Path) -> None:
    write(tmp_path / "results", "5.9.0", "2.6.0", {"llama": full("native")})
    assert report(tmp_path / "results", "md").endswith("## What does not work\n\nNothing that was tested.\n")


def test_seasons_have_a_table_and_what_was_not_run_is_said(results: Path) -> None:
    assert "## Seasons" not in report(results, "md")
    rows = {"llama": full("patched"), "opt": row("absent"), "mamba": full("wrong", problems=["all are wrong"])}
    for name in ("2.7", "2.7_python-3.12"):
        path = write(results / "seasons", "4.53.1", "2.7.1", rows)
        python = {"python": f"{name.partition('-')[2] or '3.11'}.1", "packages": list(PACKAGES)}
        path.write_text(json.dumps({**json.loads(path.read_text()), "environments": {"0" * 8: python}}))
        path.rename(path.with_name(f"{path.stem}_season-{name}.json"))
    text = report(results, "md")
    lines = text.partition("## Seasons")[2].partition("## torch")[0].splitlines()
    assert "| 2.7 | 4.53.1 | not run | 1/2 | 1/2 | not run | onnxscript 0.3.1, onnx-ir 0.1.4, " in "\n".join(lines)
    assert any(line.startswith("| 2.7 | 4.44.2 | not run | not run | not run | not run | ") for line in lines)
    assert lines.count("- **wrong**: `mamba`, season 2.7, transformers 4.53.1, Python 3.12: `all are wrong`") == 1


@pytest.mark.parametrize("kind", ["html", "md", "json"])
def test_reports_follow_from_the_files_alone(results: Path, kind: str) -> None:
    assert report(results, kind) == report(results, kind)


def test_an_unknown_kind_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="no report of the kind 'pdf'; use one of html, md, json"):
        write_report(tmp_path / "nothing", tmp_path / "report.pdf", "pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["html", "md", "json"])
def test_bad_files_are_named_and_the_old_report_stays(results: Path, kind: str) -> None:
    out = results.parent / "report"
    out.write_text("old")
    path = write(results, "5.11.0", "2.13.0", {"llama": full("patched")})
    content = path.read_text()
    for text, message in (
        (content[:40], "is no whole result file"),
        (content.replace('"patched"', '"great"'), "is no whole result file"),
        (content.replace('"environment": "0', '"environment": "1'), "does not say what was installed for llama"),
        (content.replace('"5.11.0"', '"5.11 or so"'), "is for no release"),
    ):
        path.write_text(text)
        with pytest.raises(ExportCompatError, match=rf"transformers-5\.11.*{message}.* run"):
            write_report(results, out, kind)
    assert out.read_text() == "old"


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="there are no results in .*; run: nox -s matrix"):
        write_report(tmp_path, tmp_path / "report.html", "html")


def test_a_report_that_cannot_be_written_is_named_and_leaves_nothing(results: Path) -> None:
    folder = results.parent / "folder"
    folder.mkdir()
    with pytest.raises(ExportCompatError, match="cannot be written to .*folder, which is a folder; name a file"):
        write_report(results, folder, "json")
    (results.parent / "file").write_text("")
    with pytest.raises(ExportCompatError, match="cannot be written to .*; name another file"):
        write_report(results, results.parent / "file" / "report.json", "json")
    assert sorted(path.name for path in results.parent.iterdir()) == ["file", "folder", "results"]


SCRIPT = """<script>
{
const said = [];
addEventListener("error", (event) => say("error: " + event.message));
addEventListener("unhandledrejection", (event) => say("error: " + event.reason));
function say(text) { said.push(text); }
function press(key, more) {
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
}
function at() {
  const cell = document.activeElement;
  const head = document.querySelector("thead tr").cells[cell.cellIndex];
  return cell.parentElement.querySelector("code").textContent + " " + head.querySelector("span").textContent;
}
const cellOf = (name) => [...document.querySelectorAll("tbody tr")].find(
  (row) => row.querySelector("code").textContent === name).cells[1];
const shown = () => new Promise((done) => setTimeout(done, 50));
const event = (target, name) => new Promise((done) => target.addEventListener(name, done, { once: true }));
const set = (id, value) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event("input", { bubbles: true }));
};
(async () => {
  try { STEPS } catch (error) { say("error: " + error); }
  const out = document.createElement("pre");
  out.id = "said";
  out.textContent = JSON.stringify(said);
  document.body.append(out);
})();
}
</script></body>"""


def browse(results: Path, fragment: str = "", steps: str = "") -> str:
    """Return the page as Chromium has it after its script ran, and the steps."""
    page = results.parent / "page.html"
    write_report(results, page, "html")
    text = page.read_text("utf-8")
    page.write_text(text.replace("</body>", SCRIPT.replace("STEPS", steps)), "utf-8")
    profile = f"--user-data-dir={results.parent / 'profile'}"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--virtual-time-budget=5000", profile, "--dump-dom"]
    done = subprocess.run(
        [str(CHROMIUM), *flags, f"{page.as_uri()}#{fragment}"], capture_output=True, text=True, timeout=300, check=True
    )
    # The data and the scripts are still in the page, and are not what it shows.
    return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)


def said(page: str) -> list[str]:
    found = re.search(r'<pre id="said">(.*?)</pre>', page, re.DOTALL)
    assert found, page[-2000:]
    texts: list[str] = json.loads(html.unescape(found[1]))
    return texts


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def table_of(page: str) -> dict[str, list[tuple[str, str]]]:
    """Return name, then classes and text of each cell, of the rows of the table."""
    body = page.partition("<tbody")[2].partition("</tbody>")[0]
    rows = body.split("<tr")[1:]
    names = [re.search(r"<code>(.*?)</code>", item) for item in rows]
    cells = [re.findall(r'<td class="state ([\w ]+)"[^>]*>(.*?)</td>', item) for item in rows]
    return {name[1]: found for name, found in zip(names, cells, strict=True) if name}


def releases_of(page: str) -> list[str]:
    return re.findall(r'<th scope="col"[^>]*><span>([\d.]+)</span>', page)


@in_browser
def test_the_table_shows_each_state_by_class_and_word(results: Path) -> None:
    page = browse(results)
    assert said(page) == []
    assert releases_of(page) == ["5.10.4", "5.9.0"]
    table = table_of(page)
    assert list(table) == list(CASES)
    assert table["llama"] == [("patched", "patched"), ("native", "native")]
    assert table["mamba"] == [("wrong", "wrong"), ("untested", "untested")]
    assert table["gpt2"][0] == ("fails", "fails") and table["opt"][0] == ("absent", "absent")
    assert 'data-note="↓"' in page and page.count('data-note="') == 1
    line = re.sub("<[^>]*>", "", page.partition('role="status">')[2].partition("</p>")[0])
    untested = 2 * len(CASES) - 5
    works = f"torch 2.13.0: 2 of 4 work (50 %), 1 wrong, {untested} not tested. "
    assert line == f"{works}7 results in all, the newest of 2026-02-03."


@in_browser
def test_the_table_can_be_read_by_machines_that_read_aloud(results: Path) -> None:
    page = browse(results)
    assert re.search(r'<table role="grid" aria-label="[^"]*torch 2.13.0"', page)
    assert page.count('<th scope="row" role="rowheader"') == len(CASES)
    assert page.count('<td class="') == page.count('role="gridcell"') == 2 * len(CASES)
    assert len(re.findall(r'<td [^>]*tabindex="0"', page)) == 1


@in_browser
def test_all_torch_releases_are_the_worst_state_of_each(results: Path) -> None:
    table = table_of(browse(results, "torch=all"))
    assert table["llama"] == [("patched", "patched"), ("wrong", "wrong")]
    assert table["gpt2"] == [("fails", "fails"), ("patched", "patched")]


@in_browser
@pytest.mark.parametrize(
    ("fragment", "names", "releases"),
    [
        ("text=NEOX+gpt", ["gpt_neox", "gpt_neox_eager"], ["5.10.4", "5.9.0"]),
        ("states=wrong,fails", ["gpt2", "mamba"], ["5.10.4"]),
        ("states=native", ["llama"], ["5.9.0"]),
        ("spec=spec-b", ["mamba"], ["5.10.4"]),
        ("spec=spec-a&states=patched,wrong&torch=2.6.0", ["llama", "gpt2"], ["5.9.0"]),
        ("states=", [], []),
        ("torch=9.9&spec=none&cell=no/such/cell&text=gptj", ["gptj", "gptj_eager"], ["5.10.4", "5.9.0"]),
    ],
)
def test_filters_are_read_from_the_address(results: Path, fragment: str, names: list[str], releases: list[str]) -> None:
    page = browse(results, fragment)
    assert (said(page), list(table_of(page)), releases_of(page)) == ([], names, releases)
    assert ("No result is like that." in page) == (not names)


@in_browser
def test_what_does_not_fit_a_filter_is_pale_and_still_what_it_is(results: Path) -> None:
    table = table_of(browse(results, "states=native"))
    assert table == {"llama": [("native", "native")]}
    write(results, "5.9.0", "2.13.0", {"llama": full("native"), "gpt2": full("native")})
    table = table_of(browse(results, "states=native,fails"))
    assert table["llama"] == [("patched faded", "patched"), ("native", "native")]
    assert table["gpt2"] == [("fails", "fails"), ("native", "native")]


@in_browser
def test_filters_change_the_table_and_the_address(results: Path) -> None:
    steps = """
    set("text", "llama"); await shown(); say(location.hash);
    set("torch", "all"); await shown(); say(location.hash);
    document.querySelector("#states input[value=untested]").click(); await shown(); say(location.hash);
    say(String(document.querySelectorAll("tbody tr").length));
    location.hash = "#torch=2.6.0"; await event(window, "hashchange");
    say(document.getElementById("torch").selectedOptions[0].textContent);
    document.querySelector("button[type=reset]").click(); await shown(); say(location.hash);
    document.getElementById("every").click(); await shown();
    say(document.querySelector("thead th + th span").textContent);
    """
    rest = "states=wrong,fails,uninstallable,unsupported,patched,native,absent"
    assert said(browse(results, "", steps)) == [
        "#text=llama",
        "#torch=all&text=llama",
        f"#torch=all&text=llama&{rest}",
        "1",
        "2.6.0 (1/2 work)",
        "",
        "5.24.0",
    ]


@in_browser
def test_what_pip_freeze_says_chooses_a_column(results: Path) -> None:
    steps = """
    for (const text of FREEZES) {
      document.getElementById("freeze").value = text;
      document.getElementById("freeze").dispatchEvent(new Event("input", { bubbles: true })); await shown();
      say(document.getElementById("found").textContent);
      say([...document.querySelectorAll("thead th + th span")].map((item) => item.textContent).join(" "));
    }
    say(location.hash);
    location.hash = "#mine=5.9.0/2.13.0"; await event(window, "hashchange");
    say(String(document.querySelectorAll("thead th + th").length));
    """
    freezes = [
        "torch==2.13.0",
        "numpy==2.0\ntorch==2.13.0+cu128\ntransformers==5.10.4\n",
        "torch 2.13.1\ntransformers 5.9.5",
    ]
    assert said(browse(results, "", steps.replace("FREEZES", json.dumps(freezes)))) == [
        "There is no line of transformers, such as torch==2.13.0.",
        "5.10.4 5.9.0",
        "transformers 5.10.4 with torch 2.13.0: its column is shown.",
        "5.10.4",
        (
            "transformers 5.9.5 with torch 2.13.1 is not tested; nearest: transformers 5.10.4 and 5.9.0 with torch "
            "2.13.0."
        ),
        "5.10.4 5.9.0",
        "#torch=2.13.0&mine=5.9.5/2.13.1",
        "1",
    ]


@in_browser
def test_cases_are_found_by_a_class_or_a_name_of_the_hub(results: Path) -> None:
    folders = {"llama": ["llama"], "mamba": ["llama", "mamba"]}
    rows = {
        name: full("native", modules=[f"transformers.models.{item}.modeling_{item}" for item in loaded])
        for name, loaded in folders.items()
    }
    write(results, "5.11.0", "2.13.0", rows)
    steps = """
    for (const text of ["LlamaForCausalLM", "meta-llama/Llama-3.2-1B", "somebody/mamba-130m", "some/none-of-these"]) {
      set("text", text); await shown();
      say([...document.querySelectorAll("tbody tr code")].map((item) => item.textContent).join(" "));
    }
    """
    assert said(browse(results, "", steps)) == ["llama", "llama", "mamba", ""]


@in_browser
def test_keys_move_between_cells_and_one_is_in_the_order_of_tab(results: Path) -> None:
    steps = """
    document.querySelector("td[tabindex='0']").focus(); say(at());
    for (const key of ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowRight", "ArrowDown", "Home", "End"]) {
      press(key); say(at());
    }
    press("PageDown"); say(at()); press("Home", { ctrlKey: true }); say(at());
    say(String(document.querySelectorAll("td[tabindex='0']").length));
    say(String(document.activeElement.tabIndex));
    """
    names = list(CASES)
    assert said(browse(results, "", steps)) == [
        *(f"{names[0]} {release}" for release in ("5.10.4", "5.10.4", "5.10.4", "5.9.0", "5.9.0")),
        *(f"{names[1]} {release}" for release in ("5.9.0", "5.10.4", "5.9.0")),
        f"{names[11]} 5.9.0",
        f"{names[0]} 5.10.4",
        "1",
        "0",
    ]


@in_browser
def test_enter_and_click_open_the_details_and_the_focus_comes_back(results: Path) -> None:
    steps = """
    const dialog = document.querySelector("dialog");
    cellOf("mamba").focus(); press("Enter");
    say([dialog.open, document.activeElement.textContent, location.hash].join(" "));
    dialog.querySelector("button").click(); await event(dialog, "close");
    say([dialog.open, at(), location.hash].join(" "));
    cellOf("gpt2").click(); say([dialog.open, dialog.querySelector("h2").textContent].join(" "));
    [...dialog.querySelectorAll(".other")].pop().click(); say(location.hash);
    """
    assert said(browse(results, "", steps)) == [
        "true Close #cell=mamba/5.10.4/2.13.0",
        "false mamba 5.10.4 ",
        "true GPT-2",
        "#cell=gpt2/5.10.4/2.6.0",
    ]


@in_browser
def test_details_show_all_fields_as_text(results: Path) -> None:
    page = browse(results, "cell=gpt2/5.10.4/2.13.0")
    dialog = page.partition("<dialog")[2].partition("</dialog>")[0]
    assert said(page) == [] and " open" in dialog.partition(">")[0]
    terms = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", dialog, re.DOTALL)
    found = {name: " ".join(text_of(value).split()) for name, value in terms}
    assert found == {
        "State": "fails",
        "Was": "patched before it stopped working",
        "Problems": f"{EVIL} second",
        "Without patches": "fails after 0.5 s plain problem",
        "Specs used": "spec-a",
        "Applied, not used": "spec-b",
        "Proofs at ends of ranges": "without spec-a fails: TypeError: no without spec-b works",
        "Largest difference": "0.123 (absolute, of a logit)",
        "Calls compared": "188",
        "Sample": "2,5,3 (batch, past and new tokens)",
        "Export": "9.5 s, with the check 12.5 s",
        "Memory": "401 MB",
        "Date": "2026-01-01",
        "All torch releases": "2.13.0 fails 2.6.0 untested",
        "Reproduce": "nox -s matrix -- --transformers 5.10.4 --torch 2.13.0 --case gpt2 --fresh",
        "Environment": f"Python 3.11.7, 5 packages {' '.join(PACKAGES)}",
    }


@in_browser
def test_text_of_a_result_is_never_markup(results: Path) -> None:
    write(results, "5.11.0", "2.13.0", {EVIL: full("fails", problems=[EVIL], used=[], sample=EVIL)})
    page = browse(results, "text=onerror", 'document.querySelector("tbody td").click(); say(document.title);')
    assert said(page) == ["exportcompat: what works"]
    assert "<img" not in page and html.escape(EVIL, quote=False) in page


@in_browser
def test_a_case_without_result_says_how_to_get_one(results: Path) -> None:
    text = " ".join(text_of(browse(results, "cell=phi/5.9.0/2.6.0").partition("<dialog")[2]).split())
    assert "State untested All torch releases 2.13.0 untested 2.6.0 untested" in text
    assert "nox -s matrix -- --transformers 5.9.0 --torch 2.6.0 --case phi --fresh" in text
