"""transformers.js, in Node, loads folders that the command line has laid out for it, and computes what eager does.

`nox -s node` installs it and names its folder; nothing is fetched here.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
transformers = pytest.importorskip("transformers", reason="the models are of transformers")
tokenizers = pytest.importorskip("tokenizers", reason="transformers brings it")

from exportcompat._cli._transformers_js import TRANSFORMERS_JS, lay_out

FOLDER = os.environ.get("EXPORTCOMPAT_TRANSFORMERS_JS", "")
PACKAGE = Path(FOLDER, "node_modules", "@huggingface", "transformers", "package.json")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    not (FOLDER and PACKAGE.is_file() and NODE),
    reason="EXPORTCOMPAT_TRANSFORMERS_JS names no folder with @huggingface/transformers, or there is no node",
)
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
}
GREEDY = {"max_new_tokens": 16, "min_new_tokens": 16, "do_sample": False}
Run = Callable[..., tuple[int, str, str]]


def tokenizer() -> Any:
    """Return a tokenizer of bytes."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({item: index for index, item in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, model_input_names=["input_ids", "attention_mask"]
    )


def text_model() -> Any:
    config = transformers.LlamaConfig(**SIZES, vocab_size=256, bos_token_id=None, eos_token_id=None)
    return transformers.LlamaForCausalLM(config)


def image_model() -> Any:
    return transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, image_size=32, patch_size=8))


def sound_model() -> Any:
    settings = {"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (10, 8), "conv_bias": True}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    config = transformers.Wav2Vec2Config(**SIZES, **settings, **positions, vocab_size=32, feat_extract_norm="layer")
    return transformers.Wav2Vec2ForCTC(config)


@pytest.fixture
def exported(run: Run, tmp_path: Path) -> Callable[..., tuple[Any, Path]]:
    """Return a function that makes a model and the folder that transformers.js loads."""

    def export(make: Callable[[], Any], *processors: Any) -> tuple[Any, Path]:
        torch.manual_seed(0)
        model, source, out = make().eval(), tmp_path / "model", tmp_path / "out"
        for item in (model, *processors):
            item.save_pretrained(source)
        status, _, messages = run("export", source, out, "--layout", TRANSFORMERS_JS, "--quiet")
        assert status == 0, messages
        return model, out

    return export


def in_node(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tensors of each call that transformers.js runs."""
    done = subprocess.run(
        [str(NODE), str(Path(__file__).with_name("run_in_node.cjs")), FOLDER],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [{name: torch.tensor(item["data"]).reshape(item["dims"]) for name, item in call.items()} for call in found]


def given(tensor: Any) -> dict[str, Any]:
    kind = "float32" if tensor.is_floating_point() else "int64"
    return {"type": kind, "dims": list(tensor.shape), "data": tensor.flatten().tolist()}


@needs_node
def test_a_text_is_continued_as_eager_does(exported: Any) -> None:
    model, folder = exported(text_model, tokenizer())
    batch = torch.randint(0, 256, (3, 7))
    inputs = {"input_ids": batch, "attention_mask": torch.ones_like(batch)}
    call = {"folder": str(folder), "class": "AutoModelForCausalLM", "generate": GREEDY}
    tokens, words = in_node(
        {**call, "inputs": {name: given(item) for name, item in inputs.items()}}, {**call, "text": "the cat"}
    )
    assert torch.equal(tokens["tokens"], model.generate(**inputs, **GREEDY))
    wanted = model.generate(**tokenizer()("the cat", return_tensors="pt"), **GREEDY)
    assert torch.equal(words["tokens"], wanted)


@needs_node
@pytest.mark.parametrize(
    ("make", "kind", "name", "shape"),
    [
        (image_model, "AutoModelForImageClassification", "pixel_values", (3, 3, 32, 32)),
        (sound_model, "AutoModelForCTC", "input_values", (3, 5000)),
    ],
    ids=["image", "sound"],
)
def test_logits_are_those_of_eager(make: Any, kind: str, name: str, shape: tuple[int, ...], exported: Any) -> None:
    model, folder = exported(make)
    inputs = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    (found,) = in_node({"folder": str(folder), "class": kind, "inputs": {name: given(inputs)}, "outputs": ["logits"]})
    with torch.no_grad():
        wanted = model(inputs).logits
    assert wanted.abs().max() > 0.1
    assert torch.allclose(found["logits"], wanted, atol=1e-3)


def test_a_batch_has_the_name_that_is_known(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the file is read")
    kind, helper = onnx.TensorProto.FLOAT, onnx.helper
    values = [helper.make_tensor_value_info(name, kind, ["batch", 2, "past_sequence"]) for name in ("x", "y")]
    node = helper.make_node("Identity", ["x"], ["y"])
    onnx.save(helper.make_model(helper.make_graph([node], "graph", values[:1], values[1:])), tmp_path / "model.onnx")
    (tmp_path / "genai_config.json").write_text("{}", "utf-8")
    lay_out(tmp_path, TRANSFORMERS_JS)
    assert [item.name for item in tmp_path.iterdir()] == ["onnx"]
    graph = onnx.load(str(tmp_path / "onnx" / "model.onnx")).graph
    for value in (*graph.input, *graph.output):
        assert [item.dim_param for item in value.type.tensor_type.shape.dim] == ["batch_size", "", "past_sequence"]
