"""One step of one result in this process; the command `lanes` runs it."""

import argparse
import json
from pathlib import Path

from exportcompat.matrix.cases import find_case

from ._catalogue import find_lane
from ._steps import compare_step, export_step


def main() -> None:
    """Run a step and print what came of it as a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m exportcompat.matrix.lanes", description=__doc__)
    parser.add_argument("step", choices=("export", "compare"))
    parser.add_argument("lane")
    parser.add_argument("case")
    parser.add_argument("folder", type=Path, help="where the result is")
    parser.add_argument("--plain", action="store_true", help="do not apply patches")
    arguments = parser.parse_args()
    lane, case = find_lane(arguments.lane), find_case(arguments.case)
    if arguments.step == "export":
        found = export_step(lane, case, arguments.folder, patched=not arguments.plain)
    else:
        found = compare_step(lane, case, arguments.folder)
    print(f"\n{json.dumps(found)}")


if __name__ == "__main__":
    main()
