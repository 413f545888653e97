"""Heads that classify pick the states of ends of texts by a branch on data, and so many that nobody knows.

Symptom: `GuardOnDataDependentSymNode` for `BartForSequenceClassification` and that of mBART, LED, MVP, PLBart,
BigBird-Pegasus, T5, mT5 and UMT5, to 4.57; torch 2.6: an operator whose output has a shape that depends on data, later.
Cause: `if len(torch.unique_consecutive(eos_mask.sum(1))) > 1`; `states[eos_mask, :].view(batch, -1, channels)[:, -1]`.
What is done: while it is traced, the last end of each text is looked up. A text without one has an index out of range,
so the runtime stops, as upstream does. Texts with different numbers of ends, which upstream refuses, are right.
Can go: with the releases; 5.0 has an assertion in place of the branch, of which torch 2.7 makes a graph.
"""

from exportcompat.patches.toolkit.records import source, variants

SPECS = variants(
    {
        "id": "eos-pooling",
        "targets": ("methods_using(transformers:eos_mask)",),
        "replacement": "exportcompat.patches.single_models._eos_pooling:patch_eos_pooling_head",
        "reason": "Whether all texts have as many ends depends on data: classifiers with a decoder have no graph.",
        "upstream": (source("models/bart/modeling_bart.py", "v4.57.6"),),
        "proofs": ("bart_classes", "t5_classes"),
        "kind": "wrap",
    },
    {
        "transformers>=4.44,<5": {},
        ("transformers>=5", "torch>=2.6,<2.7"): {},
    },
)
