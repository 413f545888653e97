"""What is inferred from observed calls, in plain torch: each known fault of such observers is absent."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="what is observed are calls of a torch module")

from exportcompat import ExportCompatError, InputObserver, apply_patches, export
from exportcompat._observer import observe
from exportcompat._observer._compared_call import compared
from exportcompat._observer._rope_index import with_positions
from exportcompat._observer._tree import flatten

Module: Any = torch.nn.Module


class Two(Module):
    """Two tensors, and a number that a graph has to hold."""

    def forward(self, x: Any, y: Any = None, scale: float = 1.0) -> Any:
        return x * scale if y is None else x * scale - y


class Picky(Module):
    """Raises for a batch of 5."""

    def forward(self, x: Any) -> Any:
        if x.shape[0] == 5:
            raise ValueError("five")
        return x + x.shape[0]


class Mixed(Module):
    """Takes a number by position, and returns tensors, numbers and texts."""

    def forward(self, x: Any, times: int, flag: bool = False) -> Any:
        return {"left": x * times, "count": times, "name": "text", "nothing": None, "right": [x, (x + 1,)]}


class Images(Module):
    """Takes images in some calls only."""

    def forward(self, tokens: Any, pixels: Any = None) -> Any:
        result = tokens.float()
        return result if pixels is None else result + pixels.sum()


class Starred(Module):
    """Takes any number of tensors."""

    def forward(self, x: Any, *others: Any, flag: Any = None) -> Any:
        return x + others[0] * others[1]


class Walked(Module):
    """Computes positions from tokens in its first call, and goes on from them afterwards."""

    rope_deltas: Any = None

    def get_rope_index(self, input_ids: Any, attention_mask: Any = None) -> Any:
        positions = (input_ids > 0).long().cumsum(1).expand(3, -1, -1)
        return positions, positions.amax((0, 2))[:, None] + 1 - input_ids.shape[1]

    def forward(
        self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None, past_key_values: Any = None
    ) -> Any:
        if position_ids is None and past_key_values is None:
            _, self.rope_deltas = self.get_rope_index(input_ids, attention_mask)
        return input_ids.float()


class Past:
    """A cache of 5 tokens."""

    def get_seq_length(self) -> int:
        return 5


def observed(model: Any, *calls: Any, **settings: Any) -> InputObserver:
    observer = InputObserver(**settings)
    with observer(model, store_n_calls=10):
        for call in calls:
            model(**call) if isinstance(call, dict) else model(*call)
    return observer


def zeros(*shape: int) -> Any:
    return torch.zeros(shape)


def shapes(arguments: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in arguments.items()}


def test_axes_that_varied_are_dynamic_and_named_alike_where_they_are_the_same() -> None:
    observer = observed(Two(), (zeros(2, 5, 4), zeros(2, 5, 4)), (zeros(2, 7, 4), zeros(2, 7, 4)))
    assert observer.infer_dynamic_shapes() == {"x": {1: "x_1"}, "y": {1: "x_1"}}
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=["x"]) == {
        "x": {0: "batch", 1: "x_1"},
        "y": {1: "x_1"},
    }
    both = {0: "batch", 1: "x_1"}
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=True) == {"x": both, "y": both}
    dynamic = torch.export.Dim.DYNAMIC
    assert observer.infer_dynamic_shapes(names=False) == {"x": {1: dynamic}, "y": {1: dynamic}}


def test_two_axes_of_one_tensor_are_not_tied() -> None:
    """Images that were all square are no reason to ask for squares."""
    observer = observed(Two(), (zeros(1, 8, 8),), (zeros(1, 16, 16),))
    assert observer.infer_dynamic_shapes() == {"x": {1: "x_1", 2: "x_2"}}


def test_one_call_has_a_dynamic_batch_alone() -> None:
    observer = observed(Two(), (zeros(1, 5),))
    assert observer.infer_dynamic_shapes() == {"x": {}}
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=True) == {"x": {0: "batch"}}


def test_arguments_may_be_asked_for_before_the_shapes() -> None:
    """In the snippet they are: a sample has to do for a batch that is declared only afterwards."""
    observer = observed(Two(), (zeros(1, 5),))
    assert shapes(observer.infer_arguments()) == {"x": (3, 5)}
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=True) == {"x": {0: "batch"}}
    with pytest.warns(UserWarning, match=r"has given 'x' the size 3 along axis 0, which is constant now"):
        observer.infer_dynamic_shapes()
    assert shapes(observer.infer_arguments()) == {"x": (1, 5)}


@pytest.mark.parametrize("sizes", [(1, 1), (1, 0), (0, 3), (1, 2)], ids=str)
def test_no_dynamic_axis_of_the_sample_has_size_0_or_1(sizes: tuple[int, int]) -> None:
    observer = observed(Two(), *((zeros(1, size, 3), zeros(1, size, 3)) for size in sizes))
    axes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    found = shapes(observer.infer_arguments())
    assert found["x"] == found["y"]
    assert found["x"][2] == 3 and found["x"][0] >= 2
    assert all(found[name][axis] >= 2 for name, dynamic in axes.items() for axis in dynamic)


def test_an_exception_in_a_call_is_not_stored_and_shifts_nothing(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    model, observer = Picky(), InputObserver()
    with observer(model, store_n_calls=2):
        for batch in (2, 5, 3):
            if batch == 5:
                with pytest.raises(ValueError, match="five"):
                    model(zeros(batch, 4))
            else:
                model(zeros(batch, 4))
    assert len(observer) == 2
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert [row.inputs for row in stored(found)] == [{"x": (2, 4)}, {"x": (3, 4)}]
    assert found.success


def stored(found: Any) -> list[Any]:
    """Return the rows of the calls that were observed, without those of calls that are made up."""
    return [row for row in found if not row.sizes]


def exported(model: Any, observer: InputObserver, folder: Path, **settings: Any) -> Path:
    path = folder / "model.onnx"
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    torch.onnx.export(
        model,
        args,
        str(path),
        kwargs=kwargs,
        dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True),
        dynamo=True,
        verbose=False,
        **settings,
    )
    return path


def test_an_exact_match_is_a_success(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    model = Two()
    observer = observed(model, (torch.full((2, 3), 4.0), torch.ones(2, 3)))
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert [(row.absolute, row.share, row.success) for row in stored(found)] == [(0.0, 0.0, True)]
    assert found.success and found[0].torch_ms > 0 and found[0].onnx_ms > 0
    assert found[0].outputs == {"output": (2, 3)}


def test_a_file_that_is_wrong_is_found(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    observer = observed(Two(), (torch.ones(2, 3), zeros(2, 3)))
    other = Two()
    other.__dict__["forward"] = lambda x, y: x - y + torch.tensor([0.0, 0.0, 0.5])
    found = observer.check_discrepancies(exported(other, observer, tmp_path))
    assert not found.success
    assert (found[0].absolute, round(found[0].share, 3)) == (0.5, 0.333)
    assert "FAILED in 3 of 3 calls" in str(found)


def test_numbers_by_position_and_results_that_are_no_tensors(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    model = Mixed()
    observer = observed(model, (torch.ones(2, 3), 4), (torch.ones(3, 3), 4))
    assert observer.infer_dynamic_shapes() == {"x": {0: "batch"}, "times": None}
    assert observer.infer_arguments()["times"] == 4
    # torch.onnx.export takes no results but tensors, so the file is made of a model that gives these alone.
    tensors = Mixed()
    tensors.__dict__["forward"] = lambda x, times: (x * times, x, x + 1)
    found = observer.check_discrepancies(exported(tensors, observer, tmp_path))
    assert found.success
    assert set(found[0].outputs) == {"left", "right.0", "right.1.0"}


def test_inputs_of_the_file_are_found_by_name(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    onnx = pytest.importorskip("onnx", reason="the inputs of the file are put into another order")
    model = Two()
    observer = observed(model, (torch.ones(2, 3), zeros(2, 3)))
    path = exported(model, observer, tmp_path)
    proto = onnx.load(str(path))
    first, second = proto.graph.input
    del proto.graph.input[:]
    proto.graph.input.extend([second, first])
    onnx.save(proto, str(path))
    assert observer.check_discrepancies(path).success


def test_other_names_are_refused_or_given(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    model = Two()
    observer = observed(model, (torch.ones(2, 3), zeros(2, 3)))
    path = exported(model, observer, tmp_path, input_names=["a", "b"])
    with pytest.raises(
        ExportCompatError, match=r"the inputs 'a', 'b' of the file belong to nothing .*'x', 'y'.*names="
    ):
        observer.check_discrepancies(path)
    assert observer.check_discrepancies(path, names={"b": "y", "a": "x"}).success
    assert not observer.check_discrepancies(path, names={"b": "x", "a": "y"}).success


def test_nothing_compared_is_no_success(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    model = Two()
    observer = observed(model, (zeros(0, 3), zeros(0, 3)), (zeros(0, 3), zeros(0, 3)))
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert not found.success
    assert found[0].error == "nothing was compared: no output has an element"


def test_a_program_in_memory_is_checked(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")
    model = Two()
    observer = observed(model, (torch.ones(2, 3), zeros(2, 3)))
    program = torch.onnx.export(model, (), kwargs=observer.infer_arguments(), dynamo=True, verbose=False)
    assert observer.check_discrepancies(program).success


def test_the_model_is_as_it_was() -> None:
    model = Two()
    before = dict(vars(model))
    observed(model, (zeros(1, 2),))
    assert vars(model) == before
    own = lambda x: x  # noqa: E731 (a forward of the instance itself)
    model.__dict__["forward"] = own
    observed(model, (zeros(1, 2),))
    assert vars(model)["forward"] is own


def test_a_patch_of_the_class_that_begins_later_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model, observer = Two(), InputObserver()
    with observer(model):
        monkeypatch.setattr(Two, "forward", lambda self, x: x + 100)
        assert model(zeros(1)).item() == 100


def test_calls_are_stored_up_to_the_limit_of_each_use() -> None:
    model, observer = Two(), InputObserver()
    for limit in (2, 1):
        with observer(model, store_n_calls=limit):
            for batch in range(1, 5):
                model(zeros(batch, 2))
    assert len(observer) == 3
    assert [tuple(observer.infer_arguments(index)["x"].shape) for index in range(3)] == [(1, 2), (2, 2), (1, 2)]
    with pytest.raises(ExportCompatError, match="there is no stored call 3; there are 3"):
        observer.infer_arguments(3)


def test_stored_tensors_do_not_change_with_the_observed_ones() -> None:
    model, observer, x = Two(), InputObserver(), zeros(2, 2)
    with observer(model):
        model(x)
        x += 7
    assert not observer.infer_arguments(0)["x"].any()


def test_two_observers_at_once_on_two_parts() -> None:
    class Whole(Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = Two(), Picky()

        def forward(self, x: Any) -> Any:
            hidden = self.encoder(x, scale=2.0)
            return [self.decoder(hidden[:, :length]) for length in (3, 4, 5)]

    model, encoder, decoder = Whole(), InputObserver(), InputObserver()
    with encoder(model.encoder, store_n_calls=1), decoder(model.decoder, store_n_calls=2):
        model(zeros(2, 6))
        model(zeros(3, 6))
    assert (len(encoder), len(decoder)) == (1, 2)
    assert encoder.infer_dynamic_shapes(set_batch_dimension_for=True) == {"x": {0: "batch"}, "scale": None}
    assert decoder.infer_dynamic_shapes() == {"x": {1: "x_1"}}


def test_what_only_some_calls_have_is_empty_in_the_others() -> None:
    observer = observed(Images(), (zeros(1, 9), zeros(1, 3, 8, 8)), (zeros(1, 1),))
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=["tokens"]) == {
        "tokens": {0: "batch", 1: "tokens_1"},
        "pixels": {0: "pixels_0"},
    }
    assert tuple(observer.infer_arguments(1)["pixels"].shape) == (0, 3, 8, 8)
    sample = shapes(observer.infer_arguments())
    assert sample["pixels"][0] >= 2 and sample["pixels"][1:] == (3, 8, 8) and min(sample["tokens"]) >= 2


def test_what_is_said_of_images_that_a_call_does_not_have_is_empty() -> None:
    class Sized(Module):
        def forward(
            self, x: Any, pixel_values: Any = None, image_sizes: Any = None, image_position_ids: Any = None
        ) -> Any:
            return x if pixel_values is None else x + pixel_values.sum() + image_sizes.sum() + image_position_ids.sum()

    sizes = {"image_sizes": zeros(3, 2), "image_position_ids": zeros(3, 7, 2)}
    found = observed(Sized(), {"x": zeros(2, 4), "pixel_values": zeros(3, 5), **sizes}, {"x": zeros(2, 4), **sizes})
    assert shapes(found.infer_arguments(1)) == {
        "x": (2, 4),
        "pixel_values": (0, 5),
        "image_sizes": (0, 2),
        "image_position_ids": (0, 7, 2),
    }


def test_missing_is_for_what_no_call_has() -> None:
    observer = observed(Images(), (zeros(2, 9),), missing={"pixels": torch.empty((0, 3, 8, 8))})
    assert tuple(observer.infer_arguments(0)["pixels"].shape) == (0, 3, 8, 8)
    assert shapes(observer.infer_arguments())["pixels"] == (2, 3, 8, 8)
    both = observed(
        Images(), (zeros(2, 9),), (zeros(2, 9), zeros(1, 3, 8, 8)), missing={"pixels": torch.empty(0, 3, 8, 8)}
    )
    assert both.infer_dynamic_shapes()["pixels"] == {0: "pixels_0"}


def test_results_that_only_some_calls_have(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")

    class Optional(Module):
        def forward(self, x: Any, pixels: Any = None) -> Any:
            return {"y": x + 1} if pixels is None else {"y": x + 1, "seen": pixels * 2}

    model = Optional()
    observer = observed(model, (zeros(2, 3),), (zeros(2, 3), zeros(4, 5)))
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert found.success
    assert [sorted(row.outputs) for row in stored(found)] == [["y"], ["seen", "y"]]


def test_a_result_of_the_name_of_an_input_has_another(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")

    class Masked(Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return {"y": x * mask, "mask": mask[:, ::2]}

    calls = [{"x": torch.ones(2, size), "mask": torch.ones(2, size)} for size in (5, 8)]
    made = export(Masked(), calls, tmp_path / "model.onnx")
    # ONNX Runtime loads no file with two values of one name.
    assert made.discrepancies is not None and made.discrepancies.success
    assert {tuple(sorted(row.outputs)) for row in made.discrepancies} == {("output_mask", "y")}


def test_a_cache_beside_the_states_of_an_encoder_has_other_names_in_the_result(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the file is run")

    class Attending(Module):
        def forward(self, input_ids: Any, encoder_hidden_states: Any, past_key_values: Any) -> Any:
            keys = torch.cat([past_key_values["key"], input_ids[..., None] * 0.5], 1)
            return {"y": keys.sum(1) + encoder_hidden_states.sum(1), "past_key_values": {"key": keys}}

    calls = [
        {
            "input_ids": torch.ones(2, size, dtype=torch.long),
            "encoder_hidden_states": torch.ones(2, size + 3, 1),
            "past_key_values": {"key": torch.ones(2, size + 1, 1)},
        }
        for size in (5, 8)
    ]
    made = export(Attending(), calls, tmp_path / "model.onnx")
    assert made.discrepancies is not None and made.discrepancies.success
    assert {tuple(sorted(row.outputs)) for row in made.discrepancies} == {("present.key", "y")}


def test_a_state_without_a_text_is_no_cache() -> None:
    """Models that find voices in a sound have an argument of this name, too."""

    class Voices(Module):
        def forward(self, x: Any, state: Any) -> Any:
            return {"y": x.sum(1), "state": state + 1}

    calls = [{"x": torch.ones(batch, 3), "state": torch.zeros(2, batch, 4)} for batch in (1, 2)]
    observer = observed(Voices(), *((call["x"], call["state"]) for call in calls))
    assert observer.interface() == (["x", "state"], ["y", "output_state"])


def test_any_number_of_arguments(tmp_path: Path) -> None:
    model = Starred()
    observer = observed(model, (zeros(2, 3), zeros(2, 3), zeros(2, 3)), (zeros(4, 3), zeros(4, 3), zeros(4, 3)))
    assert observer.infer_dynamic_shapes() == {"x": {0: "batch"}, "others": ({0: "batch"}, {0: "batch"})}
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    assert (len(args), kwargs) == (3, {})
    with pytest.raises(ExportCompatError, match=r"as_args_kwargs=True"):
        observer.infer_arguments()
    # torch 2.9 needs a patch for them.
    with apply_patches():
        assert exported(model, observer, tmp_path).exists()


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([], "no call was observed"),
        ([{"x": 1}, {"x": 2}], "argument 'x' is 1 in call 0 and 2 in call 1"),
        ([(zeros(2, 2), None, 2.0), (zeros(2, 2),)], "argument 'scale' is 2.0 in call 0 and 1.0 in call 1"),
        ([(zeros(2, 2),), (3,)], "argument 'x' is a tensor in call 0 and 3 in call 1"),
        ([(zeros(2, 2),), (zeros(2, 2, 2),)], "argument 'x': 'x' has another number of axes in some calls"),
    ],
    ids=["none", "numbers", "default", "tensor", "rank"],
)
def test_calls_that_do_not_agree_name_the_argument(calls: list[Any], message: str) -> None:
    observer = observed(Two(), *calls)
    for infer in (observer.infer_arguments, observer.infer_dynamic_shapes):
        with pytest.raises(ExportCompatError, match=message):
            infer()


def test_structures_that_do_not_agree_name_the_argument() -> None:
    class Many(Module):
        def forward(self, items: Any) -> Any:
            return sum(items)

    observer = observed(Many(), ([zeros(1), zeros(1)],), ([zeros(1), zeros(1), zeros(1)],))
    with pytest.raises(ExportCompatError, match="argument 'items' has 2 tensors in call 0 .* and 3 in another"):
        observer.infer_arguments()


def test_an_argument_that_is_no_node_is_refused_in_the_call() -> None:
    class Opaque:
        shape = ()

    with pytest.raises(ExportCompatError, match=r"argument 'x' has a .*Opaque at 'x'.*apply_patches\(\)"):
        observed(Two(), (Opaque(),))


def test_names_that_do_not_exist_are_named() -> None:
    observer = observed(Two(), (zeros(1, 2),))
    with pytest.raises(ExportCompatError, match=r"set_batch_dimension_for has 'z', .* arguments: \['x'\]"):
        observer.infer_dynamic_shapes(set_batch_dimension_for={"z"})
    with pytest.raises(ExportCompatError, match=r"missing=\{'z': ...\} is no argument"):
        observed(Two(), (zeros(1, 2),), missing={"z": zeros(1)}).infer_arguments()
    with pytest.raises(ExportCompatError, match="Two has no method 'encode' to observe"):
        observed_method(Two(), "encode")


def observed_method(model: Any, name: str) -> None:
    with InputObserver()(model, method_name=name):
        pass


def test_another_model_needs_another_observer() -> None:
    observer = observed(Two(), (zeros(1, 2),))
    with pytest.raises(ExportCompatError, match="this observer holds calls of Two.forward"):
        with observer(Picky()):
            pass


def test_another_method_is_observed() -> None:
    class Encoder(Two):
        def encode(self, x: Any) -> Any:
            return x + 1

    model, observer = Encoder(), InputObserver()
    with observer(model, method_name="encode"):
        model.encode(zeros(2, 3))
        model(zeros(5, 5))
    assert shapes(observer.infer_arguments()) == {"x": (2, 3)}


def test_positions_that_a_forward_would_walk_for_are_stored_with_its_call() -> None:
    model, tokens = Walked(), torch.tensor([[0, 4, 5, 0, 6], [1, 2, 3, 4, 5]])
    first = with_positions(model, {"input_ids": tokens, "position_ids": None})["position_ids"]
    assert torch.equal(first, model.get_rope_index(tokens)[0])
    model(tokens)
    later = {"input_ids": tokens[:, :1], "past_key_values": Past()}
    assert with_positions(model, later)["position_ids"].tolist() == [[[4], [6]]] * 3
    assert "position_ids" not in with_positions(Two(), {"input_ids": tokens})
    assert shapes(observed(model, {"input_ids": tokens}).infer_arguments(0))["position_ids"] == (3, 2, 5)


class Settings:
    """A configuration; some releases have a default of the class."""

    cache_implementation: Any = "hybrid"

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)


@pytest.mark.parametrize("wanted", ["hybrid", "sliding_window", "static", None])
def test_a_cache_of_fixed_size_is_not_made_while_it_is_observed(wanted: str | None) -> None:
    """Gemma2 to 4.52 generates with a cache that has room for one length; who wants `static` gets it."""
    model = Picky()
    model.generation_config, model.config = Settings(cache_implementation=wanted), Settings(text_config=Settings())
    places = (model.generation_config, model.config, model.config.text_config)
    before = [dict(vars(place)) for place in places]
    with InputObserver()(model):
        assert [place.cache_implementation for place in places] == [wanted if wanted == "static" else None, None, None]
    assert [vars(place) for place in places] == before
    assert [place.cache_implementation for place in places] == [wanted, "hybrid", "hybrid"]


def test_what_is_behind_the_last_token_is_no_input() -> None:
    class Counting(Module):
        def forward(self, input_ids: Any, last_cache_position: int = 0) -> Any:
            return input_ids + 0

    observer, model = InputObserver(), Counting()
    with observer(model):
        model(torch.ones(2, 5, dtype=torch.int64), last_cache_position=5)
        model(torch.ones(2, 6, dtype=torch.int64), last_cache_position=6)
    assert list(observer.infer_arguments()) == ["input_ids"]


def test_a_cache_that_stays_empty_is_no_input() -> None:
    """`generate` makes a cache for OpenAI's GPT too, whose `forward` takes it behind `**` and leaves it alone."""

    class Old(Module):
        def forward(self, input_ids: Any, **kwargs: Any) -> Any:
            return input_ids + 0

    observer, model = InputObserver(), Old()
    with observer(model):
        for length in (5, 6):
            kept: dict[str, Any] = {
                "past_key_values": [],
                "next_sequence_length": length,
                "is_first_iteration": length == 5,
            }
            model(torch.ones(2, length, dtype=torch.int64), **kept)
    assert list(observer.infer_arguments()) == ["input_ids"]


