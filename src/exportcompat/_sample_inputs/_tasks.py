"""The tasks that a model can be exported for, and which of them a model is for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exportcompat.registry import ExportCompatError, did_you_mean

WITH_PAST = "-with-past"
"""The end of the name of a task whose model is run step by step with a cache."""

TASKS: Mapping[str, tuple[str, ...]] = {
    "text2text-generation-with-past": ("AutoModelForSeq2SeqLM",),
    "automatic-speech-recognition-with-past": ("AutoModelForSpeechSeq2Seq",),
    "image-to-text-with-past": ("AutoModelForImageTextToText", "AutoModelForVision2Seq"),
    "image-text-to-text-with-past": ("AutoModelForImageTextToText", "AutoModelForVision2Seq"),
    "audio-text-to-text-with-past": ("AutoModelForMultimodalLM", "AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq"),
    "text-generation-with-past": ("AutoModelForCausalLM",),
    "text-generation": ("AutoModelForCausalLM",),
    "fill-mask": ("AutoModelForMaskedLM",),
    "text-classification": ("AutoModelForSequenceClassification",),
    "token-classification": ("AutoModelForTokenClassification",),
    "question-answering": ("AutoModelForQuestionAnswering",),
    "multiple-choice": ("AutoModelForMultipleChoice",),
    "next-sentence-prediction": ("AutoModelForNextSentencePrediction",),
    "table-question-answering": ("AutoModelForTableQuestionAnswering",),
    "image-classification": ("AutoModelForImageClassification",),
    "object-detection": ("AutoModelForObjectDetection",),
    "zero-shot-image-classification": ("AutoModelForZeroShotImageClassification",),
    "zero-shot-object-detection": ("AutoModelForZeroShotObjectDetection",),
    "semantic-segmentation": ("AutoModelForSemanticSegmentation",),
    "instance-segmentation": ("AutoModelForInstanceSegmentation",),
    "universal-segmentation": ("AutoModelForUniversalSegmentation",),
    "image-segmentation": ("AutoModelForImageSegmentation",),
    "mask-generation": ("AutoModelForMaskGeneration",),
    "depth-estimation": ("AutoModelForDepthEstimation",),
    "normal-estimation": ("AutoModelForNormalEstimation",),
    "image-matting": ("AutoModelForImageMatting",),
    "image-to-image": ("AutoModelForImageToImage",),
    "masked-im": ("AutoModelForMaskedImageModeling",),
    "keypoint-detection": ("AutoModelForKeypointDetection",),
    "keypoint-matching": ("AutoModelForKeypointMatching",),
    "pose-estimation": ("AutoModelForPoseEstimation",),
    "video-classification": ("AutoModelForVideoClassification",),
    "visual-question-answering": ("AutoModelForVisualQuestionAnswering",),
    "document-question-answering": ("AutoModelForDocumentQuestionAnswering",),
    "ctc": ("AutoModelForCTC",),
    "audio-classification": ("AutoModelForAudioClassification",),
    "audio-frame-classification": ("AutoModelForAudioFrameClassification",),
    "audio-xvector": ("AutoModelForAudioXVector",),
    "text-to-audio": ("AutoModelForTextToWaveform", "AutoModelForTextToSpectrogram"),
    "time-series-prediction": ("AutoModelForTimeSeriesPrediction",),
    "feature-extraction": ("AutoModel", "AutoModelForTextEncoding", "AutoBackbone"),
    "pretraining": ("AutoModelForPreTraining",),
}
"""The classes that load a model for each task, the first that a release has; most names are those of optimum.

