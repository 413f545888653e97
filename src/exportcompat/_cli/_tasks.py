"""The tasks that a model can be exported for."""

from collections.abc import Mapping

WITH_PAST = "text-generation-with-past"
PAIRS: Mapping[str, str] = {
    "text2text-generation-with-past": "AutoModelForSeq2SeqLM",
    "automatic-speech-recognition-with-past": "AutoModelForSpeechSeq2Seq",
}
"""The tasks of encoder-decoders, by what their encoder takes: a text or a sound."""

TASKS: Mapping[str, str] = {
    WITH_PAST: "AutoModelForCausalLM",
    "text-generation": "AutoModelForCausalLM",
    "feature-extraction": "AutoModel",
    "fill-mask": "AutoModelForMaskedLM",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification",
    **PAIRS,
}
"""The class that loads a model for each task; the names are those of optimum."""

SUFFIXES = {
    "ForCausalLM": WITH_PAST,
    "LMHeadModel": WITH_PAST,
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForImageClassification": "image-classification",
    "Model": "feature-extraction",
}
"""The task of an architecture, by the end of its name."""