def test_states_of_the_last_token_alone_are_compared_with_those_of_the_last_token() -> None:
    states, logits = torch.rand(2, 8, 4), torch.rand(2, 8, 16)
    eager = {"logits": logits[:, -1:], "states": states[:, -1:], "present": states}
    file = {"logits": logits, "states": states, "present": states}
    assert compared({"call": "c"}, dict(file), eager, 1, None).success
    assert not compared({"call": "c"}, {**file, "states": states + 1}, eager, 1, None).success
    assert "shape" in compared({"call": "c"}, dict(file), eager, 0, None).error


class Answering(Module):
    """A model of images that writes a text, which `forward` is given and `generate` makes itself, as of BLIP."""

    def forward(self, pixel_values: Any, decoder_input_ids: Any) -> Any:
        """Return `(batch, tokens)`."""
        return pixel_values.sum(1, keepdim=True) + decoder_input_ids

    def generate(self, pixel_values: Any, **kwargs: Any) -> Any:
        """Refuse what it makes itself."""
        assert not kwargs, kwargs
        return self(pixel_values, torch.zeros(len(pixel_values), 1).long())


def test_a_call_with_the_text_of_a_decoder_is_for_forward_alone() -> None:
    call = {"pixel_values": torch.rand(2, 3), "decoder_input_ids": torch.arange(8).reshape(2, 4)}
    found = observe(Answering(), call)
    assert [name for name, value in found.infer_arguments().items() if value is not None] == list(call)


