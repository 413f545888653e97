"""Defects of one model or one head that have nothing in common with those of another area.

What lives here: Gemma 3n's quantile and its clipped weight, VITS' splines, SEW's lengths, Moonshine's mask, and heads
that classify by the state at the end of a text, or know voices. A module comes here only if neither its defect nor its
remedy is one of another area; when a second model shows the same, it moves there and gets a name that says what is
broken instead of whose it is.

Helpers: `_eos_pooling` looks the last end of each text up in a graph, `toolkit.function_modes.run_under` answers a
torch function otherwise while upstream's own method runs, and `toolkit.tracing.is_traced` says when.

Upstream: the `modeling_*.py` of Gemma 3n, VITS, SEW, SEW-D, Moonshine, BART, T5 and their copies.
"""