An architecture is of the first task whose classes have it.
"""

PAIRS = ("text2text-generation-with-past", "automatic-speech-recognition-with-past", "image-to-text-with-past")
"""The tasks of encoder-decoders, by what their encoder takes: a text, a sound or an image."""

_WITHOUT_ENCODER = {
    "text2text-generation-with-past": "audio-text-to-text-with-past",
    "automatic-speech-recognition-with-past": "audio-text-to-text-with-past",
    "image-to-text-with-past": "image-text-to-text-with-past",
}
"""The task of a decoder that transformers lists together with encoder-decoders."""

_SUFFIXES = {
    "ForCausalLM": "text-generation-with-past",
    "LMHeadModel": "text-generation-with-past",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForImageClassification": "image-classification",
    "ForCTC": "ctc",
    "Model": "feature-extraction",
    "Encoder": "feature-extraction",
    "WithProjection": "feature-extraction",
}
"""The task of an architecture that no class lists, by the end of its name."""


_OTHER_NAMES = {
    "automatic-speech-recognition": "'ctc', or 'automatic-speech-recognition-with-past' for an encoder-decoder",
    "text2text-generation": "'text2text-generation-with-past'",
    "image-to-text": "'image-to-text-with-past'",
    "image-text-to-text": "'image-text-to-text-with-past'",
    "sequence-classification": "'text-classification'",
    "sentence-similarity": "'feature-extraction'",
}
"""What a task is called here that optimum, or a class of transformers, calls otherwise."""


@dataclass(frozen=True)
class Task:
    """What a model is loaded for.

    Attributes:
        name: one of `TASKS`.
        loader: the name of the class of transformers that loads the model.
    """

    name: str
    loader: str

    @property
    def generates(self) -> bool:
        """Say whether the model makes a text step by step, with a cache."""
        return self.name.endswith(WITH_PAST)


def check_task(name: str | None) -> None:
    """Refuse a task that does not exist.

    Raises:
        ExportCompatError: there is none; the message names similar ones, or all.
    """
    if name is not None and name not in TASKS:
        known = _OTHER_NAMES.get(name)
        hint = f"; here it is {known}" if known else did_you_mean(name, TASKS) or f"; tasks: {', '.join(TASKS)}"
        raise ExportCompatError(f"there is no task {name!r}{hint}")


def task_of(transformers: Any, config: Any, source: str, wanted: str | None) -> Task:
    """Return the task of a model, and how to load it for that.

    Args:
        transformers: the package.
        config: the model's configuration.
        source: what to call the model in a message.
        wanted: one of `TASKS`; None for the one of the architecture.

    Raises:
        ExportCompatError: the architecture is of no task that is known.
    """
    architecture = next(iter(getattr(config, "architectures", None) or []), "")
    found = _of_architecture(transformers, config, architecture)
    if found is None and wanted is None:
        named = f"the architecture {architecture!r}, which is of no known task" if architecture else "no architectures"
        raise ExportCompatError(f"the configuration of {source!r} has {named}; give --task, one of {', '.join(TASKS)}")
    name = wanted or found or ""
    is_custom = bool(getattr(config, "auto_map", None))
    if name == found and not is_custom and hasattr(transformers, architecture):
        return Task(name, architecture)
    return Task(name, _loader(transformers, config, name))


def _of_architecture(transformers: Any, config: Any, architecture: str) -> str | None:
    names = [name for name, autos in TASKS.items() if _lists(transformers, config, autos, architecture)]
    own = getattr(config, "auto_map", None) or {}
    names = names or [name for name, autos in TASKS.items() if any(auto in own for auto in autos)]
    ends = [task for suffix, task in _SUFFIXES.items() if architecture.endswith(suffix)]
    found = next(iter([*names, *ends]), None)
    is_whole = getattr(config, "is_encoder_decoder", False)
    return found if found is None or is_whole else _WITHOUT_ENCODER.get(found, found)


def _lists(transformers: Any, config: Any, autos: tuple[str, ...], architecture: str) -> bool:
    """Say whether one of the classes loads models of a configuration's type as an architecture."""
    return any(architecture in _classes(transformers, auto, config) for auto in autos)


def _classes(transformers: Any, auto: str, config: Any) -> Iterator[str]:
    # Names alone: to ask for classes would import every model of the type.
    table = getattr(getattr(transformers, auto, None), "_model_mapping", None)
    found = getattr(table, "_model_mapping", {}).get(getattr(config, "model_type", ""), ())
    yield from ((found,) if isinstance(found, str) else found)


def _loader(transformers: Any, config: Any, name: str) -> str:
    """Return the class for a task: one that lists the type of the model, or the first that the release has."""
    own = getattr(config, "auto_map", None) or {}
    known = [auto for auto in TASKS[name] if hasattr(transformers, auto)]
    listing = [auto for auto in known if auto in own or any(_classes(transformers, auto, config))]
    if not known:
        raise ExportCompatError(f"the installed transformers {transformers.__version__} has no class for {name!r}")
    return (listing or known)[0]
