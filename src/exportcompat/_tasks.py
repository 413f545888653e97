"""The tasks that a model can be exported for."""

from collections.abc import Mapping

WITH_PAST = "text-generation-with-past"

TASKS: Mapping[str, str] = {
    WITH_PAST: "AutoModelForCausalLM",
    "text-generation": "AutoModelForCausalLM",
    "feature-extraction": "AutoModel",
    "fill-mask": "AutoModelForMaskedLM",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification",
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
