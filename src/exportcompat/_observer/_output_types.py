"""Do the results of a file have the types that they have in eager? Once for a file: they are the same in each call."""

from exportcompat._verification import (
    Discrepancies,
    Discrepancy,
    OnnxFile,
    dtype_name,
    in_a_graph,
    placed,
    said_of_types,
)

from ._compared_call import Observed, is_ours, may_lack_results, tensor_outputs

_NONE_OF_OURS = "of another type than in eager, which a file of another exporter may promise"


def compare_types(observed: Observed, file: OnnxFile) -> Discrepancies:
    """Compare the types that a file declares with those of the model as it is, not with those of a copy in float32.

    Returns:
        a failed row where types differ, and none where they do not. A file of others has its own contract, such as
        logits in float32 of a model in float16: there it is a note.

    Raises:
        ExportCompatError: the file has not as many results as the model.
    """
    results = tensor_outputs(observed.records, observed.aligned)
    partly = may_lack_results(observed.aligned, file)
    outputs = {name: output for output, name in placed(file.outputs, list(results.values()), partly=partly).items()}
    apart = {}
    for path, name in results.items():
        found = file.types.get(outputs.get(name, ""))
        tensors = [item.outputs.tensors[path] for item in observed.records if path in item.outputs.tensors]
        for wanted in (dtype_name(in_a_graph(tensor).dtype) for tensor in tensors):
            if found is not None and found != wanted:
                apart[name] = (found, wanted)
    if not apart:
        return Discrepancies([])
    if not is_ours(file):
        return Discrepancies([], [f"{_NONE_OF_OURS}: {said_of_types(apart)}"])
    row = Discrepancy(call="types", absolute=0.0, relative=0.0, share=0.0, error=said_of_types(apart))
    return Discrepancies([row])
