"""The plug-in of pytest: each test of an exporter in a scope of its own."""

import pytest

pytest_plugins = ["pytester"]

INSIDE = """
import unittest

import torch


class TestOfAnExporter(unittest.TestCase):
    def test_takes_a_chosen_number_of_rows(self):
        class Model(torch.nn.Module):
            def forward(self, x):
                return x[x > 0].softmax(0)

        torch.onnx.export(Model(), (torch.randn(5),), dynamo=True)

    def test_fails(self):
        assert torch.zeros(1).item() == 1
"""


def test_each_test_is_in_a_scope_and_the_end_says_what_was_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(INSIDE)
    found = pytester.runpytest_subprocess("-p", "exportcompat.adapters.in_pytest", "-p", "no:cacheprovider")
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.re_match_lines_random([r"=+ exportcompat: tests that used a spec =+", r" +1 torch-onnx-[a-z-]+"])


def test_a_run_that_uses_nothing_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    found = pytester.runpytest_subprocess("-p", "exportcompat.adapters.in_pytest", "-p", "no:cacheprovider")
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["none"])
