"""Who is told of an assumption, and what a file's conditions mean, without torch."""

import json
import threading
import warnings

import pytest

from exportcompat import Assumption, AssumptionError, AssumptionWarning, apply_patches
from exportcompat._observer._bounds import conditions, outside, schedules, sizes_around, switches
from exportcompat._verification._discrepancy import Discrepancy
from exportcompat.registry import Registry, SpecError, tell_assumptions

ONE = Assumption("length <= 48", "branch", "model.py", 7, "forward", "if length > 48:", {"length": 6})
SHORTCUT = Assumption("length > 1", "shortcut", "model.py", 9, "forward", "if length == 1:", {"length": 6})
EMPTY = Registry([])


def test_a_report_has_each_assumption_once_and_as_plain_data() -> None:
    with apply_patches(registry=EMPTY, on_assumption="ignore") as report:
        tell_assumptions([ONE, SHORTCUT])
        tell_assumptions([ONE])
    assert report.assumptions == [ONE, SHORTCUT]
    found = json.loads(report.to_json())["assumptions"]
    assert found[0]["condition"] == "length <= 48"
    assert (found[0]["file"], found[0]["line"], found[0]["sample"]) == ("model.py", 7, {"length": 6})


def test_a_warning_is_that_of_the_models_line_and_shortcuts_give_none() -> None:
    other = Assumption("length <= 99", "branch", "model.py", 7, "forward", "if length > 48:", {"length": 6})
    with pytest.warns(AssumptionWarning) as caught, apply_patches(registry=EMPTY):
        tell_assumptions([SHORTCUT, ONE, other])
    (warning,) = caught
    assert (warning.filename, warning.lineno) == ("model.py", 7)
    assert "only where length <= 48 (the sample has length = 6)" in str(warning.message)
    assert "1 more condition" in str(warning.message)


def test_an_error_names_every_assumption_and_the_innermost_scope_decides() -> None:
    with apply_patches(registry=EMPTY, on_assumption="error") as outer:
        with pytest.raises(AssumptionError, match=r"model\.py:7") as caught:
            tell_assumptions([ONE])
        tell_assumptions([SHORTCUT])
        with apply_patches(registry=EMPTY, on_assumption="ignore") as inner:
            tell_assumptions([ONE])
    assert caught.value.assumptions == (ONE,)
    assert (outer.assumptions, inner.assumptions) == ([ONE, SHORTCUT], [ONE])


def test_nobody_is_told_outside_of_a_scope() -> None:
    with apply_patches(registry=EMPTY, on_assumption="error") as report:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell_assumptions([ONE])
    assert report.assumptions == []


def test_a_scope_of_another_thread_is_told_where_this_one_has_none() -> None:
    with apply_patches(registry=EMPTY, on_assumption="ignore") as report:
        thread = threading.Thread(target=tell_assumptions, args=([ONE],))
        thread.start()
        thread.join()
    assert report.assumptions == [ONE]


def test_a_policy_that_is_unknown_is_refused() -> None:
    with pytest.raises(SpecError, match="on_assumption is 'never'; wanted 'warn', 'error', 'ignore'"):
        apply_patches(on_assumption="never")  # type: ignore[arg-type]


def facts(*texts: str, **sample: int) -> dict[str, str]:
    items = [Assumption(text, "branch", "model.py", 7, "forward", "if", sample).to_dict() for text in texts]
    return {"exportcompat.assumptions": json.dumps(items)}


def test_conditions_are_read_and_tried() -> None:
    (found,) = conditions(facts("past_sequence + sequence <= 48", past_sequence=18, sequence=3))
    assert found.holds({"past_sequence": 40, "sequence": 8}) is True
    assert found.holds({"past_sequence": 40, "sequence": 9}) is False
    assert found.holds({"sequence": 9}) is None
    assert outside([found], {"past_sequence": 40, "sequence": 9}) == [found]
    assert str(found) == "past_sequence + sequence <= 48 (model.py:7: if)"


@pytest.mark.parametrize(
    "text", ["__import__('os').system('true')", "open('x')", "(1).__class__", "9 ** 9 ** 9", "1 +", "[1 for x in y]"]
)
def test_what_is_no_arithmetic_is_not_run(text: str) -> None:
    assert conditions(facts(text)) == []


def test_a_file_without_metadata_has_no_conditions() -> None:
    assert conditions({}) == conditions({"exportcompat.assumptions": "no json"}) == []


def test_a_switch_at_2048_is_passed_from_one_side_to_the_other() -> None:
    (found,) = conditions(facts("past_sequence + sequence <= 2048", past_sequence=18, sequence=3))
    assert switches(found) == [2048]
    quick = [Discrepancy(call="", new=40, torch_ms=5.0, onnx_ms=1.0)]
    made, dear = schedules([found], quick)
    assert {sum(item.lengths[:2]) for item in made} == {2048, 2050}
    assert {item.lengths[0] for item in made} == {2047, 2049}
    assert dear == []
    slow = [Discrepancy(call="", new=40, torch_ms=5000.0)]
    made, (note,) = schedules([found], slow)
    assert made == []
    assert "not tried at length 2049" in note


def test_a_switch_among_the_usual_lengths_needs_no_calls_of_its_own() -> None:
    (found,) = conditions(facts("past_sequence > 0", past_sequence=3))
    assert switches(found) == [1]
    assert schedules([found], []) == ([], [])


def test_sizes_are_found_on_both_sides() -> None:
    (found,) = conditions(facts("height * 2 <= 33", height=6))
    assert list(sizes_around(found, {"height": 6, "width": 5})) == [
        {"height": 17, "width": 5},
        {"height": 16, "width": 5},
    ]
    (even,) = conditions(facts("(height % 2) == 0", height=6))
    assert [sizes["height"] for sizes in sizes_around(even, {"height": 6})] == [7, 6, 5, 6]
