"""The tiny GPT in plain torch, and variants of it, each with one habit that models have."""

from ._case import Case, call

_MODELS, _LIMITED = "_toy_gpt_models", "_toy_gpt_limited"


def _variant(name: str, title: str) -> Case:
    return Case(f"{name}_gpt", f"tiny GPT {title}", call(f"{_MODELS}:make_tiny_gpt", name))


def _model(name: str, title: str) -> Case:
    return Case(f"{name}_gpt", f"tiny GPT {title}", call(f"_toy_gpt_{name}:make_{name}_gpt"))


CASES = (
    Case(
        "tiny_gpt",
        "tiny GPT (plain torch)",
        call(f"{_MODELS}:make_tiny_gpt"),
        shown=True,
        everywhere=True,
        telling=True,
    ),
    _variant("stateful", "that stores a tensor"),
    Case(
        "buffered_gpt",
        "tiny GPT with a buffer that is a parameter",
        call(f"{_MODELS}:make_tiny_gpt", "buffered"),
        # It is put back twice where the whole program is traced once more.
        exclude=("torch-onnx-repeated-trace",),
    ),
    _variant("open", "that takes its cache through **kwargs"),
    _variant("squeezed", "that squeezes an axis that is not 1"),
    _variant("steadied", "that adds a small number"),
    _variant("subtracting", "that subtracts integers from a number"),
    _variant("checking", "that checks the elements of a tensor"),
    Case("vmap_gpt", "tiny GPT, mask by vmap", call(f"{_MODELS}:make_tiny_gpt", "vmap")),
    _model("offset", "that adds an integer to a weight"),
    _model("choosing", "that chooses between masks"),
    _model("hooking", "that installs a hook"),
    _model("retried", "that the second try captures"),
    _model("repeating", "that repeats items by a size"),
    _model("scaling", "that scales integers by a share of a size"),
    _model("dividing", "that rounds quotients"),
    _model("counting", "that makes a number of a size"),
    _model("filling", "that fills a part of a tensor"),
    _model("growing", "that lengthens a table"),
    _model("ranking", "that ranks tokens"),
    _model("taking", "that takes elements along an axis"),
    _model("recurring", "with recurrent layers"),
    _model("rotating", "that turns complex vectors"),
    _model("rounding", "that rounds a size"),
    _model("spacing", "that spaces tokens"),
    _model("packing", "with an encoder that is told of padding"),
    _model("unpacking", "with packed texts"),
    _model("voting", "that asks what most tokens are"),
    _model("pooling", "that pools tokens into windows"),
    _model("stacking", "with layers of torch that have a causal mask"),
    Case(
        "half_sum_gpt",
        "tiny GPT that ends with a sum in half precision",
        call("_toy_gpt_half_sum:make_half_sum_gpt"),
    ),
    *(
        Case(
            f"{name}_gpt",
            f"tiny GPT with a limit that {what} must tell",
            call(f"{_LIMITED}:make_limited_gpt"),
            write=call(f"{_LIMITED}:{write}"),
        )
        for name, what, write in (
            ("limited_capture", "a capture", "capture_told"),
            ("limited", "an export", "export_told"),
        )
    ),
)