class Writing(Module):
    """A decoder without a cache."""

    def forward(self, input_ids: Any) -> Any:
        """Return `(batch, tokens, 3)`."""
        return input_ids[:, :, None] * torch.ones(3)

    def generate(self, input_ids: Any, max_new_tokens: int) -> Any:
        """Return the tokens with new ones, which are int64 as `argmax` makes them."""
        for _ in range(max_new_tokens):
            input_ids = torch.cat([input_ids, self(input_ids).argmax(-1)[:, -1:]], 1)
        return input_ids


def test_tokens_are_of_one_type_in_all_calls() -> None:
    observer = observe(Writing(), {"input_ids": torch.ones(2, 4, dtype=torch.int32)})
    assert [call["input_ids"].dtype for call in observer._alignment().calls] == [torch.int64] * 3


class Composed(Module):
    """Asks the configuration of its text model what to return, and not its own."""

    def __init__(self, is_wanted: bool) -> None:
        super().__init__()
        text = SimpleNamespace(output_hidden_states=is_wanted)
        self.config = SimpleNamespace(output_hidden_states=True, get_text_config=lambda: text)

    def forward(self, x: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get("output_hidden_states", self.config.get_text_config().output_hidden_states)
        return (x, x + 1) if wanted else (x,)


@pytest.mark.parametrize("is_wanted", [False, True])
def test_what_a_text_model_does_not_know_by_itself_is_told(is_wanted: bool) -> None:
    model = Composed(is_wanted)
    observer = observed(model, {"x": zeros(2, 3), "output_hidden_states": True})
    arguments = observer.infer_arguments()
    assert len(model(**arguments)) == 2
    assert ("output_hidden_states" in arguments) is not is_wanted


def test_an_output_that_eager_adds_last_is_where_a_graph_has_it() -> None:
    generic = pytest.importorskip("transformers.utils.generic", reason="its outputs are compared")

    @dataclass
    class Output(generic.ModelOutput):  # type: ignore[misc,name-defined,unused-ignore]
        first: Any = None
        hidden_states: Any = None
        mask: Any = None

    class Adding(Module):
        def forward(self, x: Any) -> Any:
            made = Output(first=x, mask=x > 0)
            made["hidden_states"] = (x + 1, x + 2)
            return made

    x = torch.randn(2, 3)
    tree, leaves = flatten("", Adding()(x))
    outputs = torch.export.export(Adding(), (x,)).run_decompositions().graph_module(x)
    same = [torch.equal(leaves[path], output) for path, output in zip(tree.leaves(), outputs, strict=True)]
    assert same == [True] * 4
    assert list(tree.leaves()) == ["first", "hidden_states.0", "hidden_states.1", "mask"]
    rebuilt = tree.build(leaves.__getitem__)
    assert torch.equal(rebuilt.mask, x > 0)
    assert torch.equal(rebuilt.hidden_states[1], x + 2)
