"""Defects of mixtures of experts: loops and groups whose length is how many tokens were routed where.

What lives here: the four forms in which transformers runs experts, none of which a graph can hold. A loop over the
experts that were hit, rows that are sorted by expert and cut, rows that are taken one group after the other, and one
grouped matrix product. The router is right everywhere, so nothing is done to it.

Helpers: `_dense_loop.patch_expert_loop` runs a loop over all experts, where one without a token multiplies no rows;
`_operator_lookup` finds that loop in the classes of 5.0. All experts are computed and what was not routed to them is
set to 0: exact, and as expensive as the number of experts. Answer "which experts were hit?" with "all of them".

Upstream: `transformers/integrations/moe.py` (from 5.0), and the loops in the `modeling_*.py` of Mixtral, Qwen-MoE,
DeepSeek-V2, Jamba, DBRX, LongCat-Flash, NLLB-MoE, Switch Transformers and Aria.
"""
